"""Step 2 of the cycle: assign flavors to each head as if it were alone, and find its targets."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from pykueue.engine import reasons, values
from pykueue.engine.cycle.entries import CycleEntry, EntryStatus
from pykueue.engine.cycle.last_nomination import LastNomination, Nominations, is_repeatable
from pykueue.engine.flavors import assignment
from pykueue.engine.flavors.assigner import FlavorAssigner, Nominated, QuotaCheck
from pykueue.engine.flavors.assignment import Assignment, FlavorChoice, PodSetAssignment
from pykueue.engine.preemption import target_search
from pykueue.engine.preemption.target_search import PreemptionTarget
from pykueue.engine.queues import scan_progress
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.scan_progress import ScanProgress, TriedFlavors
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Mode, NoFitReason, RequeueReason
from pykueue.engine.state import EngineState
from pykueue.engine.topology import workload_placement
from pykueue.engine.topology.workload_placement import PlacementRequests

Result = TypeVar("Result")

_FAILED = {values.CheckState.RETRY, values.CheckState.REJECTED}


class Nomination(NamedTuple):
    assignment: Assignment
    targets: list[PreemptionTarget]


def nominate(state: EngineState, entry: CycleEntry) -> None:
    """Set the best nomination; one that ends like an earlier one is not computed again."""
    pending, queue = entry.pending, entry.queue
    if pending.key in state.reservations and not entry.attempt:
        entry.status = EntryStatus.DROPPED
        return
    if pending.valid_settings != state.settings_version:
        if not _is_valid(state, entry):
            return
        pending.valid_settings = state.settings_version
    scan = pending.scan
    tried: TriedFlavors = ()
    if scan is not None and scan.flavors_remain:
        if _is_outdated(state, entry, scan):
            scan = pending.scan = None
        else:
            tried = scan.tried
    entry.scan_before = scan
    nominations = pending.nominations
    if nominations is None:
        nominations = pending.nominations = _shared_nominations(queue, pending.workload)
    for last in nominations.last:
        repeated = last.repeated(state, queue, tried)
        if repeated is not None:
            if last is not nominations.last[0]:
                nominations.move_to_front(last)
            entry.assignment, entry.pending_reason = repeated
            pending.scan = last.scan or _scan(state, entry, repeated[0])
            if last.refusal is not None and not entry.attempt and not pending.workload.parent_uid:
                entry.is_hopeless = True
                entry.requeue_reason, entry.no_fit_reason = last.refusal
            return
    _record(state, entry, _new_nomination(state, entry, nominations, tried))


def _is_valid(state: EngineState, entry: CycleEntry) -> bool:
    """Whether the workload may be nominated at all; the answer holds until settings change."""
    workload = entry.pending.workload
    if workload.check_states and _FAILED.intersection(workload.check_states.values()):
        entry.set_pending(reasons.ChecksFailed(), NoFitReason.PENDING_EVALUATION)
    elif not entry.queue.node.participates:
        entry.set_pending(reasons.ClusterQueueInactive(name=entry.queue.name), NoFitReason.SUSPENDED)
    elif not state.namespace_check(entry.queue)(workload.namespace):
        _refuse_namespace(state, entry, workload.namespace)
    elif workload.invalid_requests is not None:
        entry.set_pending(reasons.RequestsInvalid(invalid=workload.invalid_requests), NoFitReason.MISCONFIGURED)
    else:
        return True
    return False


def _refuse_namespace(state: EngineState, entry: CycleEntry, namespace: str) -> None:
    if namespace not in state.namespaces:
        entry.set_pending(reasons.NamespaceMissing(name=namespace), NoFitReason.MISCONFIGURED)
    else:
        entry.set_pending(reasons.NamespaceMismatch(), NoFitReason.MISCONFIGURED)
        entry.requeue_reason = RequeueReason.NAMESPACE_MISMATCH


def _new_nomination(
    state: EngineState, entry: CycleEntry, nominations: Nominations, tried: TriedFlavors
) -> "Nomination":
    pending, queue = entry.pending, entry.queue
    nomination, checks = _best_nomination(state, entry, None)
    if not nomination.targets and not entry.attempt:
        workload, result = pending.workload, nomination.assignment
        if is_repeatable(state, queue, workload, assignment=result, checks=checks):
            last = LastNomination(state, queue, workload, assignment=result, checks=checks, tried=tried)
            scan = _scan(state, entry, result)
            last.scan = None if scan.flavors_remain else scan
            nominations.add(last)
    return nomination


def _shared_nominations(queue: ClusterQueueState, workload: values.Workload) -> Nominations:
    """The nominations of the workloads with the same scheduling hash, if these are equal."""
    scheduling_hash = workload.scheduling_hash
    nominations = queue.nominations.get(scheduling_hash)
    if nominations is None or not nominations.serve(workload):
        nominations = Nominations(workload)
        if scheduling_hash:
            queue.nominations.put(scheduling_hash, nominations)
    return nominations


def assign_again(state: EngineState, entry: CycleEntry) -> None:
    """Assign again in the same cycle: the same flavors, but other domains or targets."""
    assert entry.assignment is not None
    entry.pending.scan = None
    _record(state, entry, best_nomination(state, entry, entry.assignment.nominated()))


def _record(state: EngineState, entry: CycleEntry, nomination: "Nomination") -> None:
    result, entry.targets = nomination
    entry.assignment = result
    entry.pending.scan = _scan(state, entry, result)
    entry.pending_reason, entry.no_fit_reason = result.flavors_short(), NoFitReason.NONE


def _scan(state: EngineState, entry: CycleEntry, result: Assignment) -> ScanProgress:
    tried = result.tried()
    return ScanProgress(
        tried,
        entry.queue.node.generation,
        state.cycle,
        entry.pending.workload.scheduling_hash,
        scan_progress.flavors_remain(tried),
    )


def _is_outdated(state: EngineState, entry: CycleEntry, scan: ScanProgress) -> bool:
    """Whether the flavor scan must start again with the first flavor."""
    if state.policy.preserve_scan_progress:
        if not scan.matches(entry.pending.workload.scheduling_hash):
            return True
        if state.cycle - scan.cycle <= 1:
            return False
    return entry.queue.node.generation > scan.generation


def best_nomination(state: EngineState, entry: CycleEntry, nominated: Nominated | None = None) -> Nomination:
    """Nominate all pods. If they do not fit and preemption does not help, try fewer pods."""
    return _best_nomination(state, entry, nominated)[0]


def _best_nomination(
    state: EngineState, entry: CycleEntry, nominated: Nominated | None
) -> tuple[Nomination, list[QuotaCheck]]:
    """The best nomination, and what the flavor assigner compared with the quota."""
    workload = entry.pending.workload
    oracle = target_search.PreemptionOracle(state, entry.queue, entry.pending)
    entry.replaced = replaced = _replaced_slice(entry)
    assigner = FlavorAssigner(
        policy=state.policy,
        queue=entry.queue,
        flavors=state.flavors,
        workload=workload,
        scan=entry.pending.scan,
        oracle=oracle,
        topology_cache=state.topology_cache if state.policy.topology_aware else None,
        nominated=nominated,
        current=current_assignments(state, workload) if entry.attempt else (),
        replaced=() if replaced is None else replaced.admission.pod_sets,
    )
    full = assigner.assign()

    def feasible(result: Assignment) -> Nomination | None:
        return _feasible(state, entry, oracle, result)

    nomination = feasible(full)
    if nomination is None and state.policy.partial_admission and not entry.attempt and can_be_partial(workload):

        def attempt(counts: Sequence[int]) -> Nomination | None:
            return feasible(assigner.assign(counts))

        nomination = search_counts(workload.pod_sets, attempt)
    nomination = nomination or Nomination(full, [])
    _assume_topology(state, entry, nomination)
    return nomination, assigner.checks


def _replaced_slice(entry: CycleEntry) -> Reservation | None:
    """The earlier slice of its elastic job, if that has quota in the same cluster queue."""
    key = entry.pending.workload.replaces
    before = None if key is None else entry.queue.reservations.get(key)
    return before if before is not None and before.workload.namespace == entry.pending.workload.namespace else None


def current_assignments(state: EngineState, workload: values.Workload) -> tuple[PodSetAssignment, ...]:
    """The admission of a workload as an assignment, with which a second pass starts."""
    assert workload.admission is not None
    indices = state.tree.flavor_resources
    return tuple(
        PodSetAssignment(
            name=pod_set.name,
            count=pod_set.count,
            requests=assignment.ranked(pod_set.usage),
            flavors={
                resource: FlavorChoice(flavor=flavor, index=indices.index(flavor, resource), mode=Mode.FIT, borrowing=0)
                for resource, flavor in pod_set.flavors.items()
            },
            topology=pod_set.topology,
            delayed_topology=pod_set.delayed_topology,
        )
        for pod_set in workload.admission.pod_sets
    )


def _placement_requests(state: EngineState, entry: CycleEntry, result: Assignment) -> PlacementRequests:
    workload = entry.pending.workload
    if not state.policy.topology_aware or not workload_placement.needs_placement(entry.queue, workload):
        return {}
    return workload_placement.placement_requests(state.topology_cache, entry.queue, workload, result)


def _assume_topology(state: EngineState, entry: CycleEntry, nomination: Nomination) -> None:
    """Set the topology for when the targets are gone; without targets, for empty nodes.

    The pods of a replaced slice stay where they are.
    """
    if nomination.assignment.mode is not Mode.PREEMPT or entry.pending.workload.unhealthy_nodes:
        return
    requests = _placement_requests(state, entry, nomination.assignment)
    if not requests:
        return
    with state.ledger.trial():
        target_search.release(state, [target.reservation for target in nomination.targets])
        is_empty = not nomination.targets and entry.replaced is None
        placed = state.topology_cache.place(requests, as_if_empty=is_empty)
    if isinstance(placed, dict):
        workload_placement.set_placements(state.topology_cache, entry.pending.workload, nomination.assignment, placed)


def _feasible(
    state: EngineState, entry: CycleEntry, oracle: target_search.PreemptionOracle, result: Assignment
) -> Nomination | None:
    if result.mode is Mode.FIT:
        return Nomination(result, [])
    if result.mode is Mode.PREEMPT:
        requests = assignment.total_requests(entry.pending.workload, result)
        targets = oracle.targets(requests, result.needs_preemption(), _placement_requests(state, entry, result))
        if targets:
            return Nomination(result, targets)
    return None


def can_be_partial(workload: values.Workload) -> bool:
    return any(
        pod_set.min_count is not None and pod_set.min_count < pod_set.spec_count for pod_set in workload.pod_sets
    )


def search_counts(
    pod_sets: Sequence[values.PodSet], attempt: Callable[[Sequence[int]], Result | None]
) -> Result | None:
    """Binary search for the largest counts that succeed; all pod sets shrink in step."""
    full = [pod_set.spec_count for pod_set in pod_sets]
    deltas = [0 if pod_set.min_count is None else pod_set.spec_count - pod_set.min_count for pod_set in pod_sets]
    total = sum(deltas)
    if not total:
        return None
    results: dict[int, Result] = {}
    low, high = 0, total + 1
    while low < high:
        middle = (low + high) // 2
        counts = [count - delta * middle // total for count, delta in zip(full, deltas, strict=True)]
        result = attempt(counts)
        if result is None:
            low = middle + 1
        else:
            results[middle] = result
            high = middle
    return results.get(low)
