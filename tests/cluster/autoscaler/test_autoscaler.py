from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from tests.cluster.scheduler.scheduler_fixture import node, pod

from pykueue.api import objects
from pykueue.cluster.autoscaler import plan, provisioning
from pykueue.cluster.autoscaler.controller import Autoscaler
from pykueue.cluster.autoscaler.pool import Pool, flavor_mismatch
from pykueue.cluster.scheduler.fleet import Fleet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def pool(name="gpu", *types, labels=None, taints=(), annotations=None, limits=None, **spec):
    requirement = {"key": INSTANCE_TYPE, "operator": "In", "values": list(types) or ["g2-standard-4"]}
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"requirements": [requirement, *spec.pop("requirements", ())], "taints": list(taints)},
    }
    return Pool(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"template": template, "limits": limits or {}} | spec,
        }
    )


def waiting(name, requests, **spec):
    unschedulable = pod(name, requests, **spec)
    unschedulable["metadata"] |= {"uid": name, "namespace": "default"}
    return unschedulable


def grow(pods_, *pools, fleet=None, starting=()):
    return plan.grow(pods_, pools, fleet or Fleet(), starting=starting, now=NOW)


def types(growth):
    return [objects.labels(starting.node)[INSTANCE_TYPE] for starting in growth.nodes]


def test_the_smallest_type_that_holds_the_pod_is_started():
    growth = grow([waiting("a", {"cpu": "6"})], pool("cpu", "e2-standard-4", "e2-standard-8", "e2-standard-16"))
    assert types(growth) == ["e2-standard-8"]
    assert growth.grown_for == {"a": "cpu"}


def test_pods_share_a_new_node():
    growth = grow([waiting(name, {"cpu": "1"}) for name in "abcd"], pool("cpu", "e2-standard-4"))
    assert len(growth.nodes) == 1


def test_a_node_on_its_way_is_not_started_twice():
    first = grow([waiting("a", {"cpu": "1"})], pool("cpu", "e2-standard-4"))
    again = grow([waiting("a", {"cpu": "1"})], pool("cpu", "e2-standard-4"), starting=first.nodes)
    assert again.nodes == ()


def test_a_gpu_pod_gets_a_gpu_node():
    growth = grow([waiting("a", {"cpu": "2", "nvidia.com/gpu": "1"})], pool("cpu", "e2-standard-4"), pool("gpu"))
    assert types(growth) == ["g2-standard-4"]


def test_heavier_pools_come_first():
    growth = grow([waiting("a", {"cpu": "1"})], pool("a", "m5.large"), pool("z", "m5.large", weight=10))
    assert growth.grown_for == {"a": "z"}


def test_the_start_takes_its_time():
    slow = pool("cpu", "m5.large", annotations={"pykueue.dev/start-delay": "90s"})
    (started,) = grow([waiting("a", {"cpu": "1"})], slow).nodes
    assert started.ready_at == NOW + timedelta(seconds=90)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"annotations": {"pykueue.dev/max-nodes": "0"}}, "cpu: max node group size reached (0)"),
        ({"limits": {"cpu": "1"}}, "cpu: limit of cpu reached"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, "cpu: its nodes had untolerated taint(s)"),
    ],
)
def test_why_a_pool_does_not_grow(options, why):
    assert grow([waiting("a", {"cpu": "1"})], pool("cpu", "m5.large", **options)).refused == {"a": why}


def test_what_is_too_big_for_every_type():
    growth = grow([waiting("a", {"cpu": "99"})], pool("cpu", "m5.large"))
    assert growth.refused == {"a": "cpu: no instance type has enough cpu"}


def test_own_instance_types():
    own_types = '[{"name": "tiny", "cpu": "1", "memory": "1Gi"}]'
    growth = grow(
        [waiting("a", {"cpu": "1"})], pool("own", "tiny", annotations={"pykueue.dev/instance-types": own_types})
    )
    assert types(growth) == ["tiny"]


def test_nodes_carry_the_labels_of_the_pool():
    (started,) = grow([waiting("a", {}, nodeSelector={"team": "a"})], pool("p", "m5.large", labels={"team": "a"})).nodes
    assert objects.labels(started.node)["karpenter.sh/nodepool"] == "p"


def test_a_pool_has_its_minimum():
    small = pool("p", "m5.large", annotations={"pykueue.dev/min-nodes": "2"})
    assert len(plan.fill(small, Fleet(), (), NOW)) == 2


