"""The explanation of one workload: the steps of the cycle run for it alone, and their results are
recorded.

Nothing changes: quota is only charged inside trials of the ledger, queues are only read, and
remedies are tried on forks of the engine.
`EngineView.explain` calls it, and `translate.explanations` makes text of the result.
"""

from collections.abc import Iterable, Iterator, Mapping

from pykueue.engine import reasons, values
from pykueue.engine.cycle import nominate
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.explain import limits, remedies
from pykueue.engine.explain.explanation import (
    Explanation,
    FlavorFit,
    Holder,
    Obstacle,
    PodSetFit,
    Refusal,
    ResourceFit,
    Spared,
    Standing,
    Victim,
)
from pykueue.engine.explain.trial import Fork, RemedyTrial
from pykueue.engine.flavors import assignment, matching
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import target_search
from pykueue.engine.queues.cluster_queue import ClusterQueueState, IndexedFlavor, IndexedGroup
from pykueue.engine.queues.pending_queue import PendingWorkload, queue_order_timestamp
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import FlavorReason, FlavorsShort, Mode
from pykueue.engine.state import EngineState
from pykueue.engine.values import PreemptionPolicy


def explain(
    state: EngineState,
    key: values.WorkloadKey,
    fork: Fork,
    *,
    largest_node: Mapping[values.ResourceName, int] | None = None,
) -> Explanation | None:
    """The explanation of a workload; None if the workload does not exist or has finished.

    `fork` makes the copies of the engine on which remedies are tried. No remedy leaves a pod with
    requests beyond `largest_node`.
    """
    workload = state.workloads.get(key)
    if workload is None:
        return None
    state.settle()
    reservation = state.reservations.get(key)
    if reservation is not None:
        return Explanation(
            workload=workload,
            standing=Standing.ADMITTED if workload.admitted else Standing.RESERVED,
            cluster_queue=reservation.cluster_queue,
            admission=reservation.admission,
        )
    queue = state.queue_of(workload)
    obstacle = _obstacle(state, workload)
    trial = RemedyTrial(fork, state, key, largest_node)
    if obstacle is not None or queue is None:
        return Explanation(
            workload=workload,
            standing=Standing.OUTSIDE,
            cluster_queue=None if queue is None else queue.name,
            obstacle=obstacle,
            repairs=tuple((remedy,) for remedy in remedies.find_outside(state, workload, obstacle, trial)),
        )
    return _pending(state, workload, queue, trial)


def _obstacle(state: EngineState, workload: values.Workload) -> Obstacle | None:
    if not workload.active:
        return Obstacle.DEACTIVATED
    if workload.on_hold:
        return Obstacle.ON_HOLD
    if workload.admission_gated:
        return Obstacle.ADMISSION_GATED
    if workload.has_variants:
        return Obstacle.HAS_VARIANTS
    if workload.waiting_for_replacement_pods:
        return Obstacle.WAITING_FOR_PODS
    local_queue = state.local_queues.get(workload.local_queue)
    if local_queue is None:
        return Obstacle.LOCAL_QUEUE_MISSING
    if local_queue.stop_policy is not values.StopPolicy.NONE:
        return Obstacle.LOCAL_QUEUE_STOPPED
    return None if local_queue.cluster_queue in state.cluster_queues else Obstacle.CLUSTER_QUEUE_MISSING


