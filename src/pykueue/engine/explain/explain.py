"""Why a workload is where it is: the same steps as the cycle's, taken for one workload and written down.

Nothing changes by asking: quota is only tried on the ledger, queues are only read. Called by `pykueue explain` and by the
simulation; `translate.explanations` makes text of the answer.
"""

from collections.abc import Iterable, Iterator

from pykueue.engine import reasons, values
from pykueue.engine.cycle import nominate
from pykueue.engine.cycle.entries import Entry
from pykueue.engine.explain import remedies
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
from pykueue.engine.flavors import assignment, matching
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import search
from pykueue.engine.queues.cluster_queue import ClusterQueueState, Group, GroupFlavor
from pykueue.engine.queues.pending_queue import Pending, queue_order_timestamp
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import FlavorReason, FlavorsShort, Mode
from pykueue.engine.values import PreemptionPolicy
from pykueue.engine.world import World


def explain(world: World, key: values.WorkloadKey) -> Explanation | None:
    """None when the workload is not known."""
    workload = world.workloads.get(key)
    if workload is None:
        return None
    world.settle()
    holding = world.holdings.get(key)
    if workload.finished:
        return Explanation(workload=workload, standing=Standing.FINISHED)
    if holding is not None:
        return Explanation(
            workload=workload,
            standing=Standing.ADMITTED if workload.admitted else Standing.RESERVED,
            cluster_queue=holding.cluster_queue,
            admission=holding.admission,
        )
    queue = world.queue_of(workload)
    obstacle = _obstacle(world, workload)
    if obstacle is not None or queue is None:
        name = None if queue is None else queue.name
        return Explanation(workload=workload, standing=Standing.OUTSIDE, cluster_queue=name, obstacle=obstacle)
    return _pending(world, workload, queue)


def _obstacle(world: World, workload: values.Workload) -> Obstacle | None:
    if not workload.active:
        return Obstacle.DEACTIVATED
    if workload.on_hold:
        return Obstacle.ON_HOLD
    if workload.admission_gated:
        return Obstacle.ADMISSION_GATED
    if workload.waiting_for_replacement_pods:
        return Obstacle.WAITING_FOR_PODS
    local_queue = world.local_queues.get(workload.local_queue)
    if local_queue is None:
        return Obstacle.LOCAL_QUEUE_MISSING
    if local_queue.stop_policy is not values.StopPolicy.NONE:
        return Obstacle.LOCAL_QUEUE_STOPPED
    return None if local_queue.cluster_queue in world.cluster_queues else Obstacle.CLUSTER_QUEUE_MISSING


def _pending(world: World, workload: values.Workload, queue: ClusterQueueState) -> Explanation:
    entry = Entry(pending=Pending(workload, world.policy), queue=queue, is_preemptor=False, scan_before=None)
    nominate.nominate(world, entry)
    found = entry.assignment
    waiting = sorted((*queue.pending.in_heap(), *queue.pending.parked()), key=lambda pending: pending.order)
    ahead = tuple(pending.key for pending in waiting if pending.order < entry.pending.order)
    pod_sets = () if found is None else tuple(_pod_sets(world, workload, queue, found))
    needed = _needed(world, found, pod_sets)
    fits_now = found is not None and found.mode is Mode.FIT
    return Explanation(
        workload=workload,
        standing=Standing.PARKED if queue.pending.is_parked(workload.key) else Standing.QUEUED,
        cluster_queue=queue.name,
        position=len(ahead) + 1,
        queue_length=len(waiting),
        ahead=ahead,
        pending=None if fits_now else _reason(entry),
        pod_sets=pod_sets,
        victims=tuple(
            Victim(holder=_holder(world, target.holding, needed), reason=target.reason) for target in entry.targets
        ),
        spared=() if fits_now else tuple(_spared(world, entry, needed)),
        remedies=() if found is None or fits_now else remedies.find(world, entry),
    )


def _reason(entry: Entry) -> reasons.PendingReason | None:
    if entry.targets and isinstance(entry.pending_reason, FlavorsShort):
        return FlavorsShort(pod_sets=entry.pending_reason.pod_sets, preempting=len(entry.targets))
    return entry.pending_reason


def _pod_sets(
    world: World, workload: values.Workload, queue: ClusterQueueState, found: Assignment
) -> Iterator[PodSetFit]:
    assumed: quota_tree.Usage = {}
    assigned = {pod_set.name: pod_set for pod_set in found.pod_sets}
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
                _flavor(world, queue, pod_set, _Asked(group, flavor, requests, assumed))
                for group in groups.values()
                for flavor in group.flavors
            ),
        )
        chosen = assigned.get(pod_set.name)
        for name, choice in () if chosen is None else chosen.flavors.items():
            assumed[choice.index] = add(assumed.get(choice.index, 0), requests.get(name, 0))


