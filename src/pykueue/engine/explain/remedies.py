"""Remedies: the smallest changes that would admit a pending workload now.

Every remedy is proposed from the state and then tried: a fork of the engine gets the change as
events and runs cycles, and only a remedy that admits the workload there, or starts preemptions for
it, is named. Called by `explain`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from pykueue.engine import events, values
from pykueue.engine.cycle import nominate
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.explain import limits
from pykueue.engine.explain.explanation import (
    Activate,
    CoverResources,
    CreateFlavors,
    DropChecks,
    DropRequests,
    FewerPods,
    HigherPriority,
    MoreQuota,
    Obstacle,
    ReduceRequests,
    Remedy,
    ResumeQueue,
    SelectNamespace,
    UseLocalQueue,
)
from pykueue.engine.explain.trial import RemedyTrial
from pykueue.engine.flavors import matching
from pykueue.engine.flavors.assigner import FlavorAssigner
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import target_search
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.pending_queue import PendingWorkload
from pykueue.engine.quota import quota_tree
from pykueue.engine.reasons import InactiveReason, Mode
from pykueue.engine.state import EngineState

_MAX_RAISES = 10
_MAX_LOCAL_QUEUES = 5


class _Repair(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy for a misconfiguration, as changes of the cluster queue and the workload."""

    remedy: Remedy
    change_queue: Callable[[values.ClusterQueue], values.ClusterQueue] | None = None
    change_workload: Callable[[values.Workload], values.Workload] | None = None
    created: tuple[events.EngineEvent, ...] = ()


