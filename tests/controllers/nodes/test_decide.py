"""What the state of node `a` means for a workload with one pod on it and one on `b`."""

import pytest

from pykueue.api import resources
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.nodes import decide
from pykueue.controllers.nodes.decide import NodeContext, ReplacementPolicy
from pykueue.kube.controller.writes import Event

HOSTNAME = "kubernetes.io/hostname"
SINCE = "2026-01-01T00:00:00Z"
TAINT = {"key": "broken", "effect": "NoExecute"}


def node(*, ready="True", taints=()):
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": SINCE}
    return {"metadata": {"name": "a"}, "spec": {"taints": list(taints)}, "status": {"conditions": [condition]}}


def workload(*, unhealthy=(), tolerations=(), nodes=("a", "b"), **conditions):
    topology = {
        "levels": [HOSTNAME],
        "slices": [
            {
                "domainCount": len(nodes),
                "podCounts": {"universal": 1},
                "valuesPerLevel": [{"individual": {"roots": list(nodes)}}],
            }
        ],
    }
    template = {"spec": {"tolerations": list(tolerations)}}
    statuses = {"Admitted": "True", **conditions}
    status = {
        "conditions": [{"type": name, "status": value} for name, value in statuses.items()],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [{"name": "main", "count": 2, "topologyAssignment": topology}],
        },
    }
    if unhealthy:
        status["unhealthyNodes"] = [{"name": name} for name in unhealthy]
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": template}]},
        "status": status,
    }


def pod(*, bound="a", phase="Running", gated=False):
    spec = {"nodeSelector": {HOSTNAME: "a"}} | ({"nodeName": bound} if bound else {})
    if gated:
        spec["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


def plan(of_node, of_workload, *pods, policy=None, seconds=0):
    context = NodeContext(
        name="a",
        node=of_node,
        workloads=[of_workload],
        pods_of={"ns/w": pods},
        flavors={},
        now_ns=to_ns(SINCE) + seconds * SECOND_NS,
    )
    return decide.plan(context, policy or ReplacementPolicy())


def lost_nodes(result):
    """The unhealthy nodes in the new status; None if the workload is not written."""
    workloads = [action.new for action in result.actions if getattr(action, "resource", None) == resources.WORKLOAD]
    return [entry["name"] for entry in workloads[0]["status"].get("unhealthyNodes", ())] if workloads else None


@pytest.mark.parametrize("state", [None, {"metadata": {"name": "a"}}], ids=["gone", "never ready"])
def test_a_node_that_is_gone_is_lost_at_once(state):
    assert lost_nodes(plan(state, workload(), pod())) == ["a"]


def test_a_node_that_is_not_ready_is_lost_when_its_pods_have_ended():
    assert lost_nodes(plan(node(ready="False"), workload(), pod())) is None
    assert lost_nodes(plan(node(ready="False"), workload(), pod(phase="Failed"))) == ["a"]


def test_without_regard_to_pods_it_is_lost_after_half_a_minute():
    policy = ReplacementPolicy(on_pod_termination=False)
    assert plan(node(ready="False"), workload(), pod(), policy=policy, seconds=20).requeue_after_ns == 10 * SECOND_NS
    assert lost_nodes(plan(node(ready="False"), workload(), pod(), policy=policy, seconds=30)) == ["a"]


def test_a_fixed_time_may_end_it_even_if_pods_go_on():
    policy = ReplacementPolicy(after_fixed_time=True)
    assert lost_nodes(plan(node(ready="Unknown"), workload(), pod(), policy=policy, seconds=30)) == ["a"]


def test_a_taint_counts_once_no_pod_is_left():
    assert lost_nodes(plan(node(taints=[TAINT]), workload(), pod())) is None
    assert lost_nodes(plan(node(taints=[TAINT]), workload())) == ["a"]


@pytest.mark.parametrize(
    ("toleration", "lost"),
    [({"operator": "Exists"}, None), ({"operator": "Exists", "tolerationSeconds": 60}, ["a"])],
    ids=["for good", "for a while"],
)
def test_a_tolerated_taint_counts_only_if_for_a_while(toleration, lost):
    assert lost_nodes(plan(node(taints=[TAINT]), workload(tolerations=[toleration]))) == lost


def test_a_node_that_is_well_again_is_struck_off():
    assert lost_nodes(plan(node(), workload(unhealthy=["a"]))) == []


def test_two_lost_nodes_are_too_many():
    result = plan(None, workload(unhealthy=["b"]))
    event = next(action for action in result.actions if isinstance(action, Event))
    assert event.reason == "EvictedDueToNodeFailures"
    assert event.message == ("Workload eviction triggered due to multiple TAS assigned node failures, including: b, a")
    assert lost_nodes(result) == []


@pytest.mark.parametrize("condition", ["Finished", "Evicted"])
def test_a_workload_that_is_over_loses_nothing(condition):
    assert plan(None, workload(**{condition: "True"})).actions == ()


def failed_pods(result):
    return [
        action.new["status"]["phase"] for action in result.actions if getattr(action, "resource", None) == resources.POD
    ]


def test_a_pod_that_waits_for_a_lost_node_is_failed():
    result = plan(node(ready="False"), workload(), pod(bound="", phase="Pending"))
    assert failed_pods(result) == ["Failed"]
    assert [action.reason for action in result.actions if isinstance(action, Event)] == ["PodTerminatedByKueue"]


def test_a_pod_sent_to_a_node_that_is_no_longer_assigned_is_failed():
    assert failed_pods(plan(node(), workload(nodes=["b", "c"]), pod(bound="", phase="Pending"))) == ["Failed"]


@pytest.mark.parametrize("waiting", [pod(bound="", phase="Pending", gated=True), pod()], ids=["gated", "running"])
def test_other_pods_are_left_alone(waiting):
    assert failed_pods(plan(node(ready="False"), workload(), waiting)) == []
