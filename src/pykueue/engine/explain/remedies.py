"""Remedies: the smallest changes that would admit a pending workload now.

More quota, a higher priority and fewer pods are each tried: quota is raised for the trial and
restored. Called by `explain`.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from pykueue.engine import values
from pykueue.engine.cycle import nominate
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.explain.explanation import FewerPods, HigherPriority, MoreQuota, Remedy
from pykueue.engine.flavors import matching
from pykueue.engine.flavors.assigner import FlavorAssigner
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import target_search
from pykueue.engine.queues.pending_queue import PendingWorkload
from pykueue.engine.quota import quota_tree
from pykueue.engine.reasons import Mode
from pykueue.engine.state import EngineState


def find(state: EngineState, entry: CycleEntry) -> tuple[Remedy, ...]:
    return tuple(
        remedy
        for remedy in (_more_quota(state, entry), _higher_priority(state, entry), _fewer_pods(state, entry))
        if remedy is not None
    )


def _more_quota(state: EngineState, entry: CycleEntry) -> MoreQuota | None:
    """More quota in the assigned, or first matching, flavors; None if that does not help."""
    usage = _request(state, entry)
    if usage is None:
        return None
    node, added = entry.queue.node, _short(entry.queue.node, usage)
    with _raised_quota(node, added):
        trial = CycleEntry(
            pending=PendingWorkload(entry.pending.workload, state.policy), queue=entry.queue, is_preemptor=False
        )
        result = nominate.best_nomination(state, trial).assignment
    if not added or result.mode is not Mode.FIT:
        return None
    names = state.tree.flavor_resources.names
    return MoreQuota(amounts={names[index]: amount for index, amount in added.items()})


def _short(node: quota_tree.QuotaNode, usage: quota_tree.Usage) -> quota_tree.Usage:
    """The missing quota. It exceeds the request where usage already exceeds the quota."""
    available = {index: quota_tree.available(node, index) for index in usage}
    return {index: amount - available[index] for index, amount in usage.items() if available[index] < amount}


@contextlib.contextmanager
def _raised_quota(node: quota_tree.QuotaNode, amounts: quota_tree.Usage) -> Iterator[None]:
    """Raise the nominal quota for a trial, and restore it, with all generations, afterwards."""
    before = node.nominal
    generations = [(queue, queue.generation) for queue in quota_tree.subtree_cluster_queues(node.root)]
    node.nominal = {**before, **{index: before.get(index, 0) + amount for index, amount in amounts.items()}}
    quota_tree.rebuild(node.root)
    try:
        yield
    finally:
        node.nominal = before
        quota_tree.rebuild(node.root)
        for queue, generation in generations:
            queue.generation = generation


def _request(state: EngineState, entry: CycleEntry) -> quota_tree.Usage | None:
    usage: quota_tree.Usage = {}
    for pod_set in entry.pending.workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            index = _index(state, entry, pod_set, resource)
            if index is None:
                return None
            usage[index] = usage.get(index, 0) + amount
    return usage


def _index(
    state: EngineState, entry: CycleEntry, pod_set: values.PodSet, resource: values.ResourceName
) -> quota_tree.Index | None:
    group = entry.queue.group_of.get(resource)
    if group is None:
        return None
    assert entry.assignment is not None
    for assigned in entry.assignment.pod_sets:
        if assigned.name == pod_set.name and resource in assigned.flavors:
            return assigned.flavors[resource].index
    usable = (flavor for flavor in group.flavors if _may_use(state, flavor.name, pod_set))
    first = next(usable, None)
    return None if first is None else first.indices[resource]


def _may_use(state: EngineState, name: values.FlavorName, pod_set: values.PodSet) -> bool:
    flavor = state.flavors.get(name)
    return (
        flavor is not None
        and matching.untolerated_taint(flavor, pod_set) is None
        and matching.matches_affinity(flavor, pod_set)
    )


def _higher_priority(state: EngineState, entry: CycleEntry) -> HigherPriority | None:
    if entry.targets:
        return None
    own = entry.pending.workload.priority
    for priority in _priorities_above(state, entry):
        raised = dataclasses.replace(entry.pending.workload, priority=priority + 1)
        trial = CycleEntry(
            pending=PendingWorkload(raised, state.policy), queue=entry.queue, is_preemptor=False, scan_before=None
        )
        if nominate.best_nomination(state, trial).targets:
            return HigherPriority(priority=max(own, priority + 1))
    return None


def _priorities_above(state: EngineState, entry: CycleEntry) -> Iterator[int]:
    own = entry.pending.workload.priority
    yield from sorted(
        {
            reservation.workload.priority
            for queue in state.tree_queues(entry.queue.node.root.key)
            for reservation in queue.reservations
            if reservation.workload.priority >= own
        }
    )


def _fewer_pods(state: EngineState, entry: CycleEntry) -> FewerPods | None:
    workload = entry.pending.workload
    if all(pod_set.count <= 1 for pod_set in workload.pod_sets):
        return None
    assigner = FlavorAssigner(
        policy=state.policy,
        queue=entry.queue,
        flavors=state.flavors,
        workload=workload,
        scan=None,
        oracle=target_search.PreemptionOracle(state, entry.queue, entry.pending),
        topology_cache=state.topology_cache if state.policy.topology_aware else None,
    )

    def attempt(counts: Sequence[int]) -> Assignment | None:
        result = assigner.assign(counts)
        return result if result.mode is Mode.FIT else None

    reducible = [
        dataclasses.replace(pod_set, spec_count=pod_set.count, min_count=min(1, pod_set.count))
        for pod_set in workload.pod_sets
    ]
    result = nominate.search_counts(reducible, attempt)
    return None if result is None else FewerPods(counts={pod_set.name: pod_set.count for pod_set in result.pod_sets})
