"""The policies refuse the same writes of a Workload's spec and status as the embedded API."""

import functools
import itertools

import pytest
from tests.cli import malformed
from tests.install import policy_verdicts
from tests.install.job_objects import ELASTIC, GATES, changed

from pykueue.install.validations import workload as workloads

WORKLOAD = malformed.WORKLOAD
POD_SET = WORKLOAD["spec"]["podSets"][0]
BOOST, REPLACEMENT = "kueue.x-k8s.io/priority-boost", "kueue.x-k8s.io/workload-slice-replacement-for"
TEMPLATE = ("spec", "podSets", 0, "template")
REQUEST = ("spec", "podSets", 0, "topologyRequest")


def annotated(workload, **annotations):
    names = {"elastic": ELASTIC, "gates": GATES, "boost": BOOST, "replaces": REPLACEMENT}
    return changed(workload, ("metadata", "annotations"), {names[name]: value for name, value in annotations.items()})


def reserved(workload, admission=None, **status):
    details = {"reason": "QuotaReserved", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "QuotaReserved", "status": "True", **details}]
    status_of_admission = {} if admission is None else {"admission": admission}
    return changed(workload, ("status",), {"conditions": conditions, **status_of_admission, **status})


def admission(name="main", count=2, queue="cq", **fields):
    return {"clusterQueue": queue, "podSetAssignments": [{"name": name, "count": count, **fields}]}


def check(state, *updates):
    return {"admissionChecks": [{"name": "c", "state": state, "podSetUpdates": list(updates)}]}


ADMITTED = reserved(WORKLOAD, admission())
SECOND = [POD_SET, POD_SET | {"name": "second"}]
CREATED = [
    WORKLOAD, ADMITTED, reserved(WORKLOAD),
    *(changed(WORKLOAD, (*TEMPLATE, "metadata", "labels"), {key: value})
      for key, value in (("a", "b"), ("a b", "c"), ("a", "not ok!"))),
    *(changed(WORKLOAD, (*TEMPLATE, "metadata", "annotations"), {key: value})
      for key, value in (("A/b", "any thing!"), ("a b", "c"), ("a", "x" * 300_000))),
    *(changed(WORKLOAD, (*TEMPLATE, "spec", *place), {field: requests})
      for place in (("containers", 0, "resources"), ("resources",)) for field in ("requests", "limits")
      for requests in ({"cpu": "1"}, {"cpu": "-1"}, {"pods": "1"}, {"cpu": 2})),
    changed(WORKLOAD, (*TEMPLATE, "spec", "initContainers"), [{"name": "i", "resources": {"limits": {"pods": "1"}}}]),
    *(changed(WORKLOAD, REQUEST, request) for request in (
        {}, {"podSetSliceSize": 1}, {"podSetSliceRequiredTopology": "rack"},
        {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 1}, {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0},
        {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 0}]},
        {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 1}]})),
    changed(WORKLOAD, ("spec", "podSets"), [pod_set | {"minCount": 1} for pod_set in SECOND]),
    changed(WORKLOAD, ("spec", "podSets", 0, "minCount"), 1),
    annotated(changed(WORKLOAD, ("spec", "podSets", 0, "minCount"), 1), elastic="true"),
    *(reserved(WORKLOAD, admission(**fields)) for fields in (
        {"name": "unknown"}, {"resourceUsage": {"cpu": "2"}}, {"resourceUsage": {"cpu": "1"}}, {"resourceUsage": {"cpu": "3m"}},
        {"resourceUsage": {"memory": "3"}}, {"resourceUsage": {"memory": "2Gi"}}, {"count": 0, "resourceUsage": {"memory": "3"}})),
    *(changed(WORKLOAD, ("status", "reclaimablePods"), [{"name": name, "count": count}])
      for name in ("main", "unknown") for count in (1, 2, 3)),
    *(changed(WORKLOAD, ("status",), check("Pending", {"name": "main", **update})) for update in (
        {}, {"name": "unknown"}, {"labels": {"a b": "c"}}, {"labels": {"a": "b"}}, {"nodeSelector": {"a": "not ok!"}},
        {"annotations": {"a b": "c"}}, {"tolerations": [{"key": "a b"}]}, {"tolerations": [{"key": "a"}, {"operator": "Exists"}]})),
    *(annotated(WORKLOAD, gates=value) for value in ("a.io/b", "bad", "a.io/b,a.io/b")),
    *(annotated(WORKLOAD, boost=value) for value in ("", "1", "-7", "+7", "x", "99999999999", "2147483648")),
]  # fmt: skip
INIT = {"name": "i", "image": "x"}
AS_GO_WRITES = [
    changed(ADMITTED, (*TEMPLATE, "spec", "containers", 0, "resources"), resources) for resources in (
        {}, {"requests": {}}, {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {}}, {"claims": [{"name": "gpu"}]})
] + [
    changed(changed(ADMITTED, (*TEMPLATE, "metadata"), {}), (*TEMPLATE, "spec", "initContainers"), containers)
    for containers in ([INIT], [INIT | {"resources": {}}], [INIT | {"name": "j"}, INIT], [INIT, INIT | {"name": "j"}])
]  # fmt: skip
STATES = [
    WORKLOAD, reserved(WORKLOAD), ADMITTED, changed(ADMITTED, (*TEMPLATE, "metadata"), {}),
    changed(ADMITTED, (*TEMPLATE, "metadata"), {"labels": {"a": "b"}}), *AS_GO_WRITES,
    reserved(changed(WORKLOAD, ("spec", "podSets", 0, "count"), 1), admission()),
    annotated(reserved(changed(WORKLOAD, ("spec", "podSets", 0, "count"), 1), admission()), elastic="true"),
    reserved(changed(WORKLOAD, ("spec", "podSets", 0, "count"), 3), admission()),
    reserved(changed(WORKLOAD, ("spec", "podSets"), SECOND), admission()),
    reserved(changed(WORKLOAD, (*TEMPLATE, "spec", "containers", 0, "image"), "other"), admission()),
    reserved(WORKLOAD, admission(queue="other")), reserved(WORKLOAD, admission(flavors={"cpu": "other"})),
    reserved(WORKLOAD, admission(topologyAssignment={"levels": ["rack"]})),
    *(reserved(WORKLOAD, admission(), reclaimablePods=[{"name": "main", "count": count}]) for count in (1, 2)),
    *(annotated(reserved(WORKLOAD, admission(count=count), reclaimablePods=[{"name": "main", "count": 1}]), elastic="true")
      for count in (2, 4)),
    *(reserved(WORKLOAD, admission(), **check(state, {"name": "main", "labels": {"a": value}}))
      for state in ("Ready", "Pending") for value in ("b", "c")),
    changed(WORKLOAD, ("status", "nominatedClusterNames"), ["one"]),
    *(changed(WORKLOAD, ("status", "clusterName"), name) for name in ("one", "two")),
    annotated(changed(WORKLOAD, ("status", "clusterName"), "two"), replaces="old"),
    annotated(WORKLOAD, gates="a.io/b"), annotated(WORKLOAD, gates="a.io/b,c.io/d"),
]  # fmt: skip
GATES_OFF = (
    "-WorkloadValidationForPodSetMetadata", "-WorkloadValidateResourcesAreNonNegative", "-TASValidateWorkloadSliceSize",
    "-AdmissionGatedBy", "PriorityBoost",
)  # fmt: skip


