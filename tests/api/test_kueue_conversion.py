import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api import generate

from pykueue.api import registry
from pykueue.api.kueue import conversion

SCHEME = registry.scheme()
KINDS = sorted({kind.kind for kind in SCHEME if kind.group == "kueue.x-k8s.io"})
RELAXED = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])


def written(version, kind, **parts):
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "one"}, **parts}


def of(version, kind):
    return generate.objects(SCHEME.for_kind(f"kueue.x-k8s.io/{version}", kind))


@pytest.mark.parametrize("kind", KINDS)
@RELAXED
@given(st.data())
def test_v1beta2_survives_the_way_there_and_back(kind, data):
    obj = data.draw(of("v1beta2", kind).filter(is_coherent))
    back = conversion.to_v1beta2(conversion.to_v1beta1(copy.deepcopy(obj)))
    back.setdefault("status", {})
    obj.setdefault("status", {})
    assert back == obj


def is_coherent(workload):
    """Slices whose lists have the lengths that they state, as CEL rules ask."""
    assignments = workload.get("status", {}).get("admission", {}).get("podSetAssignments", [])
    return not any("topologyAssignment" in assignment for assignment in assignments)


def in_todays_words(obj):
    """The v1beta1 spellings that v1beta2 has only one of, and what only controllers write."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility", {})
    for field, value in fungibility.items():
        fungibility[field] = "MayStopSearch" if value in ("Borrow", "Preempt") else value
    if spec.get("priorityClassSource") == "":
        del spec["priorityClassSource"]
    elif "priorityClassSource" in spec:
        spec.setdefault("priorityClassName", "")
    for dropped in ("pendingWorkloadsStatus", "flavors"):
        status.pop(dropped, None)
    if obj["kind"] != "LocalQueue":
        status.get("fairSharing", {}).pop("admissionFairSharingStatus", None)
    return obj


@pytest.mark.parametrize("kind", KINDS)
@RELAXED
@given(st.data())
def test_v1beta1_survives_the_way_there_and_back(kind, data):
    obj = data.draw(of("v1beta1", kind).filter(is_coherent))
    back = conversion.to_v1beta1(conversion.to_v1beta2(copy.deepcopy(obj)))
    expected = in_todays_words(copy.deepcopy(obj))
    back.setdefault("status", {})
    expected.setdefault("status", {})
    if expected.get("spec", {}).get("retryDelayMinutes") == 15:
        del expected["spec"]["retryDelayMinutes"]
    assert back == expected


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("ClusterQueue", {"spec": {"cohort": "c"}}, {"spec": {"cohortName": "c"}}),
        (
            "ClusterQueue",
            {"spec": {"admissionChecks": ["a"], "admissionChecksStrategy": {"admissionChecks": [{"name": "b"}]}}},
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}},
        ),
        (
            "ClusterQueue",
            {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
            {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
        ),
        ("LocalQueue", {"status": {"flavorUsage": [], "flavors": []}}, {"status": {"flavorsUsage": []}}),
        (
            "MultiKueueCluster",
            {"spec": {"kubeConfig": {"location": "x", "locationType": "Secret"}}},
            {"spec": {"clusterSource": {"kubeConfig": {"location": "x", "locationType": "Secret"}}}},
        ),
        (
            "Workload",
            {"spec": {"priorityClassName": "p", "priorityClassSource": "scheduling.k8s.io/priorityclass"}},
            {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}}},
        ),
        (
            "Workload",
            {"status": {"accumulatedPastExexcutionTimeSeconds": 3}},
            {"status": {"accumulatedPastExecutionTimeSeconds": 3}},
        ),
        ("AdmissionCheck", {"spec": {"retryDelayMinutes": 15}}, {"spec": {}}),
    ],
)
def test_fields_move(kind, old, new):
    assert conversion.to_v1beta2(written("v1beta1", kind, **old)) == written("v1beta2", kind, **new)


def test_a_topology_assignment_is_encoded_and_decoded():
    domains = [{"values": ["rack-1", "host-a"], "count": 2}, {"values": ["rack-1", "host-b"], "count": 2}]
    plain = {"levels": ["rack", "kubernetes.io/hostname"], "domains": domains}
    obj = written("v1beta1", "Workload", status={"admission": {"podSetAssignments": [{"topologyAssignment": plain}]}})
    there = conversion.to_v1beta2(obj)
    (assignment,) = there["status"]["admission"]["podSetAssignments"]
    assert assignment["topologyAssignment"]["slices"] == [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"universal": "rack-1"}, {"individual": {"prefix": "host-", "roots": ["a", "b"]}}],
            "podCounts": {"universal": 2},
        }
    ]
    assert conversion.to_v1beta1(there) == obj


def test_what_one_version_lacks_waits_in_an_annotation():
    obj = written("v1beta2", "MultiKueueConfig", spec={"clusters": ["a"], "quotaManagement": "Manual"})
    old = conversion.to_v1beta1(obj)
    assert old["spec"] == {"clusters": ["a"]}
    assert old["metadata"]["annotations"] == {conversion.UNCONVERTED_ANNOTATION: '{"spec.quotaManagement": "Manual"}'}


def test_the_original_is_left_alone():
    obj = written("v1beta1", "ClusterQueue", spec={"cohort": "c"})
    conversion.to_v1beta2(obj)
    assert obj["spec"] == {"cohort": "c"}


@pytest.mark.parametrize("part", [None, 3, "x", [], [1], {"podSets": 3}, {"podSets": [None]}])
def test_nonsense_is_left_for_validation(part):
    for kind in KINDS:
        obj = written("v1beta1", kind, spec=part, status=part, metadata=part)
        assert conversion.to_v1beta2(obj)["kind"] == kind