def _pending(
    state: EngineState, workload: values.Workload, queue: ClusterQueueState, trial: RemedyTrial
) -> Explanation:
    entry = CycleEntry(PendingWorkload(workload, state.policy), queue)
    nominate.nominate(state, entry)
    result = entry.assignment
    waiting = queue.pending.in_order()
    ahead = tuple(pending.key for pending in waiting if pending.order < entry.pending.order)
    pod_sets = () if result is None else tuple(_pod_sets(state, workload, queue, result))
    needed = _needed(state, result, pod_sets)
    fits_now = result is not None and result.mode is Mode.FIT
    helpful = () if fits_now else remedies.find(state, entry, trial)
    return Explanation(
        workload=workload,
        standing=Standing.INADMISSIBLE if queue.pending.is_inadmissible(workload.key) else Standing.QUEUED,
        cluster_queue=queue.name,
        position=len(ahead) + 1,
        queue_length=len(waiting),
        ahead=ahead,
        stuck_ahead=tuple(
            pending.key
            for pending in waiting
            if pending.order < entry.pending.order and limits.exceeds(state, queue, pending.workload)
        ),
        is_strict=queue.value.queueing_strategy is values.QueueingStrategy.STRICT_FIFO,
        pending=None if fits_now else _reason(entry),
        pod_sets=pod_sets,
        covered=tuple(sorted(queue.group_of)),
        unschedulable=() if fits_now else tuple(_unschedulable(state, queue, needed, trial.largest_node)),
        victims=tuple(
            Victim(holder=_holder(state, target.reservation, needed), reason=target.reason) for target in entry.targets
        ),
        spared=() if fits_now else tuple(_spared(state, entry, needed)),
        inactivity=queue.inactivity,
        remedies=helpful,
        repairs=() if fits_now or helpful else remedies.find_repairs(state, entry, trial),
    )


def _reason(entry: CycleEntry) -> reasons.PendingReason | None:
    if entry.targets and isinstance(entry.pending_reason, FlavorsShort):
        return FlavorsShort(pod_sets=entry.pending_reason.pod_sets, preempting=len(entry.targets))
    return entry.pending_reason


def _pod_sets(
    state: EngineState, workload: values.Workload, queue: ClusterQueueState, result: Assignment
) -> Iterator[PodSetFit]:
    assumed: quota_tree.Usage = {}
    assigned = {pod_set.name: pod_set for pod_set in result.pod_sets}
    for pod_set in workload.pod_sets:
        requests = dict(sorted(pod_set.requests.items()))
        if values.PODS in queue.group_of:
            requests[values.PODS] = pod_set.count
        groups = {id(group): group for name in requests if (group := queue.group_of.get(name)) is not None}
        yield PodSetFit(
            name=pod_set.name,
            count=pod_set.count,
            requests=requests,
            undeclared=tuple(name for name, amount in requests.items() if amount and name not in queue.group_of),
            flavors=tuple(
                _flavor(state, queue, pod_set, _FlavorRequest(group, flavor, requests, assumed))
                for group in groups.values()
                for flavor in group.flavors
            ),
        )
        chosen = assigned.get(pod_set.name)
        for name, choice in () if chosen is None else chosen.flavors.items():
            assumed[choice.index] = add(assumed.get(choice.index, 0), requests.get(name, 0))


class _FlavorRequest:
    """What a pod set requests of one flavor, by resource: the flavor-resource and the amount."""

    __slots__ = ("amounts", "flavor")

    def __init__(
        self, group: IndexedGroup, flavor: IndexedFlavor, requests: assignment.Requests, assumed: quota_tree.Usage
    ) -> None:
        self.flavor = flavor
        self.amounts = {
            name: (index := flavor.indices[name], add(assumed.get(index, 0), amount))
            for name, amount in requests.items()
            if name in group.covered
        }


def _flavor(state: EngineState, queue: ClusterQueueState, pod_set: values.PodSet, request: _FlavorRequest) -> FlavorFit:
    node = queue.node
    return FlavorFit(
        flavor=request.flavor.name,
        mismatch=_mismatch(state, request.flavor.name, pod_set),
        resources=tuple(
            ResourceFit(
                resource=name,
                requested=amount,
                unused=max(0, quota_tree.available(node, index)),
                nominal=node.nominal.get(index, 0),
                capacity=quota_tree.potential_available(node, index),
                holders=tuple(_holders(state, node, index)),
            )
            for name, (index, amount) in request.amounts.items()
        ),
    )


def _mismatch(state: EngineState, name: values.FlavorName, pod_set: values.PodSet) -> FlavorReason | None:
    flavor = state.flavors.get(name)
    if flavor is None:
        return reasons.FlavorMissing(flavor=name)
    taint = matching.untolerated_taint(flavor, pod_set)
    if taint is not None:
        return reasons.TaintUntolerated(flavor=name, taint=taint)
    return None if matching.matches_affinity(flavor, pod_set) else reasons.AffinityMismatch(flavor=name)


