"""The classical search for targets in a cohort without cohorts, in plain numbers.

While heads are nominated nothing changes, so all heads of a cohort release the same workloads of
its borrowers, in the same order and with the same effect; a head only stops where it fits. The
order and the sums of what was released are therefore kept for all of them (`ReclaimSequence`), and
a head looks up its place instead of releasing the candidates in the ledger one by one.
`classical_targets` uses this where the numbers stay exact, and finds the same targets without it
(`tests/engine/test_flat_search.py`).
"""

import bisect
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pykueue.engine.preemption.shared_candidates import BorrowerCandidates
from pykueue.engine.preemption.target_search import PreemptionSearch
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import EXACT
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.values import ClusterQueueName, PreemptionPolicy


class FilledBack(NamedTuple):
    needed: list[tuple[int, Reservation]]
    """The targets that are needed, each with the number of those dropped before it."""
    dropped_last: int
    dropped: quota_tree.Usage
    """The usage of the dropped ones."""


def _fill_back(reservations: list[Reservation], spare: quota_tree.Usage) -> FilledBack:
    needed: list[tuple[int, Reservation]] = []
    dropped = dict.fromkeys(spare, 0)
    drops = 0
    for reservation in reversed(reservations):
        usage = reservation.usage
        if any(usage.get(index, 0) > amount - dropped[index] for index, amount in spare.items()):
            needed.append((drops, reservation))
            drops = 0
        else:
            drops += 1
            for index in dropped:
                dropped[index] += usage.get(index, 0)
    return FilledBack(needed, drops, dropped)


class ReclaimSequence:
    """What a preemptor releases of others: candidates whose queue borrows at its turn."""

    def __init__(
        self,
        candidates: BorrowerCandidates,
        queues: Mapping[ClusterQueueName, ClusterQueueState],
        indices: Iterable[quota_tree.Index],
        *,
        below_priority: int | None,
    ) -> None:
        self.released: dict[bool, list[Reservation]] = {True: [], False: []}
        """Evicted workloads and others, as far as some preemptor needed them."""
        self._freed: dict[bool, dict[quota_tree.Index, list[int]]] = {
            evicted: {index: [] for index in indices} for evicted in (True, False)
        }
        """The sums of what they used, which start anew for the others."""
        self._filled_back: dict[tuple[bool, int, tuple[int, ...]], FilledBack] = {}
        self._candidates = candidates
        self._queues = queues
        self._below_priority = below_priority
        self._usage: dict[ClusterQueueName, quota_tree.Usage] = {}
        """The usage of the queues without what was released."""
        self._rest = {evicted: self._releases(evicted=evicted) for evicted in (True, False)}

    def close(self) -> None:
        self._rest.clear()

    def freed(self, count: int, index: quota_tree.Index, *, evicted: bool) -> int:
        return self._freed[evicted][index][count - 1] if count else 0

    def reach(self, missing: quota_tree.Usage, *, evicted: bool) -> tuple[int, bool]:
        """How many to release until as much is free, and whether that suffices."""
        if not evicted:
            self.reach_all(evicted=True)
        count = 1
        for index, amount in missing.items():
            sums = self._freed[evicted][index]
            while (not sums or sums[-1] < amount) and next(self._rest[evicted], None) is not None:
                pass
            position = bisect.bisect_left(sums, amount)
            if position == len(sums):
                return self.reach_all(evicted=evicted), False
            count = max(count, position + 1)
        return count, True

    def reach_all(self, *, evicted: bool) -> int:
        """How many can be released."""
        if not evicted:
            self.reach_all(evicted=True)  # they are released first
        for _ in self._rest[evicted]:
            pass
        return len(self.released[evicted])

    def fill_back(self, count: int, spare: quota_tree.Usage, *, evicted: bool) -> FilledBack:
        """Drop those of the first so many, from the last one on, which use no more than what is
        spare.
        """
        key = (evicted, count, tuple(spare.values()))
        filled_back = self._filled_back.get(key)
        if filled_back is None:
            filled_back = self._filled_back[key] = _fill_back(self.released[evicted][:count], spare)
        return filled_back

    def _releases(self, *, evicted: bool) -> Iterator[Reservation]:
        below, sums = self._below_priority, self._freed[evicted]
        for reservation in self._candidates.reservations(evicted=evicted):
            if below is not None and reservation.workload.priority >= below:
                return  # they are ordered by priority
            node = self._queues[reservation.cluster_queue].node
            usage = self._usage.get(reservation.cluster_queue)
            if usage is None:
                usage = self._usage[reservation.cluster_queue] = dict(node.usage)
            if all(usage.get(index, 0) <= node.subtree.get(index, 0) for index in self._candidates.needed):
                continue
            for index, freed in sums.items():
                amount = reservation.usage.get(index, 0)
                usage[index] = usage.get(index, 0) - amount
                freed.append(amount + (freed[-1] if freed else 0))
            self.released[evicted].append(reservation)
            yield reservation


def sequence(search: PreemptionSearch, candidates: BorrowerCandidates) -> ReclaimSequence | None:
    """The sequence that this search shares with others; None if it must look at each candidate."""
    policy = search.queue.value.preemption.reclaim_within_cohort
    if policy is PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY or search.state.loop_guard is not None:
        return None
    below = None if policy is PreemptionPolicy.ANY else search.workload.priority
    key = (tuple(search.requests), below)
    if key not in candidates.sequences:
        candidates.sequences[key] = _sequence(search, candidates, below)
    return candidates.sequences[key]


