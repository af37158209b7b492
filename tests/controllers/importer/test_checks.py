import pytest

from pykueue.controllers.importer import checks, mapping
from pykueue.controllers.importer.checks import ImportContext, PodImportError
from pykueue.controllers.jobs.context import PriorityClasses

QUEUE = {
    "metadata": {"name": "cq"},
    "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f1"}, {"name": "f2"}]}]},
}
LOCAL_QUEUE = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
RULES = mapping.from_label("team", {"a": "q", "b": "missing"})


def pod(team="a", requests=None, labels=None, **spec):
    container = {"name": "c", "resources": {"requests": requests or {"cpu": "2"}}}
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"team": team} | (labels or {})}
    return {"metadata": metadata, "spec": {"containers": [container]} | spec, "status": {"phase": "Running"}}


def plan(obj, **changes):
    context = {
        "rules": RULES,
        "local_queues": {("ns", "q"): LOCAL_QUEUE},
        "cluster_queues": {"cq": QUEUE},
        "flavors": frozenset({"f1", "f2"}),
    }
    return checks.plan(obj, ImportContext(**context | changes), now_ns=0)


def test_an_imported_pod_uses_the_first_flavor():
    planned = plan(pod())
    (assignment,) = planned.status["admission"]["podSetAssignments"]
    assert assignment == {"name": "main", "count": 1, "flavors": {"cpu": "f1"}, "resourceUsage": {"cpu": "2"}}
    assert {condition["reason"] for condition in planned.status["conditions"]} == {"Imported"}
    assert planned.workload["spec"]["queueName"] == "q"


def test_pod_and_workload_get_the_labels():
    planned = plan(pod(), add_labels={"batch": "one"})
    assert planned.labels == {"batch": "one", "kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"}
    assert planned.workload["metadata"]["labels"]["batch"] == "one"


def test_a_pod_whose_job_is_in_a_queue_is_not_counted_twice():
    labels = {"kueue.x-k8s.io/podset": "main"}
    assert plan(pod("unknown", labels=labels)) is None
    assert plan(pod(labels={**labels, "kueue.x-k8s.io/managed": "true"})) is not None


@pytest.mark.parametrize(
    ("obj", "changes", "message"),
    [
        (pod("c"), {}, "no mapping found: add a rule that matches the labels of the pod"),
        (pod("b"), {}, "missing: localqueue not found"),
        (pod(), {"cluster_queues": {}}, "cluster queue not found: cq"),
        (pod(), {"flavors": frozenset({"f1"})}, '"cq" missing flavors [f2]: clusterqueue invalid'),
        (pod(requests={"memory": "1"}), {}, 'resource "memory" is not covered by ClusterQueue "cq"'),
        (
            pod(labels={"kueue.x-k8s.io/queue-name": "other"}),
            {},
            'another local queue name is set "other" expecting "q"',
        ),
        (pod(priorityClassName="high"), {}, 'priorityclasses.scheduling.k8s.io "high" not found'),
    ],
)
def test_what_is_missing_is_named(obj, changes, message):
    with pytest.raises(PodImportError) as caught:
        plan(obj, **changes)
    assert str(caught.value) == message


def test_excluded_resources_need_no_quota():
    planned = plan(pod(requests={"cpu": "1", "example.com/x": "3"}), excluded_prefixes=("example.com/",))
    assert planned.status["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "1"}


def test_the_priority_class_of_the_pod_counts():
    classes = PriorityClasses(pod={"high": {"metadata": {"name": "high"}, "value": 7}})
    assert plan(pod(priorityClassName="high"), classes=classes).workload["spec"]["priority"] == 7


def test_the_first_rule_that_matches_decides():
    document = [
        {"match": {"labels": {"team": "a"}, "priorityClassName": "high"}, "toLocalQueue": "fast"},
        {"match": {"labels": {"team": "a"}}, "skip": True},
    ]
    rules = mapping.from_document(document)
    assert mapping.find(rules, pod(priorityClassName="high")).queue == "fast"
    assert plan(pod(), rules=rules) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "the file must be a list of rules, each with match and toLocalQueue or skip"),
        ([{"toLocalQueue": "q"}], "rule 0: write match with labels, and toLocalQueue or skip"),
        ([{"match": {"labels": {}}}], "rule 0: toLocalQueue is missing"),
        ([{"match": {"label": {}}, "skip": True}], "rule 0: unknown field label"),
    ],
)
def test_a_faulty_mapping_is_refused(document, message):
    with pytest.raises(mapping.MappingError) as caught:
        mapping.from_document(document)
    assert str(caught.value) == message
