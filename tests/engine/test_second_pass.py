"""Second passes: topology after admission checks, and replacement of failed nodes."""

import pytest
from msgspec import structs
from tests.engine.builders import CPU, SECOND_NS, Cluster, cluster_queue, group, pod_set, quota, workload

from pykueue.engine import decisions, events, invariants, values
from pykueue.engine.cycle import second_pass
from pykueue.engine.policy import Policy

HOST = "kubernetes.io/hostname"
TOPOLOGY_REQUEST = values.TopologyRequest(unconstrained=True)
CHECK = values.CheckName("capacity")


def node(name, cpu=2):
    return values.Node(name=name, labels={HOST: name}, allocatable={CPU: cpu, values.PODS: 10})


def on(name):
    return values.TopologyAssignment(levels=(HOST,), domains=(values.TopologyDomain((name,), 1),))


def reserved(name="w", *, cpu=2, topology=None, **fields):
    requested = pod_set({CPU: cpu}, pod_requests={CPU: cpu}, topology_request=TOPOLOGY_REQUEST)
    admitted = workload(name, pod_sets=[requested], admitted_to="default", **fields)
    delayed = values.DelayedTopology.PENDING if topology is None else None
    placed = structs.replace(admitted.admission.pod_sets[0], topology=topology, delayed_topology=delayed)
    return structs.replace(admitted, admission=structs.replace(admitted.admission, pod_sets=(placed,)))


def with_delayed_topology(**fields):
    return reserved(admitted=False, check_states={CHECK: values.CheckState.READY}, **fields)


def on_failed_node(name="gone", **fields):
    return reserved(topology=on(name), unhealthy_nodes=(name,), **fields)


def cluster_of(*nodes, policy=None):
    cluster = Cluster(policy=policy)
    flavor = values.ResourceFlavor(name=values.FlavorName("default"), topology="hosts")
    cluster.handle(events.TopologyChanged(name="hosts", levels=(HOST,)))
    cluster.handle(events.FlavorChanged(flavor=flavor))
    for added in nodes:
        cluster.handle(events.NodeChanged(node=added))
    cluster.put(cluster_queue(groups=[group({"default": quota(4)})]))
    return cluster


def domains(decision):
    return {domain.values[0]: domain.pods for domain in decision.admission.pod_sets[0].topology.domains}


def test_a_workload_gets_its_places_a_second_after_its_checks_are_ready():
    cluster = cluster_of(node("a"))
    cluster.add(with_delayed_topology())
    assert cluster.handle(events.CycleDue(at_ns=SECOND_NS - 1)) == []
    [decision] = cluster.handle(events.CycleDue(at_ns=SECOND_NS))
    assert domains(decision) == {"a": 1}
    assert decision.admission.pod_sets[0].delayed_topology is values.DelayedTopology.READY
    invariants.check(cluster.engine)


def test_quota_is_not_counted_twice():
    cluster = cluster_of(node("a", cpu=4))
    cluster.add(with_delayed_topology(cpu=4))
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.AssignTopology)


def test_pauses_double_up_to_half_a_minute():
    assert [second_pass.pause_ns(attempt) // SECOND_NS for attempt in (1, 2, 5, 6, 99)] == [1, 2, 16, 30, 30]


def test_without_places_it_looks_again_later():
    cluster = cluster_of()
    cluster.add(with_delayed_topology())
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.RetrySecondPass)
    assert cluster.engine.next_due_ns == decision.due_ns == cluster.now_ns + 2 * SECOND_NS
    cluster.handle(events.NodeChanged(node=node("a")))
    cluster.cycle()
    assert isinstance(cluster.cycle()[0], decisions.AssignTopology)


def test_a_lost_node_is_replaced():
    cluster = cluster_of(node("a"))
    cluster.add(on_failed_node())
    [decision] = cluster.cycle()
    assert domains(decision) == {"a": 1}
    assert decision.replaces_nodes
    invariants.check(cluster.engine)


def test_without_another_node_it_is_evicted_at_once():
    cluster = cluster_of()
    cluster.add(on_failed_node())
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.Evict)
    assert decision.lost_nodes == ("gone",)


def test_a_patient_policy_waits_for_another_node():
    cluster = cluster_of(policy=Policy(failed_replacement_evicts=False))
    cluster.add(on_failed_node())
    assert isinstance(cluster.cycle()[0], decisions.RetrySecondPass)


def test_a_refused_placement_is_undone_and_tried_again():
    cluster = cluster_of(node("a"))
    cluster.add(on_failed_node())
    cluster.cycle()
    cluster.handle(events.AdmissionRefused(at_ns=cluster.now_ns, key="default/w"))
    invariants.check(cluster.engine)
    assert domains(cluster.cycle()[0]) == {"a": 1}


@pytest.mark.parametrize(
    "change",
    [{"eviction": values.EvictionCondition(reason="Preempted", at_ns=0)}, {"unhealthy_nodes": ()}, {"admission": None}],
    ids=["evicted", "healed", "pending"],
)
def test_who_no_longer_needs_it_has_no_turn(change):
    cluster = cluster_of(node("a"))
    cluster.add(on_failed_node())
    cluster.handle(events.WorkloadChanged(workload=structs.replace(on_failed_node(), **change)))
    assert cluster.engine.next_due_ns is None


def test_places_are_kept_from_heads_of_the_same_cycle():
    cluster = cluster_of(node("a"))
    requested = pod_set({CPU: 2}, pod_requests={CPU: 2}, topology_request=TOPOLOGY_REQUEST)
    cluster.add(on_failed_node(), workload("head", pod_sets=[requested], priority=9))
    decided = cluster.cycle()
    assert [type(decision) for decision in decided] == [decisions.AssignTopology, decisions.MarkInadmissible]


def test_of_two_alike_the_first_due_goes_first():
    cluster = cluster_of(node("a"), node("b"))
    cluster.add(structs.replace(with_delayed_topology(), key="default/z", uid="z"))
    cluster.now_ns += 1
    cluster.add(structs.replace(with_delayed_topology(), key="default/a", uid="a"))
    cluster.now_ns += SECOND_NS
    assert [(decision.workload, domains(decision)) for decision in cluster.cycle()] == [
        ("default/z", {"a": 1}),
        ("default/a", {"b": 1}),
    ]