def fleet_of(the_pool, *names):
    fleet = Fleet()
    for name in names:
        member = node(name, {"karpenter.sh/nodepool": the_pool.name})
        member["metadata"]["uid"] = name
        fleet.set_node(member)
    return fleet


def test_an_idle_node_goes_after_its_time():
    the_pool = pool("p", disruption={"consolidateAfter": "60s"})
    fleet = fleet_of(the_pool, "a", "b")
    since = {"a": NOW - timedelta(seconds=61), "b": NOW - timedelta(seconds=10)}
    assert [objects.name(idle) for idle in plan.idle_nodes(the_pool, fleet, since, NOW)] == ["a"]


def test_a_pool_that_never_consolidates_keeps_its_nodes():
    the_pool = pool("p", disruption={"consolidateAfter": "Never"})
    since = {"a": NOW - timedelta(days=1)}
    assert plan.idle_nodes(the_pool, fleet_of(the_pool, "a"), since, NOW) == []


def flavor(**labels):
    return {
        "metadata": {"name": "f"},
        "spec": {"nodeLabels": {key.replace("_", "-"): value for key, value in labels.items()}},
    }


def test_a_flavor_that_no_pool_can_serve_is_reported():
    warning = flavor_mismatch({"metadata": {"name": "f"}, "spec": {"nodeLabels": {"gpu": "a100"}}}, [pool()], Fleet())
    assert warning.startswith("no node has the labels gpu=a100 and no NodePool (gpu) can create one")


@pytest.mark.parametrize(
    "candidate",
    [
        pool(labels={"gpu": "a100"}),
        pool(requirements=[{"key": "gpu", "operator": "In", "values": ["t4", "a100"]}]),
    ],
)
def test_a_flavor_that_a_pool_can_serve_is_fine(candidate):
    assert flavor_mismatch(flavor(gpu="a100"), [candidate], Fleet()) == ""


def test_a_flavor_by_instance_type():
    by_type = {"metadata": {"name": "f"}, "spec": {"nodeLabels": {INSTANCE_TYPE: "p4d.24xlarge"}}}
    assert flavor_mismatch(by_type, [pool("aws", "g4dn.xlarge")], Fleet())
    assert not flavor_mismatch(by_type, [pool("aws", "p4d.24xlarge")], Fleet())


def request(class_name, count=1):
    return {
        "metadata": {"name": "r", "namespace": "default", "uid": "r"},
        "spec": {
            "provisioningClassName": class_name,
            "podSets": [{"count": count, "podTemplateRef": {"name": "t"}}],
        },
    }


def answer(class_name, *pools, fleet=None, count=1):
    template = {"template": {"spec": pod("x", {"cpu": "3"})["spec"]}}
    return provisioning.answer(
        request(class_name, count), lambda _name: template, fleet or Fleet(), pools=pools, starting=(), now=NOW
    )


def test_capacity_that_is_there_is_found():
    verdict = answer(provisioning.CHECK, fleet=fleet_of(pool("p"), "a"))
    assert (verdict.condition["type"], verdict.nodes) == ("Provisioned", ())


def test_all_pods_must_fit():
    assert answer(provisioning.CHECK, fleet=fleet_of(pool("p"), "a"), count=2).condition["type"] == "Failed"


def test_a_scale_up_starts_nodes():
    verdict = answer(provisioning.SCALE_UP, pool("p", "m5.xlarge"), count=2)
    assert (verdict.condition["type"], len(verdict.nodes)) == ("Provisioned", 2)


def test_a_scale_up_that_no_pool_can_serve_fails():
    assert answer(provisioning.SCALE_UP, pool("p", "m5.large")).condition["type"] == "Failed"


def test_a_pod_grows_a_pool_when_it_still_waits_at_the_next_look():
    """At the first look it may wait for the room of a pod that is just ending."""
    new = waiting("a", {"cpu": "1"})
    new["status"] = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    scheduler = SimpleNamespace(waiting={"default/a": new}, fleet=Fleet())
    cache = SimpleNamespace(add_kind=lambda kind: None, on_change=lambda kind, call: None)
    autoscaler = Autoscaler(cache, scheduler, None, None, runtime="simulated")
    looks = [autoscaler._grow([pool("cpu", "e2-standard-4")], NOW) for _ in range(3)]
    assert [[event.reason for event in events] for events in looks] == [[], ["TriggeredScaleUp"], []]