def find(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> tuple[Remedy, ...]:
    """What would admit a workload now that is pending in a cluster queue."""
    repairs = [repair.remedy for repair in _repairs(state, entry, trial) if trial.admits(_changes(entry, [repair]))]
    if entry.assignment is None or not limits.fits_a_node(entry.pending.workload, trial.largest_node):
        return tuple(repairs)
    quota = (
        _more_quota(state, entry, trial),
        _higher_priority(state, entry, trial),
        _fewer_pods(state, entry, trial),
    )
    remedies = [*repairs, *(remedy for remedy in quota if remedy is not None)]
    return tuple(sorted(remedies, key=lambda remedy: isinstance(remedy, ReduceRequests)))


def find_repairs(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> tuple[tuple[Remedy, ...], ...]:
    """What must be repaired before a workload can be admitted at all: alternatives.

    An alternative is one remedy, or all of them if no single one is enough.
    """
    repairs = _repairs(state, entry, trial)
    single = [(repair.remedy,) for repair in repairs if trial.admits_alone(_changes(entry, [repair]))]
    if single:
        return tuple(single)
    together = [repair for repair in repairs if not isinstance(repair.remedy, (DropRequests, ReduceRequests))]
    if len(together) > 1 and trial.admits_alone(_changes(entry, together)):
        return (tuple(repair.remedy for repair in together),)
    return ()


def find_outside(
    state: EngineState, workload: values.Workload, obstacle: Obstacle | None, trial: RemedyTrial
) -> tuple[Remedy, ...]:
    """The remedies of a workload that is in no queue; after them it may have to wait."""
    match obstacle:
        case Obstacle.DEACTIVATED if trial.admits_alone(
            [_changed(_queued_again(structs.replace(workload, active=True)))]
        ):
            return (Activate(),)
        case Obstacle.LOCAL_QUEUE_MISSING | Obstacle.CLUSTER_QUEUE_MISSING:
            return _other_local_queues(state, workload, trial)
        case Obstacle.LOCAL_QUEUE_STOPPED:
            return _resume_local_queue(state, workload, trial)
    return ()


def _changed(workload: values.Workload) -> events.WorkloadChanged:
    """The changed workload as an event; its scheduling hash is no longer known."""
    return events.WorkloadChanged(workload=structs.replace(workload, scheduling_hash=""))


def _queued_again(workload: values.Workload) -> values.Workload:
    """The workload as the controllers make it when nothing keeps it out of its queue any more."""
    requeued = True if workload.requeued is False else workload.requeued
    return structs.replace(workload, requeued=requeued)


# Misconfiguration.


def _repairs(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> list[_Repair]:
    repairs = [_drop_requests(entry), _reduce_requests(state, entry, trial.largest_node)]
    if limits.fits_a_node(entry.pending.workload, trial.largest_node):
        repairs = [
            _cover_resources(entry),
            *repairs,
            _select_namespace(state, entry),
            _create_flavors(entry.queue),
            _drop_checks(entry.queue),
            _resume_cluster_queue(entry.queue),
        ]
    return [
        repair
        for repair in repairs
        if repair is not None
        and (
            repair.change_workload is None
            or limits.fits_a_node(repair.change_workload(entry.pending.workload), trial.largest_node)
        )
    ]


def _changes(entry: CycleEntry, repairs: Iterable[_Repair]) -> list[events.EngineEvent]:
    changes: list[events.EngineEvent] = []
    cluster_queue, workload = entry.queue.value, entry.pending.workload
    for repair in repairs:
        changes += repair.created
        if repair.change_queue is not None:
            cluster_queue = repair.change_queue(cluster_queue)
        if repair.change_workload is not None:
            workload = repair.change_workload(workload)
    if cluster_queue is not entry.queue.value:
        changes.append(events.ClusterQueueChanged(cluster_queue=cluster_queue))
    if workload is not entry.pending.workload:
        changes.append(_changed(workload))
    return changes


def _undeclared(entry: CycleEntry) -> dict[values.ResourceName, int]:
    amounts: dict[values.ResourceName, int] = {}
    for pod_set in entry.pending.workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            if amount and resource not in entry.queue.group_of:
                amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def _cover_resources(entry: CycleEntry) -> _Repair | None:
    """The first resource group gets the resources, with this quota in each of its flavors."""
    amounts = _undeclared(entry)
    if not amounts or not entry.queue.value.resource_groups:
        return None
    first, *others = entry.queue.value.resource_groups
    added = {resource: values.Quota(nominal=amount) for resource, amount in amounts.items()}
    group = values.ResourceGroup(
        covered_resources=(*first.covered_resources, *added),
        flavors=tuple(structs.replace(flavor, resources={**flavor.resources, **added}) for flavor in first.flavors),
    )
    return _Repair(
        remedy=CoverResources(amounts=amounts),
        change_queue=lambda queue: structs.replace(queue, resource_groups=(group, *others)),
    )


def _drop_requests(entry: CycleEntry) -> _Repair | None:
    amounts = _undeclared(entry)
    if not amounts:
        return None
    pod_sets = tuple(
        limits.with_pod_requests(pod_set, dict.fromkeys(amounts, 0)) for pod_set in entry.pending.workload.pod_sets
    )
    return _Repair(
        remedy=DropRequests(resources=tuple(sorted(amounts))),
        change_workload=lambda workload: structs.replace(workload, pod_sets=pod_sets),
    )


def _reduce_requests(
    state: EngineState, entry: CycleEntry, largest_node: Mapping[values.ResourceName, int] | None
) -> _Repair | None:
    """Requests beyond the quota or the nodes become as large as both allow."""
    workload = entry.pending.workload
    amounts = limits.reduced(state, entry.queue, workload, largest_node)
    is_dropped = all(resource not in entry.queue.group_of for names in amounts.values() for resource in names)
    if is_dropped or not limits.leaves_something(entry.queue, amounts, largest_node):
        return None  # `_drop_requests` or `_fewer_pods` is better
    return _Repair(
        remedy=ReduceRequests(amounts=amounts),
        change_workload=lambda before: structs.replace(
            before,
            pod_sets=tuple(
                limits.with_pod_requests(pod_set, amounts.get(pod_set.name, {})) for pod_set in before.pod_sets
            ),
        ),
    )


def _select_namespace(state: EngineState, entry: CycleEntry) -> _Repair | None:
    namespace = entry.pending.workload.namespace
    if namespace not in state.namespaces or state.namespace_check(entry.queue)(namespace):
        return None
    return _Repair(
        remedy=SelectNamespace(),
        change_queue=lambda queue: structs.replace(queue, namespace_selector=values.LabelSelector()),
    )


def _create_flavors(queue: ClusterQueueState) -> _Repair | None:
    names = tuple(
        values.FlavorName(name)
        for inactivity in queue.inactivity
        if inactivity.reason is InactiveReason.FLAVOR_NOT_FOUND
        for name in inactivity.names
    )
    created = tuple(events.FlavorChanged(flavor=values.ResourceFlavor(name=name)) for name in names)
    return _Repair(remedy=CreateFlavors(names=names), created=created) if names else None


def _drop_checks(queue: ClusterQueueState) -> _Repair | None:
    """Creating a check is not enough: its controller must answer."""
    reasons = (InactiveReason.ADMISSION_CHECK_NOT_FOUND, InactiveReason.ADMISSION_CHECK_INACTIVE)
    names = {
        values.CheckName(name): None
        for inactivity in queue.inactivity
        if inactivity.reason in reasons
        for name in inactivity.names
    }
    if not names:
        return None
    return _Repair(
        remedy=DropChecks(names=tuple(names)),
        change_queue=lambda before: structs.replace(
            before,
            admission_checks={name: flavors for name, flavors in before.admission_checks.items() if name not in names},
        ),
    )


def _resume_cluster_queue(queue: ClusterQueueState) -> _Repair | None:
    if queue.value.stop_policy is values.StopPolicy.NONE:
        return None
    return _Repair(remedy=ResumeQueue(cluster_queue=queue.name), change_queue=_resumed, change_workload=_queued_again)


def _resumed(queue: values.ClusterQueue) -> values.ClusterQueue:
    return structs.replace(queue, stop_policy=values.StopPolicy.NONE)


def _resume_local_queue(state: EngineState, workload: values.Workload, trial: RemedyTrial) -> tuple[Remedy, ...]:
    local_queue = state.local_queues[workload.local_queue]
    name = local_queue.key.partition("/")[2]
    resumed = events.LocalQueueChanged(local_queue=structs.replace(local_queue, stop_policy=values.StopPolicy.NONE))
    queued = _changed(_queued_again(workload))
    if trial.admits_alone([resumed, queued]):
        return (ResumeQueue(local_queue=name),)
    queue = state.cluster_queues.get(local_queue.cluster_queue)
    if queue is None or queue.value.stop_policy is values.StopPolicy.NONE:
        return ()
    both: list[events.EngineEvent] = [resumed, events.ClusterQueueChanged(cluster_queue=_resumed(queue.value)), queued]
    return (ResumeQueue(local_queue=name, cluster_queue=queue.name),) if trial.admits_alone(both) else ()


def _other_local_queues(state: EngineState, workload: values.Workload, trial: RemedyTrial) -> tuple[Remedy, ...]:
    import difflib

    keys = [key for key in sorted(state.local_queues) if key.startswith(f"{workload.namespace}/")]
    keys.sort(key=lambda key: -difflib.SequenceMatcher(None, key, workload.local_queue).ratio())
    helpful = [
        key
        for key in keys[:_MAX_LOCAL_QUEUES]
        if trial.admits_alone([_changed(structs.replace(workload, local_queue=key))])
    ]
    return (UseLocalQueue(names=tuple(key.partition("/")[2] for key in helpful)),) if helpful else ()


# Quota, priority and size.


def _more_quota(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> MoreQuota | None:
    """More quota in the assigned, or first matching, flavors; None if that does not help.

    Workloads ahead in the queue may take the new quota first. Then what those use that the trial
    admitted is added, again and again: a larger quota never admits less of the others, so that for
    one resource this ends at the smallest amount. All who wait ahead count in the last attempt,
    for a StrictFIFO queue.
    """
    usage = _request(state, entry)
    if usage is None:
        return None
    tried: dict[values.FlavorResource, int] = {}
    total = usage
    for _ in range(_MAX_RAISES):
        amounts = _missing(state, entry, total)
        if not amounts or amounts == tried:
            break
        others = trial.admitted_before([_raised(entry.queue, amounts)])
        if others is None:
            return MoreQuota(amounts=amounts)
        tried, total = amounts, _with_admitted(state, entry, usage, others)
    amounts = _missing(state, entry, _with_those_ahead(state, entry, usage))
    return MoreQuota(amounts=amounts) if amounts and trial.admits([_raised(entry.queue, amounts)]) else None


def _missing(state: EngineState, entry: CycleEntry, usage: quota_tree.Usage) -> dict[values.FlavorResource, int]:
    names = state.tree.flavor_resources.names
    return {names[index]: amount for index, amount in _short(entry.queue.node, usage).items()}


def _with_admitted(
    state: EngineState, entry: CycleEntry, usage: quota_tree.Usage, others: Iterable[values.Admission]
) -> quota_tree.Usage:
    """The usage, and that of the admissions in the same cluster queue."""
    total = dict(usage)
    for admission in others:
        for pod_set in admission.pod_sets if admission.cluster_queue == entry.queue.name else ():
            for resource, flavor in pod_set.flavors.items():
                index = state.tree.flavor_resources.index(flavor, resource)
                if index in total:
                    total[index] += pod_set.usage.get(resource, 0)
    return total


def _with_those_ahead(state: EngineState, entry: CycleEntry, usage: quota_tree.Usage) -> quota_tree.Usage:
    total = dict(usage)
    names = state.tree.flavor_resources.names
    for pending in entry.queue.pending.in_order():
        if pending.order < entry.pending.order:
            for index in usage:
                total[index] += sum(
                    pod_set.requests.get(names[index].resource, 0) for pod_set in pending.workload.pod_sets
                )
    return total


def _short(node: quota_tree.QuotaNode, usage: quota_tree.Usage) -> quota_tree.Usage:
    """The missing quota. It exceeds the request where usage already exceeds the quota."""
    available = {index: quota_tree.available(node, index) for index in usage}
    return {index: amount - available[index] for index, amount in usage.items() if available[index] < amount}


def _raised(queue: ClusterQueueState, amounts: Mapping[values.FlavorResource, int]) -> events.ClusterQueueChanged:
    def raised(flavor: values.FlavorQuotas) -> values.FlavorQuotas:
        quotas = {
            resource: structs.replace(
                quota, nominal=quota.nominal + amounts.get(values.FlavorResource(flavor.name, resource), 0)
            )
            for resource, quota in flavor.resources.items()
        }
        return structs.replace(flavor, resources=quotas)

    groups = tuple(
        structs.replace(group, flavors=tuple(map(raised, group.flavors))) for group in queue.value.resource_groups
    )
    return events.ClusterQueueChanged(cluster_queue=structs.replace(queue.value, resource_groups=groups))


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


def _higher_priority(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> HigherPriority | None:
    if entry.targets:
        return None
    own = entry.pending.workload.priority
    for priority in _priorities_above(state, entry):
        raised = structs.replace(entry.pending.workload, priority=priority + 1)
        attempt = CycleEntry(PendingWorkload(raised, state.policy), entry.queue)
        if nominate.best_nomination(state, attempt).targets:
            raised_priority = max(own, priority + 1)
            changed = _changed(structs.replace(entry.pending.workload, priority=raised_priority))
            return HigherPriority(priority=raised_priority) if trial.admits([changed]) else None
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


def _fewer_pods(state: EngineState, entry: CycleEntry, trial: RemedyTrial) -> FewerPods | None:
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
        structs.replace(pod_set, spec_count=pod_set.count, min_count=min(1, pod_set.count))
        for pod_set in workload.pod_sets
    ]
    result = nominate.search_counts(reducible, attempt)
    if result is None:
        return None
    counts = {pod_set.name: pod_set.count for pod_set in result.pod_sets}
    pod_sets = tuple(_resized(pod_set, counts[pod_set.name]) for pod_set in workload.pod_sets)
    return FewerPods(counts=counts) if trial.admits([_changed(structs.replace(workload, pod_sets=pod_sets))]) else None


def _resized(pod_set: values.PodSet, count: int) -> values.PodSet:
    requests = {name: amount // max(1, pod_set.count) * count for name, amount in pod_set.requests.items()}
    return structs.replace(pod_set, count=count, spec_count=count, requests=requests)
