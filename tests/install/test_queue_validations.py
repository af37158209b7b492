"""The policies refuse the same ClusterQueues, Cohorts and ResourceFlavors as the embedded API."""

import copy

import pytest
from tests.cli import malformed
from tests.install import policy_verdicts
from tests.install.job_objects import changed

from pykueue.api import registry, schema, schema_validation

SCHEME = registry.scheme()
QUEUE, FLAVOR, COHORT = malformed.QUEUE, malformed.FLAVOR, malformed.COHORT
GROUP = QUEUE["spec"]["resourceGroups"][0]
RESOURCES = ("spec", "resourceGroups", 0, "flavors", 0, "resources")
CHECKS = ("spec", "admissionChecksStrategy")


def group(*flavors, covered=("cpu",)):
    resources = [{"name": name, "nominalQuota": "1"} for name in covered]
    return {"coveredResources": list(covered), "flavors": [{"name": name, "resources": resources} for name in flavors]}


def many(groups, flavors, resources):
    """A queue with so many groups of so many flavors and resources."""
    resource_groups = [
        group(
            *(f"g{number}-f{index}" for index in range(flavors)),
            covered=[f"g{number}-r{index}" for index in range(resources)],
        )
        for number in range(groups)
    ]
    return changed(QUEUE, ("spec", "resourceGroups"), resource_groups)


LARGE = [many(4, 64, 1), many(5, 64, 1), many(5, 1, 64), many(1, 64, 8), many(1, 64, 9)]
CREATED = [
    QUEUE, FLAVOR, COHORT, *LARGE,
    *(changed(QUEUE, (*RESOURCES, 0, name), value) for name in ("nominalQuota", "borrowingLimit", "lendingLimit")
      for value in ("-1", "-1m", "0", 0, "3", 5, "1Gi")),
    *(changed(QUEUE, ("spec", "cohortName"), value) for value in (None, "other")),
    changed(changed(QUEUE, ("spec", "cohortName"), None), RESOURCES, [
        {"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": 1}]),
    changed(QUEUE, (*RESOURCES, 0, "name"), "memory"),
    changed(QUEUE, ("spec", "resourceGroups"), [group("a"), group("a", covered=("memory",))]),
    changed(QUEUE, ("spec", "resourceGroups"), [group("a"), group("b")]),
    changed(QUEUE, ("spec", "resourceGroups"), [group("a"), group("b", covered=("memory",))]),
    *(changed(QUEUE, ("spec", "resourceGroups"), [group("a", covered=(name,))])
      for name in ("nvidia.com/gpu", "a b", "x" * 64, "/cpu", "a/b/c", "Upper.com/cpu", "example.com/")),
    *(changed(QUEUE, ("spec", "fairSharing", "weight"), value) for value in ("-1", "0", "1n", 2)),
    *(changed(QUEUE, ("spec", "namespaceSelector"), value) for value in (
        {}, {"matchLabels": {"bad key!": "x"}}, {"matchLabels": {"a": "not ok!"}},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Near"}]},
        {"matchExpressions": [{"key": "a b", "operator": "Exists"}]})),
    *(changed(QUEUE, ("spec", "preemption"), {"reclaimWithinCohort": reclaim, "borrowWithinCohort": {"policy": borrow}})
      for reclaim in ("Never", "Any") for borrow in ("Never", "LowerPriority")),
    *(changed(QUEUE, ("spec", "flavorFungibility"), {
        "preference": "BorrowingOverPreemption", "whenCanBorrow": borrow, "whenCanPreempt": "TryNextFlavor"})
      for borrow in ("TryNextFlavor", "MayStopSearch")),
    *(changed(QUEUE, ("spec", "admissionChecksStrategy"), {"admissionChecks": [{"name": "c", "onFlavors": [flavor]}]})
      for flavor in ("default", "unknown")),
    *(changed(COHORT, ("spec", "resourceGroups"), [value]) for value in (group("a"), GROUP)),
    changed(changed(COHORT, ("spec", "resourceGroups"), [GROUP]), ("spec", "parentName"), None),
    *(changed(FLAVOR, ("spec", "nodeLabels"), value) for value in ({"a b": "c"}, {"a": "not ok!"}, {"a.b/c": ""})),
    *(changed(FLAVOR, ("spec", "nodeTaints"), [{"key": key, "effect": "NoSchedule", "value": "v"} for key in keys])
      for keys in (["a"], ["a", "a"], ["a", "b"], ["a b"])),
    *(changed(FLAVOR, ("spec", "tolerations", 0, "key"), value) for value in ("a b", "a")),
]  # fmt: skip