@pytest.mark.parametrize("gates", [(), GATES_OFF], ids=["default", "otherwise"])
def test_a_creation_is_refused_by_both_or_by_neither(gates):
    of = policy_verdicts.settings(*gates)
    assert [(obj, difference) for obj in CREATED if (difference := policy_verdicts.disagreement(obj, None, of))] == []


@functools.cache
def refused_changes():
    """The messages of policies, by the indexes of the old and the new state."""
    pairs = itertools.product(range(len(STATES)), repeat=2)
    return {(old, new): policy_verdicts.refusals(STATES[new], STATES[old]) for old, new in pairs}


def test_a_change_is_refused_by_both_or_by_neither():
    wrong = [
        (old, new, messages)
        for (old, new), messages in refused_changes().items()
        if bool(messages) != bool(policy_verdicts.complaints(STATES[new], STATES[old]))
    ]
    assert wrong == []


def test_fewer_rules_are_enough_for_a_write_of_the_status():
    enough = {rule.message for rule in workloads.of_statuses(policy_verdicts.settings()).validations}
    by_others_alone = [
        (old, new, messages)
        for (old, new), messages in refused_changes().items()
        if without_status(STATES[old]) == without_status(STATES[new]) and messages and not enough & set(messages)
    ]
    assert by_others_alone == []


def without_status(workload):
    return changed(workload, ("status",), None)


def test_every_rule_refuses_something_here():
    of = policy_verdicts.settings("PriorityBoost")
    refused = {message for obj in CREATED for message in policy_verdicts.refusals(obj, None, of)}
    refused |= {message for messages in refused_changes().values() for message in messages}
    rules = policy_verdicts.tables(of)[policy_verdicts.group_and_kind(WORKLOAD)].validations
    assert {rule.message for rule in rules} - refused == set()