def _sequence(search: PreemptionSearch, candidates: BorrowerCandidates, below: int | None) -> ReclaimSequence | None:
    if any(not queue.node.local.keys().isdisjoint(search.requests) for queue in candidates.queues):
        return None
    return ReclaimSequence(candidates, search.state.cluster_queues, search.requests, below_priority=below)


def is_exact(search: PreemptionSearch) -> bool:
    """Whether sums and differences of the amounts of this search cannot saturate."""
    node, cohort = search.queue.node, search.queue.node.parent
    if cohort is None or cohort.parent is not None or search.placement_requests:
        return False
    return all(
        amount > 0
        and max(amount, cohort.subtree.get(index, 0), cohort.usage.get(index, 0)) < EXACT
        and max(node.subtree.get(index, 0), node.borrowing_limit.get(index, 0)) < EXACT
        for index, amount in search.requests.items()
    )


class OtherQueues(NamedTuple):
    """The first so many of the evicted workloads of other queues, or of the others."""

    evicted: bool
    length: int


class FlatAttempt:
    """One attempt: releases candidates until the preemptor fits, and drops those without which it
    still does.
    """

    def __init__(self, search: PreemptionSearch, others: ReclaimSequence | None, *, borrowing: bool) -> None:
        self._requests = search.requests
        self._others = others
        self._borrowing = borrowing
        node, cohort = search.queue.node, search.queue.node.parent
        assert cohort is not None
        self._node = node
        self._used = {index: node.usage.get(index, 0) for index in search.requests}
        self._unused = {index: cohort.subtree.get(index, 0) - cohort.usage.get(index, 0) for index in search.requests}
        """Of the cohort, with what was released of the own queue."""
        self._freed = dict.fromkeys(search.requests, 0)
        """What was released of other queues."""
        self._released: list[OtherQueues | list[Reservation]] = []
        """Workloads of other queues and of the own queue, in order."""

    def targets(self, own: Mapping[bool, Iterable[Reservation]]) -> Iterable[Reservation]:
        """The targets in the order of the classical search; none if the preemptor does not fit."""
        for evicted in (True, False):
            if self._release_others(evicted=evicted) or self._release_own(own[evicted]):
                return self._fill_back()
        return ()

    def _release_others(self, *, evicted: bool) -> bool:
        """Release workloads of other queues; returns whether the preemptor fits then."""
        if self._others is None:
            return False
        if self._may_fit():
            missing = {index: amount - self._freed[index] for index, amount in self._missing().items()}
            count, suffices = self._others.reach(missing, evicted=evicted)
        else:
            count, suffices = self._others.reach_all(evicted=evicted), False
        if count:
            self._released.append(OtherQueues(evicted, count))
        for index in self._freed:
            self._freed[index] += self._others.freed(count, index, evicted=evicted)
        return suffices

    def _release_own(self, reservations: Iterable[Reservation]) -> bool:
        released: list[Reservation] = []
        self._released.append(released)
        for reservation in reservations:
            self._change_own(reservation, -1)
            released.append(reservation)
            if self._fits():
                return True
        return False

    def _fill_back(self) -> Iterable[Reservation]:
        """As `target_search.fill_back`: backwards, and the last target takes the place of a
        dropped one.
        """
        targets: deque[Reservation] = deque()
        for released in reversed(self._released):
            if isinstance(released, list):
                self._fill_back_own(released, targets)
            else:
                self._fill_back_others(released, targets)
        return targets

    def _fill_back_own(self, reservations: list[Reservation], targets: deque[Reservation]) -> None:
        for reservation in reversed(reservations):
            self._change_own(reservation, 1)
            if targets and self._fits():
                targets.rotate(1)
            else:
                self._change_own(reservation, -1)
                targets.appendleft(reservation)

    def _fill_back_others(self, released: OtherQueues, targets: deque[Reservation]) -> None:
        assert self._others is not None
        evicted, count = released
        if not targets:
            count -= 1
            targets.append(self._others.released[evicted][count])
        spare = {index: self._freed[index] - amount for index, amount in self._missing().items()}
        filled_back = self._others.fill_back(count, spare, evicted=evicted)
        for dropped, reservation in filled_back.needed:
            targets.rotate(dropped)
            targets.appendleft(reservation)
        targets.rotate(filled_back.dropped_last)
        for index, amount in filled_back.dropped.items():
            self._freed[index] -= amount

    def _change_own(self, reservation: Reservation, sign: int) -> None:
        """Change the usage of the own queue; what exceeds its local quota is the cohort's."""
        for index, before in self._used.items():
            after = self._used[index] = before + sign * reservation.usage.get(index, 0)
            local = self._node.local.get(index, 0)
            self._unused[index] -= max(0, after - local) - max(0, before - local)

    def _fits(self) -> bool:
        if not self._may_fit():
            return False
        freed = self._freed
        return all(freed[index] >= amount for index, amount in self._missing().items())

    def _missing(self) -> quota_tree.Usage:
        """What other queues must free."""
        local = self._node.local
        return {
            index: amount - self._unused[index] - max(0, local.get(index, 0) - self._used[index])
            for index, amount in self._requests.items()
        }

    def _may_fit(self) -> bool:
        """Whether the limits of the own queue allow the preemptor."""
        node = self._node
        for index, amount in self._requests.items():
            used, own = self._used[index], node.subtree.get(index, 0)
            if not self._borrowing and used + amount > own:
                return False
            limit = node.borrowing_limit.get(index)
            local = node.local.get(index, 0)
            if limit is not None and amount > own - local - max(0, used - local) + limit + max(0, local - used):
                return False
        return True
