"""Gated pods and their domains: node a takes two pods, node b one."""

from pykueue.api.labels import POD_SET_LABEL
from pykueue.controllers.topology import decide

INDEX = "batch.kubernetes.io/job-completion-index"
HOSTNAME = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/topology"


def workload(*, admitted=True, unhealthy=(), **request):
    assignment = {
        "levels": [HOSTNAME],
        "slices": [
            {
                "domainCount": 2,
                "podCounts": {"individual": [2, 1]},
                "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}],
            }
        ],
    }
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": [{"name": "main", "count": 3, "topologyRequest": request}]},
        "status": {
            "conditions": [{"type": "Admitted", "status": "True" if admitted else "False"}],
            "unhealthyNodes": [{"name": name} for name in unhealthy],
            "admission": {
                "podSetAssignments": [{"name": "main", "count": 3, "topologyAssignment": assignment}],
            },
        },
    }


def pod(name, *, index=None, node=None, phase="Pending"):
    labels = {POD_SET_LABEL: "main"} | ({} if index is None else {INDEX: str(index)})
    spec = {"nodeSelector": {HOSTNAME: node}} if node else {"schedulingGates": [{"name": GATE}]}
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": spec, "status": {"phase": phase}}


def assigned_nodes(writes):
    return {write.new["metadata"]["name"]: write.new["spec"]["nodeSelector"][HOSTNAME] for write in writes}


def test_pods_without_ranks_fill_domains_in_order():
    writes = decide.plan(workload(), [pod("x"), pod("y"), pod("z")])
    assert assigned_nodes(writes) == {"x": "a", "y": "a", "z": "b"}


def test_ranks_decide_where_there_are_any():
    pods = [pod("x", index=2), pod("y", index=0), pod("z", index=1)]
    assert assigned_nodes(decide.plan(workload(podIndexLabel=INDEX), pods)) == {"x": "b", "y": "a", "z": "a"}


def test_one_pod_without_rank_ends_ranking():
    pods = [pod("x", index=2), pod("y"), pod("z", index=1)]
    assert assigned_nodes(decide.plan(workload(podIndexLabel=INDEX), pods)) == {"x": "a", "y": "a", "z": "b"}


def test_placed_pods_count():
    pods = [pod("w", node="a"), pod("x", node="b"), pod("y")]
    assert assigned_nodes(decide.plan(workload(), pods)) == {"y": "a"}


def test_ended_pods_make_room():
    pods = [pod("w", node="b", phase="Failed"), pod("x", node="a"), pod("y", node="a"), pod("z")]
    assert assigned_nodes(decide.plan(workload(), pods)) == {"z": "b"}


def test_nobody_goes_to_a_lost_node():
    writes = decide.plan(workload(unhealthy=["a"]), [pod("x"), pod("y"), pod("z")])
    assert assigned_nodes(writes) == {"z": "b"}


def test_nobody_goes_before_admission():
    assert decide.plan(workload(admitted=False), [pod("x")]) == []


def test_the_gate_is_gone_with_the_write():
    (write,) = decide.plan(workload(), [pod("x")])
    assert "schedulingGates" not in write.new["spec"]