def _holders(state: EngineState, node: quota_tree.QuotaNode, index: quota_tree.Index) -> list[Holder]:
    """The workloads of the tree that use the flavor-resource, the greatest usage first."""
    reservations = [
        reservation
        for queue in state.tree_queues(node.root.key)
        for reservation in queue.reservations
        if reservation.usage.get(index, 0)
    ]
    reservations.sort(key=lambda reservation: (-reservation.usage[index], reservation.key))
    return [_holder(state, reservation, (index,)) for reservation in reservations]


def _holder(state: EngineState, reservation: Reservation, indices: Iterable[quota_tree.Index]) -> Holder:
    names = state.tree.flavor_resources.names
    return Holder(
        workload=reservation.key,
        cluster_queue=reservation.cluster_queue,
        priority=reservation.workload.priority,
        usage={names[index]: reservation.usage[index] for index in sorted(indices) if reservation.usage.get(index, 0)},
        since_ns=reservation.reserved_at_ns,
    )


def _needed(
    state: EngineState, result: Assignment | None, pod_sets: tuple[PodSetFit, ...]
) -> frozenset[quota_tree.Index]:
    """The short flavor-resources of the assigned flavors, or else of all matching ones."""
    chosen = frozenset() if result is None else result.needs_preemption()
    if chosen:
        return chosen
    return frozenset(
        state.tree.flavor_resources.index(flavor.flavor, fit.resource)
        for pod_set in pod_sets
        for flavor in pod_set.flavors
        if flavor.mismatch is None
        for fit in flavor.resources
        if fit.short
    )


def _unschedulable(
    state: EngineState,
    own: ClusterQueueState,
    needed: frozenset[quota_tree.Index],
    largest_node: Mapping[values.ResourceName, int] | None,
) -> Iterator[Holder]:
    """Workloads that use the short flavor-resources but whose pods are larger than any node.

    An admission check of their cluster queue may provide larger nodes.
    """
    for queue in state.tree_queues(own.node.root.key):
        for reservation in () if queue.value.admission_checks else queue.reservations:
            uses_needed = not needed.isdisjoint(reservation.flavor_resources)
            if uses_needed and not limits.fits_a_node(reservation.workload, largest_node):
                yield _holder(state, reservation, needed)


def _spared(state: EngineState, entry: CycleEntry, needed: frozenset[quota_tree.Index]) -> Iterator[Spared]:
    """Workloads that use the short flavor-resources but are not preempted, and why."""
    targets = {target.reservation.key for target in entry.targets}
    for queue in state.tree_queues(entry.queue.node.root.key):
        for reservation in queue.reservations:
            if reservation.key not in targets and not needed.isdisjoint(reservation.flavor_resources):
                refusal = _refusal(state, entry, queue, reservation=reservation, needed=needed)
                yield Spared(holder=_holder(state, reservation, needed), refusal=refusal)


def _refusal(
    state: EngineState,
    entry: CycleEntry,
    queue: ClusterQueueState,
    *,
    reservation: Reservation,
    needed: frozenset[quota_tree.Index],
) -> Refusal:
    policies = entry.queue.value.preemption
    is_own = queue is entry.queue
    policy = policies.within_cluster_queue if is_own else policies.reclaim_within_cohort
    if policy in (PreemptionPolicy.NEVER, PreemptionPolicy.UNSET):
        return Refusal.WITHIN_QUEUE_NEVER if is_own else Refusal.RECLAIM_NEVER
    if not is_own and quota_tree.is_within_quota(queue.node, needed):
        return Refusal.WITHIN_NOMINAL
    workload = entry.pending.workload
    preemptor = (workload.priority, queue_order_timestamp(workload, state.policy))
    if not target_search.satisfies_policy(state.policy, policy, preemptor, candidate=reservation.workload):
        return Refusal.POLICY
    return Refusal.NOT_ENOUGH
