"""One scheduling cycle, as a list of its steps.

Only trees in which something changed since their heads were last looked at take part: the others would decide the
same again. `Engine` runs it on `CycleDue`.
"""

import dataclasses

from pykueue.engine import decisions
from pykueue.engine.cycle import nominate, order, process, report
from pykueue.engine.cycle.entries import Entry, Fate
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.pending_queue import Pending
from pykueue.engine.values import ResourceName
from pykueue.engine.world import RootKey, World

_SETTLED = (Fate.ADMITTED, Fate.EVICTED, Fate.DROPPED)

Tried = tuple[dict[ResourceName, int], ...]


def run(world: World) -> list[decisions.Decision]:
    world.settle()
    heads = [*take_second_passes(world), *take_heads(world)]
    if heads or world.sleeping:
        world.cycle += 1
    nominated = nominate_heads(world, heads)
    admit_or_preempt(world, nominated)
    decided = book(world, nominated)
    decided += send_back(world, heads)
    rest(world, heads)
    return decided


def take_second_passes(world: World) -> list[Entry]:
    """Workloads that hold quota and whose turn to find places has come."""
    found = []
    for key, attempt in world.second_passes.take_due(world.now_ns):
        holding = world.holdings.get(key)
        if holding is None or holding.evicted or key in world.assumed:
            world.second_passes.put_off(key, attempt, world.now_ns)
            continue
        pending = Pending(world.workloads[key], world.policy)
        queue = world.cluster_queues[holding.cluster_queue]
        found.append(Entry(pending=pending, queue=queue, is_preemptor=False, attempt=attempt))
    return found


def take_heads(world: World) -> list[Entry]:
    """One workload from every cluster queue that may admit."""
    heads = []
    for key in sorted(world.stirred):
        for queue in world.tree_queues(key):
            if not queue.is_active or not queue.pending.active_count:
                continue
            usage_of = world.usage_of if queue.pending.by_local_queue else None
            pending = queue.pending.pop(usage_of)
            assert pending is not None
            _wake(world, queue, pending)
            is_preemptor = queue.pending.is_preemptor(pending)
            heads.append(Entry(pending=pending, queue=queue, is_preemptor=is_preemptor))
    return heads


def _wake(world: World, queue: ClusterQueueState, pending: Pending) -> None:
    """A head that slept counts as looked at in every cycle until the last one."""
    scan = pending.scan
    if queue.slept_at is not None and scan is not None and scan.cycle == queue.slept_at:
        pending.scan = dataclasses.replace(scan, cycle=world.cycle)
    queue.slept_at = None


def nominate_heads(world: World, heads: list[Entry]) -> list[Entry]:
    for entry in heads:
        nominate.nominate(world, entry)
    return [entry for entry in heads if entry.assignment is not None]


def admit_or_preempt(world: World, nominated: list[Entry]) -> None:
    """Decide on a trial: what entries take from each other is booked or forgotten afterwards."""
    processing = process.Processing(world)
    with world.ledger.trial():
        for position, entry in enumerate(order.ordered(world, nominated)):
            entry.position = position
            processing.process(entry)
    world.skipped_preemptions = processing.skipped_preemptions


def book(world: World, nominated: list[Entry]) -> list[decisions.Decision]:
    decided: list[decisions.Decision] = []
    for entry in sorted(nominated, key=lambda entry: entry.position):
        if entry.fate is Fate.ADMITTED:
            decided.append(report.place(world, entry) if entry.attempt else report.admit(world, entry))
        elif entry.fate is Fate.EVICTED:
            decided.append(report.evict(world, entry))
        elif entry.preempts:
            decided.append(report.preempt(world, entry))
    return decided


def send_back(world: World, heads: list[Entry]) -> list[decisions.Decision]:
    return [
        report.place_later(world, entry) if entry.attempt else report.requeue(world, entry)
        for entry in heads
        if entry.fate not in _SETTLED
    ]


def rest(world: World, heads: list[Entry]) -> None:
    """Let trees sleep in which every head is back where it was: nothing will come of them until something changes.

    A second pass keeps places from others for one cycle only: nobody rests after it.
    """
    if any(entry.attempt for entry in heads):
        return
    by_tree: dict[RootKey, list[Entry]] = {key: [] for key in world.stirred}
    for entry in heads:
        by_tree.setdefault(world.root_key(entry.queue.node), []).append(entry)
    for key, entries in by_tree.items():
        if all(_is_where_it_was(entry) for entry in entries):
            del world.stirred[key]
            if entries:
                world.sleeping[key] = None
            for entry in entries:
                entry.queue.slept_at = world.cycle


def _is_where_it_was(entry: Entry) -> bool:
    before = () if entry.scan_before is None else entry.scan_before.tried
    after = () if entry.pending.scan is None else entry.pending.scan.tried
    return entry.back_in_heap and not entry.preempts and _begins_alike(before, after)


def _begins_alike(before: Tried, after: Tried) -> bool:
    """Two scans are alike if both would begin with the first flavor of everything, or both at the same."""
    return before == after or not any(index != -1 for tried in (*before, *after) for index in tried.values())