class _Asked:
    """What is asked of one flavor."""

    __slots__ = ("amounts", "flavor")

    def __init__(
        self, group: Group, flavor: GroupFlavor, requests: assignment.Requests, assumed: quota_tree.Usage
    ) -> None:
        self.flavor = flavor
        self.amounts = {
            name: (index := flavor.indices[name], add(assumed.get(index, 0), amount))
            for name, amount in requests.items()
            if name in group.covered
        }


def _flavor(world: World, queue: ClusterQueueState, pod_set: values.PodSet, asked: _Asked) -> FlavorFit:
    node = queue.node
    return FlavorFit(
        flavor=asked.flavor.name,
        mismatch=_mismatch(world, asked.flavor.name, pod_set),
        resources=tuple(
            ResourceFit(
                resource=name,
                requested=amount,
                unused=max(0, quota_tree.available(node, index)),
                nominal=node.nominal.get(index, 0),
                capacity=quota_tree.potential_available(node, index),
                holders=tuple(_holders(world, node, index)),
            )
            for name, (index, amount) in asked.amounts.items()
        ),
    )


def _mismatch(world: World, name: values.FlavorName, pod_set: values.PodSet) -> FlavorReason | None:
    flavor = world.flavors.get(name)
    if flavor is None:
        return reasons.FlavorMissing(flavor=name)
    taint = matching.untolerated_taint(flavor, pod_set)
    if taint is not None:
        return reasons.TaintUntolerated(flavor=name, taint=taint)
    return None if matching.matches_affinity(flavor, pod_set) else reasons.AffinityMismatch(flavor=name)


def _holders(world: World, node: quota_tree.QuotaNode, index: quota_tree.Index) -> list[Holder]:
    """Everyone in the tree who uses the flavor-resource, the greatest first."""
    found = [
        holding
        for queue in world.tree_queues(world.root_key(node))
        for holding in queue.holdings
        if holding.usage.get(index, 0)
    ]
    found.sort(key=lambda holding: (-holding.usage[index], holding.key))
    return [_holder(world, holding, (index,)) for holding in found]


def _holder(world: World, holding: Reservation, indices: Iterable[quota_tree.Index]) -> Holder:
    names = world.tree.flavor_resources.names
    return Holder(
        workload=holding.key,
        cluster_queue=holding.cluster_queue,
        priority=holding.workload.priority,
        usage={names[index]: holding.usage[index] for index in sorted(indices) if holding.usage.get(index, 0)},
        since_ns=holding.reserved_at_ns,
    )


def _needed(world: World, found: Assignment | None, pod_sets: tuple[PodSetFit, ...]) -> frozenset[quota_tree.Index]:
    """What is short in the flavors chosen; without a choice, in every flavor that the pods may use."""
    chosen = frozenset() if found is None else found.needs_preemption()
    if chosen:
        return chosen
    return frozenset(
        world.tree.flavor_resources.index(flavor.flavor, fit.resource)
        for pod_set in pod_sets
        for flavor in pod_set.flavors
        if flavor.mismatch is None
        for fit in flavor.resources
        if fit.short
    )


def _spared(world: World, entry: Entry, needed: frozenset[quota_tree.Index]) -> Iterator[Spared]:
    """Holders of what is short that preemption leaves alone, and why."""
    taken = {target.holding.key for target in entry.targets}
    for queue in world.tree_queues(world.root_key(entry.queue.node)):
        for holding in queue.holdings:
            if holding.key not in taken and not needed.isdisjoint(holding.flavor_resources):
                refusal = _refusal(world, entry, queue, holding=holding, needed=needed)
                yield Spared(holder=_holder(world, holding, needed), refusal=refusal)


def _refusal(
    world: World, entry: Entry, queue: ClusterQueueState, *, holding: Reservation, needed: frozenset[quota_tree.Index]
) -> Refusal:
    policies = entry.queue.value.preemption
    is_own = queue is entry.queue
    policy = policies.within_cluster_queue if is_own else policies.reclaim_within_cohort
    if policy in (PreemptionPolicy.NEVER, PreemptionPolicy.UNSET):
        return Refusal.WITHIN_QUEUE_NEVER if is_own else Refusal.RECLAIM_NEVER
    if not is_own and quota_tree.is_within_quota(queue.node, needed):
        return Refusal.WITHIN_NOMINAL
    workload = entry.pending.workload
    preemptor = (workload.priority, queue_order_timestamp(workload, world.policy))
    if not search.satisfies_policy(world.policy, policy, preemptor, candidate=holding.workload):
        return Refusal.POLICY
    return Refusal.NOT_ENOUGH
