"""The smallest changes that would admit a pending workload now: more quota, a higher priority, or fewer pods.

Each is tried before it is named: quota is raised, and given back after the trial. Called by `explain`.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from pykueue.engine import values
from pykueue.engine.cycle import nominate
from pykueue.engine.cycle.entries import Entry
from pykueue.engine.explain.explanation import FewerPods, HigherPriority, MoreQuota, Remedy
from pykueue.engine.flavors import matching
from pykueue.engine.flavors.assigner import FlavorAssigner
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import search
from pykueue.engine.queues.pending_queue import Pending
from pykueue.engine.quota import quota_tree
from pykueue.engine.reasons import Mode
from pykueue.engine.world import World


def find(world: World, entry: Entry) -> tuple[Remedy, ...]:
    return tuple(
        remedy
        for remedy in (_more_quota(world, entry), _higher_priority(world, entry), _fewer_pods(world, entry))
        if remedy is not None
    )


def _more_quota(world: World, entry: Entry) -> MoreQuota | None:
    """For the flavors that were chosen, else for the first that the pods may use; none if it would wait all the same."""
    wanted = _wanted(world, entry)
    if wanted is None:
        return None
    node, added = entry.queue.node, _short(entry.queue.node, wanted)
    with _raised(node, added):
        trial = Entry(pending=Pending(entry.pending.workload, world.policy), queue=entry.queue, is_preemptor=False)
        found = nominate.best_nomination(world, trial).assignment
    if not added or found is None or found.mode is not Mode.FIT:
        return None
    names = world.tree.flavor_resources.names
    return MoreQuota(amounts={names[index]: amount for index, amount in added.items()})


def _short(node: quota_tree.QuotaNode, wanted: quota_tree.Usage) -> quota_tree.Usage:
    """More than what is asked where more is used already than there is."""
    available = {index: quota_tree.available(node, index) for index in wanted}
    return {index: amount - available[index] for index, amount in wanted.items() if available[index] < amount}


@contextlib.contextmanager
def _raised(node: quota_tree.QuotaNode, amounts: quota_tree.Usage) -> Iterator[None]:
    """A trial of a larger nominal quota; afterwards nothing tells of it."""
    before = node.nominal
    generations = [(each, each.generation) for each in quota_tree.subtree_cluster_queues(node.root)]
    node.nominal = {**before, **{index: before.get(index, 0) + amount for index, amount in amounts.items()}}
    quota_tree.rebuild(node.root)
    try:
        yield
    finally:
        node.nominal = before
        quota_tree.rebuild(node.root)
        for each, generation in generations:
            each.generation = generation


def _wanted(world: World, entry: Entry) -> quota_tree.Usage | None:
    wanted: quota_tree.Usage = {}
    for pod_set in entry.pending.workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            index = _index(world, entry, pod_set, resource)
            if index is None:
                return None
            wanted[index] = wanted.get(index, 0) + amount
    return wanted


def _index(
    world: World, entry: Entry, pod_set: values.PodSet, resource: values.ResourceName
) -> quota_tree.Index | None:
    group = entry.queue.group_of.get(resource)
    if group is None:
        return None
    assert entry.assignment is not None
    for assigned in entry.assignment.pod_sets:
        if assigned.name == pod_set.name and resource in assigned.flavors:
            return assigned.flavors[resource].index
    usable = (flavor for flavor in group.flavors if _may_use(world, flavor.name, pod_set))
    first = next(usable, None)
    return None if first is None else first.indices[resource]


def _may_use(world: World, name: values.FlavorName, pod_set: values.PodSet) -> bool:
    flavor = world.flavors.get(name)
    return (
        flavor is not None
        and matching.untolerated_taint(flavor, pod_set) is None
        and matching.matches_affinity(flavor, pod_set)
    )


def _higher_priority(world: World, entry: Entry) -> HigherPriority | None:
    if entry.targets:
        return None
    own = entry.pending.workload.priority
    for priority in _priorities_above(world, entry):
        raised = dataclasses.replace(entry.pending.workload, priority=priority + 1)
        trial = Entry(pending=Pending(raised, world.policy), queue=entry.queue, is_preemptor=False, scan_before=None)
        if nominate.best_nomination(world, trial).targets:
            return HigherPriority(priority=max(own, priority + 1))
    return None


def _priorities_above(world: World, entry: Entry) -> Iterator[int]:
    own = entry.pending.workload.priority
    yield from sorted(
        {
            holding.workload.priority
            for queue in world.tree_queues(world.root_key(entry.queue.node))
            for holding in queue.holdings
            if holding.workload.priority >= own
        }
    )


def _fewer_pods(world: World, entry: Entry) -> FewerPods | None:
    workload = entry.pending.workload
    if all(pod_set.count <= 1 for pod_set in workload.pod_sets):
        return None
    assigner = FlavorAssigner(
        policy=world.policy,
        queue=entry.queue,
        flavors=world.flavors,
        workload=workload,
        scan=None,
        oracle=search.Possibilities(world, entry.queue, entry.pending),
        places=world.places if world.policy.topology_aware else None,
    )

    def attempt(counts: Sequence[int]) -> Assignment | None:
        found = assigner.assign(counts)
        return found if found.mode is Mode.FIT else None

    reducible = [
        dataclasses.replace(pod_set, spec_count=pod_set.count, min_count=min(1, pod_set.count))
        for pod_set in workload.pod_sets
    ]
    found = nominate.search_counts(reducible, attempt)
    return None if found is None else FewerPods(counts={pod_set.name: pod_set.count for pod_set in found.pod_sets})
