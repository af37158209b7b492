from pykueue.api import conditions, objects
from pykueue.controllers.jobs.context import JobPolicy, PriorityClasses
from pykueue.controllers.stateful_sets import decide as sets
from pykueue.controllers.workloads import predicates, transitions

NOW = 10**18
SPEC = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def stateful_set(replicas=2):
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "db",
            "namespace": "ns",
            "uid": "u",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        },
        "spec": {"replicas": replicas, "template": {"spec": SPEC}},
    }


def workload(of=None):
    return sets.workload_of(of or stateful_set(), PriorityClasses(), JobPolicy())


def test_one_workload_stands_for_all_replicas():
    [pod_set] = workload()["spec"]["podSets"]
    assert (pod_set["name"], pod_set["count"]) == ("main", 2)


def test_its_owner_does_not_control_it():
    assert objects.controller_of(workload()) is None


def test_scaling_to_zero_puts_the_workload_on_hold():
    existing = workload()
    transitions.reserve_quota(existing, {"clusterQueue": "cq"}, NOW)
    [write, *_] = sets.sync_workload(stateful_set(replicas=0), existing, NOW)
    assert predicates.is_on_hold(write.new)


def test_scaling_up_again_ends_the_hold():
    existing = workload()
    transitions.release_quota(existing, reason="OnHold", message="", now_ns=NOW)
    [write] = sets.sync_workload(stateful_set(), existing, NOW)
    assert conditions.find(write.new, "QuotaReserved")["reason"] == "Pending"


def test_pods_become_members_of_the_group():
    name = workload()["metadata"]["name"]
    pod = sets.with_group_labels({"metadata": {"name": "db-0", "namespace": "ns"}, "spec": SPEC}, stateful_set(), name)
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == name
    assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
