"""One scheduling cycle, as a list of its steps. `Engine` runs it on `CycleDue`.

A cycle looks only at dirty trees: trees in which something changed since their heads were last
tried. All other trees would decide the same again.
"""

from collections.abc import Callable, Generator, Iterator

from pykueue.engine import decisions
from pykueue.engine.cycle import nominate, order, process, report
from pykueue.engine.cycle.entries import CycleEntry, EntryStatus
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.pending_queue import PendingWorkload
from pykueue.engine.queues.scan_progress import TriedFlavors
from pykueue.engine.state import EngineState

CycleSteps = Generator[None, None, list[decisions.Decision]]

_DECIDED = (EntryStatus.ADMITTED, EntryStatus.EVICTED, EntryStatus.DROPPED)


def run(state: EngineState) -> list[decisions.Decision]:
    """A cycle after `EngineState.begin_cycle`."""
    try:
        next(in_steps(state, None))
    except StopIteration as stop:
        result: list[decisions.Decision] = stop.value
        return result
    raise AssertionError("the cycle paused")


def in_steps(state: EngineState, should_pause: Callable[[], bool] | None) -> CycleSteps:
    """A cycle that asks after every entry whether to pause, so that its driver can do other work.

    Whenever it pauses, `EngineView` shows a consistent state: heads leave their queues only when
    the cycle has decided about them, and the trial is suspended. No event may be handled before
    the cycle ends.
    """
    second_passes = take_second_passes(state)
    heads = [*second_passes, *take_heads(state)]
    if heads or state.idle_trees:
        state.cycle += 1
    state.shared_candidates.open()
    for entry in heads:
        nominate.nominate(state, entry)
        if should_pause is not None and should_pause():
            yield
    state.shared_candidates.close()
    nominated = [entry for entry in heads if entry.assignment is not None]
    result: list[decisions.Decision] = []
    left = process.refuse_hopeless(nominated)
    if not left:
        state.skipped_preemptions = {}
    else:
        yield from admit_or_preempt(state, nominated, left, should_pause)
        for entry in sorted(filter(is_decided, nominated), key=lambda entry: entry.position):
            result += assume(state, entry)
            if should_pause is not None and should_pause():
                yield
    for entry in heads:
        if entry.status not in _DECIDED:
            requeue = report.retry_second_pass if entry.attempt else report.requeue
            result.append(requeue(state, entry))
        elif entry.status is EntryStatus.DROPPED:
            entry.queue.pending.take(entry.pending)
        if should_pause is not None and should_pause():
            yield
    if not second_passes:  # They reserve topology usage for one cycle only.
        mark_idle(state, heads)
    return result


def take_second_passes(state: EngineState) -> list[CycleEntry]:
    """Workloads with quota whose second pass is due."""
    entries = []
    for key, attempt in state.second_passes.pop_due(state.now_ns):
        reservation = state.reservations.get(key)
        if reservation is None or reservation.evicted or key in state.assumed:
            state.second_passes.schedule(key, attempt, state.now_ns)
            continue
        pending = PendingWorkload(state.workloads[key], state.policy)
        queue = state.cluster_queues[reservation.cluster_queue]
        entries.append(CycleEntry(pending, queue, attempt=attempt))
    return entries


def take_heads(state: EngineState) -> list[CycleEntry]:
    """One workload from every active cluster queue of a dirty tree."""
    heads = []
    for key in sorted(state.dirty_trees):
        for queue in state.tree_queues(key):
            workloads = queue.pending
            if not workloads.active_count or queue.inactivity:
                continue
            pending = workloads.head(state.usage_of if workloads.by_local_queue else None)
            assert pending is not None
            if queue.idle_since_cycle is not None:
                _skip_idle_cycles(state, queue, pending)
            entry = CycleEntry(pending, queue)
            if workloads.preemptor is not None:
                entry.is_preemptor = workloads.preemptor == (pending.key, pending.workload.generation)
            heads.append(entry)
    return heads


def _skip_idle_cycles(state: EngineState, queue: ClusterQueueState, pending: PendingWorkload) -> None:
    """Count idle cycles as attempts of the head, so that its flavor scan is not outdated."""
    scan = pending.scan
    if scan is not None and scan.cycle == queue.idle_since_cycle:
        pending.scan = scan._replace(cycle=state.cycle)
    queue.idle_since_cycle = None


def admit_or_preempt(
    state: EngineState, nominated: list[CycleEntry], left: int, should_pause: Callable[[], bool] | None
) -> Iterator[None]:
    """Decide inside a trial of the ledger; `assume` charges the decided usage afterwards.

    Only entries that may get quota see the order, and what the others reserve; `left` says how
    many there are.
    """
    processing = process.Processing(state)
    with state.ledger.trial() as trial:
        for position, entry in enumerate(order.ordered(state, nominated)):
            entry.position = position
            if not entry.is_hopeless:
                left -= 1
                processing.process(entry, is_seen=left > 0)
            elif left:
                processing.reserve(entry)
            else:
                continue
            if should_pause is not None and should_pause():
                current = trial.suspend()
                try:
                    yield
                finally:
                    trial.resume(current)
    state.skipped_preemptions = processing.skipped_preemptions


def is_decided(entry: CycleEntry) -> bool:
    return entry.status in _DECIDED or entry.preempts or entry.migrated is not None


def assume(state: EngineState, entry: CycleEntry) -> list[decisions.Decision]:
    """Charge what was decided about an entry, and turn it into a decision."""
    if entry.status is EntryStatus.ADMITTED:
        if entry.attempt:
            return [report.assign_topology(state, entry)]
        entry.queue.pending.take(entry.pending)
        return [report.admit(state, entry)]
    if entry.status is EntryStatus.EVICTED:
        return [report.evict(state, entry)]
    if entry.migrated is not None:
        return report.migrate(state, entry, entry.migrated)
    return [report.preempt(state, entry)] if entry.preempts else []


def mark_idle(state: EngineState, heads: list[CycleEntry]) -> None:
    """Mark trees idle in which every head is back in its heap unchanged: the next cycle would
    decide the same.
    """
    changed = {entry.queue.node.root.key for entry in heads if not entry.back_in_heap or not _is_unchanged(entry)}
    idle = [key for key in state.dirty_trees if key not in changed]
    if not idle:
        return
    for key in idle:
        del state.dirty_trees[key]
    for entry in heads:
        key = entry.queue.node.root.key
        if key not in changed:
            state.idle_trees[key] = None
            entry.queue.idle_since_cycle = state.cycle


def _is_unchanged(entry: CycleEntry) -> bool:
    if entry.preempts or entry.migrated is not None:
        return False
    before = () if entry.scan_before is None else entry.scan_before.tried
    after = () if entry.pending.scan is None else entry.pending.scan.tried
    return _starts_equally(before, after)


def _starts_equally(before: TriedFlavors, after: TriedFlavors) -> bool:
    """Whether two flavor scans start alike; -1 and absent both mean the first flavor."""
    return before == after or not any(index != -1 for tried in (*before, *after) for index in tried.values())
