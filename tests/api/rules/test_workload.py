import pytest

from pykueue.api.errors import ApiError

RESERVED = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "QuotaReserved",
    "message": "",
    "lastTransitionTime": "2026-01-15T12:00:00Z",
}
ASSIGNMENT = {"name": "main", "count": 2, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}
ADMISSION = {"clusterQueue": "queue", "podSetAssignments": [ASSIGNMENT]}


def workload(status=None, annotations=None, **pod_set):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": template, **pod_set}]},
        "status": status or {},
    }


def admitted(**pod_set):
    return workload({"conditions": [RESERVED], "admission": ADMISSION}, **pod_set)


def requesting(**requests):
    containers = [{"name": "c", "image": "x", "resources": {"requests": requests}}]
    return workload(template={"spec": {"containers": containers}})


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (requesting(pods="1"), 'spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid value: "pods": the key is reserved for internal kueue use'),
        (requesting(cpu="-1"), 'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        (workload({"conditions": [RESERVED]}), "status.admission: Required value: must be set while the QuotaReserved condition is true"),
        (
            workload({"conditions": [RESERVED], "admission": {"podSetAssignments": [{**ASSIGNMENT, "name": "other"}]}}),
            'status.admission.podSetAssignments[0].name: Not found: "other"',
        ),
        (
            workload({"conditions": [RESERVED], "admission": {"podSetAssignments": [{**ASSIGNMENT, "resourceUsage": {"memory": "5"}}]}}),
            'status.admission.podSetAssignments[0].resourceUsage[memory]: Invalid value: "5": is not a multiple of 2',
        ),
        (workload({"reclaimablePods": [{"name": "main", "count": 3}]}), "status.reclaimablePods[main].count: Invalid value: 3: should be less or equal to 2"),
        (
            workload({"admissionChecks": [{"name": "c", "podSetUpdates": [{"name": "other"}]}]}),
            'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"',
        ),
        (workload(topologyRequest={"podSetSliceSize": 2}), "spec.podSets[0].topologyRequest.podSetSliceSize: Forbidden: may not be set when podSetSliceRequiredTopology is not specified"),
        (
            workload(annotations={"kueue.x-k8s.io/admission-gated-by": "not a gate"}),
            'metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "not a gate": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
    ],
)  # fmt: skip
def test_refused(admission, refused, why):
    assert admission.refusal(refused) == why


def test_minimum_count_of_two_pod_sets_is_refused(admission):
    refused = workload(minCount=1)
    refused["spec"]["podSets"].append({**refused["spec"]["podSets"][0], "name": "more"})
    assert admission.refusal(refused) == "spec.podSets: Invalid value: 2: at most one podSet can use minCount"


def test_minimum_count_is_dropped_without_partial_admission(admission_with):
    admission = admission_with(feature_gates={"PartialAdmission": False})
    assert "minCount" not in admission.stored(workload(minCount=1))["spec"]["podSets"][0]


def test_conditions_are_checked(admission):
    assert admission.refusal(workload({"conditions": [{**RESERVED, "status": "Yes"}]})) == (
        'status.conditions[0].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"'
    )


def test_negative_sub_group_count_is_warned_of(admission):
    verdict = admission.verdict(workload(topologyRequest={"subGroupCount": -1}))
    assert verdict.warnings == (
        "spec.podSets[0].topologyRequest.subGroupCount: negative value -1 is deprecated and will be rejected in a future release",
    )


def test_pod_sets_are_immutable_while_quota_is_reserved(admission):
    assert admission.refusal(admitted(count=3), admitted()) == (
        'spec.podSets.0: Invalid value: {"name":"main","template":{"metadata":{},"spec":{"containers":[{"name":"c","image":"x",'
        '"resources":{}}],"restartPolicy":"Never"}},"count":3}: field is immutable'
    )


def test_admission_is_immutable(admission, changed):
    moved = changed(admitted(), {"status": {"admission": {"clusterQueue": "other"}}})
    assert admission.refusal(moved, admitted(), "status") == (
        'status.admission: Invalid value: {"clusterQueue":"other","podSetAssignments":[{"name":"main","flavors":'
        '{"cpu":"default"},"resourceUsage":{"cpu":"2"},"count":2}]}: field is immutable'
    )


def test_topology_assignment_may_change(admission, changed):
    assignment = {**ASSIGNMENT, "topologyAssignment": {"levels": ["kubernetes.io/hostname"]}}
    moved = changed(admitted(), {"status": {"admission": {"podSetAssignments": [assignment]}}})
    assert admission.refusal(moved, admitted(), "status") == ""


def test_reclaimable_pods_do_not_decrease(admission, changed):
    old = changed(admitted(), {"status": {"reclaimablePods": [{"name": "main", "count": 2}]}})
    new = changed(admitted(), {"status": {"reclaimablePods": [{"name": "main", "count": 1}]}})
    assert admission.refusal(new, old) == "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"


def test_cluster_name_must_have_been_nominated(admission):
    refusal = admission.refusal(workload({"clusterName": "here"}), workload())
    assert refusal == (
        'status.clusterName: Invalid value: "here": when setting clusterName it must be one of the nominatedClusterNames'
    )


def test_pod_set_updates_of_a_ready_check_are_immutable(admission):
    ready = {"name": "c", "state": "Ready"}
    old = workload({"admissionChecks": [{**ready, "podSetUpdates": [{"name": "main"}]}]})
    new = workload({"admissionChecks": [{**ready, "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]}]})
    assert "status.admissionChecks[0].podSetUpdates" in admission.refusal(new, old)


@pytest.mark.parametrize(("value", "fault"), [("", 'use "0" explicitly'), ("x", "must be a valid signed integer")])
def test_priority_boost_is_a_number(admission_with, value, fault):
    admission = admission_with(feature_gates={"PriorityBoost": True})
    assert fault in admission.refusal(workload(annotations={"kueue.x-k8s.io/priority-boost": value}))


def test_a_quantity_that_cannot_be_read_is_refused_before_all_else(admission):
    with pytest.raises(ApiError, match="quantities must match") as raised:
        admission.stored(requesting(cpu="many"))
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("spec", "missing"),
    [({}, "containers"), ({"containers": [{"image": "x"}]}, "containers[0].name")],
)
def test_a_template_without_what_it_runs_is_invalid(admission, spec, missing):
    first = admission.verdict(workload(template={"spec": spec})).invalid[0]
    assert str(first) == f"spec.podSets[0].template.spec.{missing}: Required value"
