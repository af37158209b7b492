"""What must always be true of the engine. Tests and simulations call `check` after every event.

It looks at everything, so it costs what exists, not what changed: never call it in the hot path.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

from pykueue.engine import events
from pykueue.engine.engine import Engine
from pykueue.engine.quota import quota_tree
from pykueue.engine.world import World


class InvariantError(AssertionError):
    """The engine contradicts itself; the message lists how."""


def check(engine: Engine, *, quota_shrank: bool = False) -> None:
    """Raise if anything is wrong. After quota shrank (or cohorts changed) usage may be above the limits for a while."""
    world = engine.world
    world.settle()
    found = [*_usage_faults(world), *_place_faults(world), *_booking_faults(world), *_rebuild_faults(engine)]
    if not quota_shrank:
        found += _limit_faults(world)
    if found:
        raise InvariantError("; ".join(found))


def _nodes(world: World) -> Iterator[quota_tree.QuotaNode]:
    yield from world.tree.cluster_queues.values()
    yield from world.tree.cohorts.values()


def _nonzero(usage: quota_tree.Usage) -> quota_tree.Usage:
    return {index: amount for index, amount in sorted(usage.items()) if amount}


def _usage_faults(world: World) -> Iterator[str]:
    """Usage of a queue is the sum of its admissions, of a cohort what its children pass up."""
    for queue in world.cluster_queues.values():
        total: quota_tree.Usage = {}
        for holding in queue.holdings:
            for index, amount in holding.usage.items():
                total[index] = total.get(index, 0) + amount
        if _nonzero(total) != _nonzero(queue.node.usage):
            yield f"{queue.name} uses {queue.node.usage} but its workloads {total}"
    for cohort in world.tree.cohorts.values():
        passed: quota_tree.Usage = {}
        borrowers: dict[int, set[str]] = {}
        for child in cohort.children.values():
            for index, amount in child.usage.items():
                passed[index] = passed.get(index, 0) + max(0, amount - child.local.get(index, 0))
                if amount > child.subtree.get(index, 0):
                    borrowers.setdefault(index, set()).add(child.name)
        if _nonzero(passed) != _nonzero(cohort.usage):
            yield f"cohort {cohort.name} uses {cohort.usage} but its children pass up {passed}"
        known = {index: {node.name for node in nodes.values()} for index, nodes in cohort.borrowers.items() if nodes}
        if known != borrowers:
            yield f"cohort {cohort.name} knows borrowers {known}, there are {borrowers}"


def _limit_faults(world: World) -> Iterator[str]:
    """Nobody uses more than can be borrowed, once those on their way out are gone."""
    with world.ledger.trial():
        for queue in world.cluster_queues.values():
            for holding in queue.holdings:
                if holding.evicted:
                    world.ledger.release(queue.node, holding.usage)
        for node in _nodes(world):
            for index, amount in _nonzero(node.usage).items():
                if amount > quota_tree.potential_available(node, index):
                    name = world.tree.flavor_resources.names[index]
                    yield f"{node.name} uses {amount} of {name}, at most {quota_tree.potential_available(node, index)}"


def _place_faults(world: World) -> Iterator[str]:
    """A workload waits in one queue, or holds quota in one, or neither; never both."""
    for queue in world.cluster_queues.values():
        waiting = [*queue.pending.in_heap(), *queue.pending.parked()]
        if len(waiting) != len(queue.pending) or len(queue.pending.in_heap()) != queue.pending.active_count:
            yield f"{queue.name} miscounts: {len(waiting)} wait, {queue.pending.active_count} in the heap"
        for pending in waiting:
            if pending.key in world.holdings:
                yield f"{pending.key} both waits in {queue.name} and holds quota"
            if world.queue_of(pending.workload) is not queue:
                yield f"{pending.key} waits in the wrong queue {queue.name}"
        for holding in queue.holdings:
            if world.holdings.get(holding.key) is not holding:
                yield f"{holding.key} holds quota in {queue.name} unknown to the world"
    for key in world.assumed:
        if key not in world.holdings:
            yield f"{key} is assumed but holds nothing"


def _booking_faults(world: World) -> Iterator[str]:
    """What is booked on domains is what the workloads there take."""
    taken: Counter[tuple[str, ...]] = Counter()
    for holding in world.holdings.values():
        for place in holding.taken:
            for resource, amount in place.amounts.items():
                taken[place.flavor, *place.domain, resource] += amount
    booked = {
        (flavor, *domain, resource): amount
        for flavor, domains in world.places.booked.items()
        for domain, amounts in domains.items()
        for resource, amount in amounts.items()
        if amount
    }
    if booked != {key: amount for key, amount in taken.items() if amount}:
        yield f"booked places {booked} are not those of the workloads {dict(taken)}"


def _rebuild_faults(engine: Engine) -> Iterator[str]:
    """An engine that sees the present objects for the first time comes to the same state."""
    rebuilt = rebuild(engine).world
    rebuilt.settle()
    live = engine.world
    for name, node in live.tree.cluster_queues.items():
        other = rebuilt.tree.cluster_queues[name]
        if (_nonzero(node.usage), node.subtree, node.path) != (_nonzero(other.usage), other.subtree, other.path):
            yield f"{name} differs from its rebuilding"
    if {name: (_nonzero(node.usage), node.subtree, node.height) for name, node in live.tree.cohorts.items()} != {
        name: (_nonzero(node.usage), node.subtree, node.height) for name, node in rebuilt.tree.cohorts.items()
    }:
        yield "cohorts differ from their rebuilding"
    for name, queue in live.cluster_queues.items():
        twin = rebuilt.cluster_queues[name]
        waiting = {pending.key for pending in (*queue.pending.in_heap(), *queue.pending.parked())}
        if waiting != {pending.key for pending in (*twin.pending.in_heap(), *twin.pending.parked())}:
            yield f"{name} has other workloads waiting than its rebuilding"
        if queue.inactivity != twin.inactivity:
            yield f"{name} is not as active as its rebuilding"


def rebuild(engine: Engine) -> Engine:
    """A new engine told of every object as it is now, admissions not yet written included."""
    world = engine.world
    fresh = Engine(world.policy)
    at_ns = world.now_ns
    for name, labels in world.namespaces.items():
        fresh.handle(events.NamespaceChanged(at_ns=at_ns, name=name, labels=labels))
    _rebuild_places(world, fresh)
    for flavor in world.flavors.values():
        fresh.handle(events.FlavorChanged(at_ns=at_ns, flavor=flavor))
    for admission_check in world.checks.values():
        fresh.handle(events.AdmissionCheckChanged(at_ns=at_ns, check=admission_check))
    for cohort in world.cohorts.values():
        fresh.handle(events.CohortChanged(at_ns=at_ns, cohort=cohort))
    for queue in world.cluster_queues.values():
        fresh.handle(events.ClusterQueueChanged(at_ns=at_ns, cluster_queue=queue.value))
    for local_queue in world.local_queues.values():
        fresh.handle(events.LocalQueueChanged(at_ns=at_ns, local_queue=local_queue))
    for key, workload in world.workloads.items():
        holding = world.holdings.get(key)
        if key in world.assumed and holding is not None:
            seen = dataclasses.replace(workload, admission=holding.admission, reserved_at_ns=holding.reserved_at_ns)
            fresh.handle(events.WorkloadArrived(at_ns=at_ns, workload=seen))
        else:
            fresh.handle(events.WorkloadArrived(at_ns=at_ns, workload=workload))
    return fresh


def _rebuild_places(world: World, fresh: Engine) -> None:
    for name, levels in world.places.topologies.items():
        fresh.handle(events.TopologyChanged(at_ns=world.now_ns, name=name, levels=levels))
    for node in world.places.nodes.values():
        fresh.handle(events.NodeChanged(at_ns=world.now_ns, node=node))
    for key, (name, requests) in world.places.pods.items():
        fresh.handle(events.PodBound(at_ns=world.now_ns, key=key, node=name, requests=requests))
