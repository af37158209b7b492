"""Every rule that a cluster checks by CEL decides as the Python rule of the embedded API does."""

import copy

import pytest
from tests.cli import malformed

from pykueue.api import cel_library, registry, schema, schema_validation
from pykueue.api.configuration import loading
from pykueue.api.scheme import Request
from pykueue.install import validation

SETTINGS = loading.complete({"integrations": {"frameworks": ["batch/job"]}}).value.settings()
SCHEME = registry.scheme()
TABLES = {resource.kind: table for resource, table in validation.validations(SETTINGS).items()}
QUEUE, FLAVOR, COHORT, JOB, WORKLOAD = (
    malformed.QUEUE, malformed.FLAVOR, malformed.COHORT, malformed.JOB, malformed.WORKLOAD,
)  # fmt: skip
GROUP = QUEUE["spec"]["resourceGroups"][0]
RESOURCES = ("spec", "resourceGroups", 0, "flavors", 0, "resources")
LABEL, ANNOTATION = ("metadata", "labels"), ("metadata", "annotations")


class Nothing:
    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace=""):
        return []


def changed(obj, path, value):
    made = copy.deepcopy(obj)
    holder = made
    for step in path[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(step, str) and isinstance(holder, dict) else holder[step]
    if value is None:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = value
    return made


def group(*flavors, covered=("cpu",)):
    resources = [{"name": name, "nominalQuota": "1"} for name in covered]
    return {"coveredResources": list(covered), "flavors": [{"name": name, "resources": resources} for name in flavors]}


CREATED = [
    *malformed.WELL_FORMED[:5],
    COHORT,
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
    *(changed(JOB, LABEL, {key: value}) for key, values in (
        ("kueue.x-k8s.io/queue-name", ("q", "", "bad_queue", "a.b", "x" * 63)),
        ("kueue.x-k8s.io/max-exec-time-seconds", ("0", "-1", "7", "+7", "soon", "")),
        ("kueue.x-k8s.io/prebuilt-workload-name", ("w", "Bad_Name", ""))) for value in values),
    *(changed(JOB, ANNOTATION, {"kueue.x-k8s.io/job-min-parallelism": value}) for value in ("0", "1", "2", "x")),
    *(changed(JOB, ANNOTATION, {"kueue.x-k8s.io/job-completions-equal-parallelism": value})
      for value in ("true", "false", "perhaps")),
    *(changed(JOB, ("spec", "template", "metadata", "annotations"), value) for value in (
        {"kueue.x-k8s.io/podset-required-topology": "rack"},
        {"kueue.x-k8s.io/podset-required-topology": "a b"},
        {"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-preferred-topology": "rack"},
        {"kueue.x-k8s.io/podset-slice-size": "1"})),
    *(changed(WORKLOAD, ("spec", "podSets", 0, "template", "spec", "containers"), [
        {"name": "c", "image": "x", "resources": {"requests": requests}}])
      for requests in ({"cpu": "1"}, {"cpu": "-1"}, {"pods": "1"})),
]  # fmt: skip
SUSPENDED, RUNNING = (changed(JOB, ("spec", "suspend"), value) for value in (True, False))
UPDATED = [
    (old, changed(new, LABEL, {key: value}))
    for old in (SUSPENDED, RUNNING)
    for new in (SUSPENDED, RUNNING)
    for key, value in (
        ("kueue.x-k8s.io/queue-name", "lq"), ("kueue.x-k8s.io/queue-name", "other"),
        ("kueue.x-k8s.io/priority-class", "high"), ("kueue.x-k8s.io/max-exec-time-seconds", "5"),
    )
]  # fmt: skip


def verdicts(obj, old=None):
    """(refused by Python, refused by CEL) of what the schema admits; None for what it refuses."""
    kind = SCHEME.for_object(obj)
    obj = schema.apply_defaults(kind.schema, copy.deepcopy(obj))
    if schema_validation.validate(kind.schema, obj, old):
        return None
    operation = "CREATE" if old is None else "UPDATE"
    verdict = kind.validator(Request(operation=operation, object=obj, old=old, lookup=Nothing(), settings=SETTINGS))
    refused = [each.message for each in TABLES[obj["kind"]] if not holds(each, obj, old)]
    return bool(verdict.denied), bool(refused)


def holds(rule, obj, old):
    text = cel_library.compile_expression(rule.schema()["expression"])
    return cel_library.evaluate_with(text, {"object": obj, "oldObject": old})


@pytest.mark.parametrize("obj", [each for each in CREATED if each["kind"] in TABLES])
def test_a_creation_is_refused_by_both_or_by_neither(obj):
    found = verdicts(obj)
    assert found in (None, (True, True), (False, False))


@pytest.mark.parametrize(("old", "new"), UPDATED)
def test_an_update_is_refused_by_both_or_by_neither(old, new):
    found = verdicts(new, old)
    assert found in ((True, True), (False, False))


def test_every_rule_refuses_something_here_or_needs_a_status():
    cases = [*((obj, None) for obj in CREATED), *((new, old) for old, new in UPDATED)]
    for kind in ("ResourceFlavor", "Cohort"):
        unused = {each.message for each in TABLES[kind]}
        for obj, old in cases:
            if obj["kind"] == kind:
                unused -= {each.message for each in TABLES[kind] if not holds(each, obj, old)}
        assert unused <= QUOTA_RULES_TRIED_ON_QUEUES


QUOTA_RULES_TRIED_ON_QUEUES = {each.message for each in TABLES["Cohort"]} & {
    each.message for each in TABLES["ClusterQueue"]
}