def check(*flavors):
    return {"admissionChecks": [{"name": "c", "onFlavors": list(flavors)}]}


POLICY = ("spec", "concurrentAdmissionPolicy")
UPDATED = [
    (changed(QUEUE, CHECKS, check("unknown")), changed(changed(QUEUE, CHECKS, check("unknown")), ("spec", "cohortName"), "b")),
    (changed(QUEUE, CHECKS, check("unknown")), changed(QUEUE, CHECKS, check("unknown", "other"))),
    (changed(QUEUE, CHECKS, check("default")), changed(changed(QUEUE, CHECKS, check("default")), (*RESOURCES[:-1], "name"), "b")),
    (QUEUE, changed(QUEUE, POLICY, {"migration": {"mode": "TryPreferredFlavors"}})),
    (changed(QUEUE, POLICY, {"migration": {}}), QUEUE),
    (QUEUE, changed(QUEUE, ("spec", "cohortName"), "b")),
]  # fmt: skip
CONCURRENT = [
    changed(QUEUE, POLICY, {"migration": {"mode": "TryPreferredFlavors"}}),
    changed(changed(QUEUE, POLICY, {"migration": {}}), ("spec", "queueingStrategy"), "StrictFIFO"),
    changed(changed(QUEUE, POLICY, {"migration": {}}), ("spec", "resourceGroups"), [GROUP, group("b", covered=("gpu",))]),
    changed(changed(QUEUE, POLICY, {"migration": {}}), ("spec", "resourceGroups"), [group(*(f"f{n}" for n in range(17)))]),
    *(changed(QUEUE, POLICY, {"migration": {"mode": mode, "constraints": {"lastAcceptableFlavorName": name}}})
      for mode in ("TryPreferredFlavors", "RetainFirstAdmission") for name in ("default", "unknown")),
]  # fmt: skip


def disagreement(obj, old=None, *gates):
    """Of what the schema admits."""
    kind = SCHEME.for_object(obj)
    obj = schema.apply_defaults(kind.schema, copy.deepcopy(obj))
    if schema_validation.validate(kind.schema, obj, old):
        return None
    return policy_verdicts.disagreement(obj, old, policy_verdicts.settings(*gates))


@pytest.mark.parametrize("obj", CREATED)
def test_a_creation_is_refused_by_both_or_by_neither(obj):
    assert disagreement(obj) is None


@pytest.mark.parametrize(("old", "new"), UPDATED)
@pytest.mark.parametrize("gate", ["RejectUpdatesToCQWithInvalidOnFlavors", "-RejectUpdatesToCQWithInvalidOnFlavors"])
def test_an_update_is_refused_by_both_or_by_neither(old, new, gate):
    assert disagreement(new, old, gate) is None


@pytest.mark.parametrize("obj", CONCURRENT)
def test_concurrent_admission_is_refused_by_both_or_by_neither(obj):
    assert disagreement(obj, None, "ConcurrentAdmission") is None


def test_every_rule_refuses_something_here():
    refused = {message for obj in CREATED for message in policy_verdicts.refusals(obj)}
    refused |= {message for old, new in UPDATED for message in policy_verdicts.refusals(new, old)}
    for obj in (QUEUE, FLAVOR, COHORT):
        rules = policy_verdicts.tables(policy_verdicts.settings())[policy_verdicts.group_and_kind(obj)].validations
        assert {rule.message for rule in rules} - refused == set()
