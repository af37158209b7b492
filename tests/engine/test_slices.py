"""Slices of elastic jobs: a larger one takes the place of the one that holds quota."""

import pytest
from msgspec import structs
from tests.engine.builders import CPU, Cluster, cluster_queue, group, pod_set, quota, workload
from tests.engine.test_second_pass import HOST, cluster_of, domains, node

from pykueue.engine import decisions, invariants, reasons, values

OLD = values.WorkloadKey("default/old")


def slice_of(name, pods, **fields):
    return workload(name, pod_sets=[pod_set({CPU: 1}, count=pods)], **fields)


def test_only_the_difference_is_needed():
    cluster = Cluster(cluster_queue(nominal=5))
    cluster.add(slice_of("old", 3, admitted_to="default"), slice_of("new", 5, replaces=OLD))
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.Admit)
    assert decision.replaces == OLD
    assert decision.admission.pod_sets[0].usage == {CPU: 5}


def test_usage_counts_both_until_the_old_one_has_ended():
    cluster = Cluster(cluster_queue(nominal=8))
    cluster.add(slice_of("old", 3, admitted_to="default"), slice_of("new", 5, replaces=OLD))
    cluster.cycle()
    invariants.check(cluster.engine)
    assert sum(cluster.state.cluster_queues["queue"].node.usage.values()) == 8


@pytest.mark.parametrize(
    ("nominal", "first"), [({"elastic": 5, "other": 5}, "default/new"), ({"elastic": 4, "other": 6}, "default/other")]
)
def test_quota_of_the_old_slice_is_not_given_to_another_workload(nominal, first):
    """Whichever is first in the cycle: the one that borrows comes last, and there is quota for one."""
    cluster = Cluster(*(cluster_queue(name, "cohort", nominal=amount) for name, amount in nominal.items()))
    new = slice_of("new", 5, queue="elastic", replaces=OLD)
    cluster.add(slice_of("old", 3, queue="elastic", admitted_to="default"), new, workload("other", "other", cpu=6))
    assert [decision.workload for decision in cluster.cycle() if isinstance(decision, decisions.Admit)] == [first]


def test_a_difference_beyond_the_quota_waits():
    cluster = Cluster(cluster_queue(nominal=5))
    cluster.add(slice_of("old", 3, admitted_to="default"), slice_of("new", 9, replaces=OLD))
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.MarkInadmissible)


def test_the_flavor_stays():
    cluster = Cluster(cluster_queue(groups=[group({"first": quota(9), "second": quota(4)})]))
    cluster.add(slice_of("old", 3, admitted_to="second"), slice_of("new", 9, replaces=OLD))
    [decision] = cluster.cycle()
    [shortage] = decision.pending.pod_sets
    assert reasons.SliceFlavorDiffers(flavor="first", original="second") in shortage.reasons


def test_a_slice_whose_forerunner_holds_nothing_is_a_workload_like_any_other():
    cluster = Cluster(cluster_queue(nominal=5))
    cluster.add(slice_of("new", 5, replaces=OLD))
    assert cluster.cycle()[0].replaces is None


def elastic(name, pods, **fields):
    request = values.TopologyRequest(unconstrained=True)
    return workload(
        name, pod_sets=[pod_set({CPU: 1}, count=pods, pod_requests={CPU: 1}, topology_request=request)], **fields
    )


def test_a_slice_that_grows_on_full_nodes_keeps_its_places_and_needs_no_others():
    cluster = cluster_of(node("a"), node("b"))
    old = elastic("old", 2, admitted_to="default")
    topology = values.TopologyAssignment(levels=(HOST,), domains=(values.TopologyDomain(("b",), 2),))
    placed = structs.replace(old.admission.pod_sets[0], topology=topology)
    old = structs.replace(old, admission=structs.replace(old.admission, pod_sets=(placed,)))
    cluster.add(old, elastic("new", 4, replaces=OLD))
    [decision] = cluster.cycle()
    assert isinstance(decision, decisions.Admit)
    assert domains(decision) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("request_", "conflict"),
    [
        ({"required": HOST}, reasons.ElasticLevelRefused(is_required=True)),
        ({"preferred": HOST}, reasons.ElasticLevelRefused(is_required=False)),
    ],
)
def test_an_elastic_job_may_be_refused_a_topology_level(request_, conflict):
    cluster = cluster_of(node("a", cpu=4))
    topology = values.TopologyRequest(**request_)
    pods = pod_set({CPU: 1}, count=1, pod_requests={CPU: 1}, topology_request=topology)
    cluster.add(workload("w", pod_sets=[pods], refuses_levels=True))
    [decision] = cluster.cycle()
    [shortage] = decision.pending.pod_sets
    assert shortage.conflict == conflict
