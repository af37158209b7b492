"""The invariants of the engine's state. Tests call `check` after events and at the teardown of
every engine test.

A check reads the whole state, so it is too slow for production.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import structs

from pykueue.engine import events
from pykueue.engine.engine import Engine
from pykueue.engine.quota import quota_tree
from pykueue.engine.state import EngineState
from pykueue.engine.values import FlavorResource


class InvariantError(AssertionError):
    """The state of the engine is inconsistent; the message lists all faults."""


def check(engine: Engine, *, quota_shrank: bool = False) -> None:
    """Raise `InvariantError` on any fault.

    After quota shrank or cohorts changed, usage may exceed the limits.
    """
    state = engine._state  # noqa: SLF001 - a part of the engine
    state.settle()
    faults = [*_usage_faults(state), *_queue_faults(state), *_topology_faults(state), *_rebuild_faults(engine)]
    if not quota_shrank:
        faults += _limit_faults(state)
    if faults:
        raise InvariantError("; ".join(faults))


def _nodes(state: EngineState) -> Iterator[quota_tree.QuotaNode]:
    yield from state.tree.cluster_queues.values()
    yield from state.tree.cohorts.values()


def _nonzero(usage: quota_tree.Usage) -> quota_tree.Usage:
    return {index: amount for index, amount in sorted(usage.items()) if amount}


def _usage_faults(state: EngineState) -> Iterator[str]:
    """A queue uses the sum of its reservations, a cohort what its children pass up."""
    for queue in state.cluster_queues.values():
        total: quota_tree.Usage = {}
        for reservation in queue.reservations:
            for index, amount in reservation.usage.items():
                total[index] = total.get(index, 0) + amount
        if _nonzero(total) != _nonzero(queue.node.usage):
            yield f"{queue.name} uses {queue.node.usage} but its workloads {total}"
    for cohort in state.tree.cohorts.values():
        passed: quota_tree.Usage = {}
        borrowers: dict[int, set[str]] = {}
        for child in cohort.children.values():
            for index, amount in child.usage.items():
                passed[index] = passed.get(index, 0) + max(0, amount - child.local.get(index, 0))
                if amount > child.subtree.get(index, 0):
                    borrowers.setdefault(index, set()).add(child.name)
        if _nonzero(passed) != _nonzero(cohort.usage):
            yield f"cohort {cohort.name} uses {cohort.usage} but its children pass up {passed}"
        recorded = {index: {node.name for node in nodes.values()} for index, nodes in cohort.borrowers.items() if nodes}
        if recorded != borrowers:
            yield f"cohort {cohort.name} records the borrowers {recorded}, but they are {borrowers}"


def _limit_faults(state: EngineState) -> Iterator[str]:
    """Without evicted workloads and replaced slices, no node uses more than it can borrow."""
    replaced = {reservation.workload.replaces for reservation in state.reservations.values()}
    with state.ledger.trial():
        for queue in state.cluster_queues.values():
            for reservation in queue.reservations:
                if reservation.evicted or reservation.key in replaced:
                    state.ledger.release(queue.node, reservation.usage)
        for node in _nodes(state):
            for index, amount in _nonzero(node.usage).items():
                if amount > quota_tree.potential_available(node, index):
                    name = state.tree.flavor_resources.names[index]
                    yield f"{node.name} uses {amount} of {name}, at most {quota_tree.potential_available(node, index)}"


def _queue_faults(state: EngineState) -> Iterator[str]:
    """A workload is pending in one queue, or has quota in one, or neither; never both."""
    for queue in state.cluster_queues.values():
        waiting = [*queue.pending.in_heap(), *queue.pending.inadmissible()]
        if len(waiting) != len(queue.pending) or len(queue.pending.in_heap()) != queue.pending.active_count:
            yield f"{queue.name} miscounts: {len(waiting)} pending, {queue.pending.active_count} in the heap"
        for pending in waiting:
            if pending.key in state.reservations:
                yield f"{pending.key} is pending in {queue.name} and has quota"
            if state.queue_of(pending.workload) is not queue:
                yield f"{pending.key} is pending in the wrong queue {queue.name}"
        for reservation in queue.reservations:
            if state.reservations.get(reservation.key) is not reservation:
                yield f"{reservation.key} has quota in {queue.name} that the state does not have"
    for key in state.assumed:
        if key not in state.reservations:
            yield f"{key} is assumed but has no reservation"


def _topology_faults(state: EngineState) -> Iterator[str]:
    """The usage of topology domains is the sum of the reservations."""
    reserved: Counter[tuple[str, ...]] = Counter()
    for reservation in state.reservations.values():
        for usage in reservation.topology_usage:
            for resource, amount in usage.amounts.items():
                reserved[usage.flavor, *usage.domain, resource] += amount
    used = {
        (flavor, *domain, resource): amount
        for flavor, domains in state.topology_cache.usage.items()
        for domain, amounts in domains.items()
        for resource, amount in amounts.items()
        if amount
    }
    if used != {key: amount for key, amount in reserved.items() if amount}:
        yield f"the topology usage is {used}, but the reservations have {dict(reserved)}"


def _quotas(
    state: EngineState, node: quota_tree.QuotaNode
) -> tuple[dict[FlavorResource, int], dict[FlavorResource, int]]:
    """Usage and quota by flavor and resource; their indexes are in the order of their arrival."""
    names = state.tree.flavor_resources.names
    usage = {names[index]: amount for index, amount in _nonzero(node.usage).items()}
    return usage, {names[index]: amount for index, amount in node.subtree.items()}


def _rebuild_faults(engine: Engine) -> Iterator[str]:
    """A new engine that gets the present objects has the same state."""
    rebuilt = rebuild(engine)._state  # noqa: SLF001
    rebuilt.settle()
    live = engine._state  # noqa: SLF001
    for name, node in live.tree.cluster_queues.items():
        other = rebuilt.tree.cluster_queues[name]
        if (*_quotas(live, node), node.path) != (*_quotas(rebuilt, other), other.path):
            yield f"{name} differs from its rebuilding"
    if {name: (*_quotas(live, node), node.height) for name, node in live.tree.cohorts.items()} != {
        name: (*_quotas(rebuilt, node), node.height) for name, node in rebuilt.tree.cohorts.items()
    }:
        yield "cohorts differ from their rebuilding"
    for name, queue in live.cluster_queues.items():
        twin = rebuilt.cluster_queues[name]
        waiting = {pending.key for pending in (*queue.pending.in_heap(), *queue.pending.inadmissible())}
        if waiting != {pending.key for pending in (*twin.pending.in_heap(), *twin.pending.inadmissible())}:
            yield f"{name} has other workloads waiting than its rebuilding"
        if queue.inactivity != twin.inactivity:
            yield f"{name} is not as active as its rebuilding"


def rebuild(engine: Engine) -> Engine:
    """A new engine with all present objects, also with admissions that are only assumed."""
    state = engine._state  # noqa: SLF001
    fresh = Engine(state.policy)
    at_ns = state.now_ns
    for name, labels in state.namespaces.items():
        fresh.handle(events.NamespaceChanged(at_ns=at_ns, name=name, labels=labels))
    _rebuild_topology(state, fresh)
    for flavor in state.flavors.values():
        fresh.handle(events.FlavorChanged(at_ns=at_ns, flavor=flavor))
    for admission_check in state.checks.values():
        fresh.handle(events.AdmissionCheckChanged(at_ns=at_ns, check=admission_check))
    for cohort in state.cohorts.values():
        fresh.handle(events.CohortChanged(at_ns=at_ns, cohort=cohort))
    for queue in state.cluster_queues.values():
        fresh.handle(events.ClusterQueueChanged(at_ns=at_ns, cluster_queue=queue.value))
    for local_queue in state.local_queues.values():
        fresh.handle(events.LocalQueueChanged(at_ns=at_ns, local_queue=local_queue))
    for key, workload in state.workloads.items():
        reservation = state.reservations.get(key)
        if key in state.assumed and reservation is not None:
            assumed = structs.replace(
                workload, admission=reservation.admission, reserved_at_ns=reservation.reserved_at_ns
            )
            fresh.handle(events.WorkloadArrived(at_ns=at_ns, workload=assumed))
        else:
            fresh.handle(events.WorkloadArrived(at_ns=at_ns, workload=workload))
    return fresh


def _rebuild_topology(state: EngineState, fresh: Engine) -> None:
    for name, levels in state.topology_cache.topologies.items():
        fresh.handle(events.TopologyChanged(at_ns=state.now_ns, name=name, levels=levels))
    for node in state.topology_cache.nodes.values():
        fresh.handle(events.NodeChanged(at_ns=state.now_ns, node=node))
    for key, (name, requests) in state.topology_cache.pods.items():
        fresh.handle(events.PodBound(at_ns=state.now_ns, key=key, node=name, requests=requests))
