"""Step 2 of the cycle: what each head would get if it were alone, and whom it would evict for that."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from pykueue.engine import reasons, values
from pykueue.engine.cycle.entries import Entry, Fate
from pykueue.engine.flavors import assignment
from pykueue.engine.flavors.assigner import FlavorAssigner, Nominated
from pykueue.engine.flavors.assignment import Assignment, FlavorChoice, PodSetAssignment
from pykueue.engine.preemption import search
from pykueue.engine.preemption.search import Target
from pykueue.engine.queues.pending_queue import ScanMemory
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Mode, NoFitReason, RequeueReason
from pykueue.engine.topology import assigner as placing
from pykueue.engine.topology.assigner import Demands
from pykueue.engine.world import World

Result = TypeVar("Result")

_FAILED = {values.CheckState.RETRY, values.CheckState.REJECTED}


class Nomination(NamedTuple):
    assignment: Assignment
    targets: list[Target]


def nominate(world: World, entry: Entry) -> None:
    workload = entry.pending.workload
    if workload.key in world.holdings and not entry.attempt:
        entry.fate = Fate.DROPPED
    elif _FAILED.intersection(workload.check_states.values()):
        entry.set_pending(reasons.ChecksFailed(), NoFitReason.PENDING_EVALUATION)
    elif not entry.queue.node.participates:
        entry.set_pending(reasons.ClusterQueueInactive(name=entry.queue.name), NoFitReason.SUSPENDED)
    elif workload.namespace not in world.namespaces:
        entry.set_pending(reasons.NamespaceMissing(name=workload.namespace), NoFitReason.MISCONFIGURED)
    elif not world.namespace_check(entry.queue)(workload.namespace):
        entry.set_pending(reasons.NamespaceMismatch(), NoFitReason.MISCONFIGURED)
        entry.requeue_reason = RequeueReason.NAMESPACE_MISMATCH
    elif workload.admissibility_fault:
        entry.set_pending(reasons.RequestsInvalid(text=workload.admissibility_fault), NoFitReason.MISCONFIGURED)
    else:
        _assign(world, entry)


def _assign(world: World, entry: Entry) -> None:
    pending = entry.pending
    if pending.scan is not None and _is_outdated(world, entry, pending.scan):
        pending.scan = None
    entry.scan_before = pending.scan
    _record(world, entry, best_nomination(world, entry))


def assign_again(world: World, entry: Entry) -> None:
    """Within a cycle, when others took the places first: the same flavors, other nodes or other targets."""
    assert entry.assignment is not None
    entry.pending.scan = None
    _record(world, entry, best_nomination(world, entry, entry.assignment.nominated()))


def _record(world: World, entry: Entry, found: "Nomination") -> None:
    pending = entry.pending
    entry.assignment, entry.targets = found
    pending.scan = ScanMemory(
        tried=entry.assignment.tried(),
        generation=entry.queue.node.generation,
        cycle=world.cycle,
        shape=pending.workload.shape,
    )
    entry.set_pending(reasons.FlavorsShort(pod_sets=entry.assignment.shortages()), NoFitReason.NONE)


def _is_outdated(world: World, entry: Entry, scan: ScanMemory) -> bool:
    """Whether the flavor scan must begin anew."""
    if world.policy.preserve_scan_progress:
        if not scan.matches(entry.pending.workload.shape):
            return True
        if world.cycle - scan.cycle <= 1:
            return False
    return entry.queue.node.generation > scan.generation


def best_nomination(world: World, entry: Entry, nominated: Nominated | None = None) -> Nomination:
    """All pods if they fit or preemption makes room; else as many as fit, if the workload allows fewer."""
    workload = entry.pending.workload
    possibilities = search.Possibilities(world, entry.queue, entry.pending)
    entry.replaced = replaced = _replaced_slice(entry)
    assigner = FlavorAssigner(
        policy=world.policy,
        queue=entry.queue,
        flavors=world.flavors,
        workload=workload,
        scan=entry.pending.scan,
        oracle=possibilities,
        places=world.places if world.policy.topology_aware else None,
        nominated=nominated,
        held=held_assignments(world, workload) if entry.attempt else (),
        replaced=() if replaced is None else replaced.admission.pod_sets,
    )
    full = assigner.assign()

    def feasible(result: Assignment) -> Nomination | None:
        return _feasible(world, entry, possibilities, result)

    found = feasible(full)
    if found is None and world.policy.partial_admission and not entry.attempt and can_be_partial(workload):

        def attempt(counts: Sequence[int]) -> Nomination | None:
            return feasible(assigner.assign(counts))

        found = search_counts(workload.pod_sets, attempt)
    found = found or Nomination(full, [])
    _anticipate_places(world, entry, found)
    return found


def _replaced_slice(entry: Entry) -> Reservation | None:
    """The earlier slice of its elastic job, if that holds quota in the same queue."""
    key = entry.pending.workload.replaces
    before = None if key is None else entry.queue.holdings.get(key)
    return before if before is not None and before.workload.namespace == entry.pending.workload.namespace else None


def held_assignments(world: World, workload: values.Workload) -> tuple[PodSetAssignment, ...]:
    """What a workload holds, as if it had just been found: a second pass goes on from there."""
    assert workload.admission is not None
    indices = world.tree.flavor_resources
    return tuple(
        PodSetAssignment(
            name=held.name,
            count=held.count,
            requests=assignment.ranked(held.usage),
            flavors={
                resource: FlavorChoice(flavor=flavor, index=indices.index(flavor, resource), mode=Mode.FIT, borrowing=0)
                for resource, flavor in held.flavors.items()
            },
            topology=held.topology,
            delayed_topology=held.delayed_topology,
        )
        for held in workload.admission.pod_sets
    )


def _demands(world: World, entry: Entry, found: Assignment) -> Demands:
    workload = entry.pending.workload
    if not world.policy.topology_aware or not placing.concerns(entry.queue, workload):
        return {}
    return placing.demands(world.places, entry.queue, workload, found)


def _anticipate_places(world: World, entry: Entry, found: Nomination) -> None:
    """The places that its pods will take once the targets are gone; without targets, as if all were gone."""
    if found.assignment.mode is not Mode.PREEMPT or entry.pending.workload.unhealthy_nodes:
        return
    wanted = _demands(world, entry, found.assignment)
    if not wanted:
        return
    with world.ledger.trial():
        leaving = [target.holding for target in found.targets]
        if entry.replaced is not None:
            leaving.append(entry.replaced)
        search.release(world, leaving)
        placed = world.places.place(wanted, as_if_empty=not leaving)
    if isinstance(placed, dict):
        placing.put(world.places, entry.pending.workload, found.assignment, placed)


def _feasible(world: World, entry: Entry, possibilities: search.Possibilities, found: Assignment) -> Nomination | None:
    if found.mode is Mode.FIT:
        return Nomination(found, [])
    if found.mode is Mode.PREEMPT:
        requests = assignment.total_requests(entry.pending.workload, found)
        targets = possibilities.targets(requests, found.needs_preemption(), _demands(world, entry, found))
        if targets:
            return Nomination(found, targets)
    return None


def can_be_partial(workload: values.Workload) -> bool:
    return any(
        pod_set.min_count is not None and pod_set.min_count < pod_set.spec_count for pod_set in workload.pod_sets
    )


def search_counts(
    pod_sets: Sequence[values.PodSet], attempt: Callable[[Sequence[int]], Result | None]
) -> Result | None:
    """Binary search for the most pods that succeed, reducing all pod sets in step from count to minimum."""
    full = [pod_set.spec_count for pod_set in pod_sets]
    deltas = [0 if pod_set.min_count is None else pod_set.spec_count - pod_set.min_count for pod_set in pod_sets]
    total = sum(deltas)
    if not total:
        return None
    found: dict[int, Result] = {}
    low, high = 0, total + 1
    while low < high:
        middle = (low + high) // 2
        counts = [count - delta * middle // total for count, delta in zip(full, deltas, strict=True)]
        result = attempt(counts)
        if result is None:
            low = middle + 1
        else:
            found[middle] = result
            high = middle
    return found.get(low)
