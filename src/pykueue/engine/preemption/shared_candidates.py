"""The preemption candidates among the borrowers of a cohort, shared by the heads of one cycle.

While heads are nominated nothing changes, so all heads of a cohort look at the same candidates in
the same order. The reservations of the borrowers are merged once, as far as some head reads them.
The cycle opens and closes the collection; `classical_targets` reads it.
"""

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.reservations import Reservation

if TYPE_CHECKING:
    from pykueue.engine.preemption.flat_search import ReclaimSequence

_Ordered = tuple[tuple[bool, int, int, str, str], Reservation]


class BorrowerCandidates:
    """The reservations of some cluster queues that use a needed flavor-resource, in order."""

    def __init__(self, queues: list[ClusterQueueState], needed: frozenset[quota_tree.Index]) -> None:
        self.queues = queues
        self.needed = needed
        self.sequences: dict[tuple[tuple[quota_tree.Index, ...], int | None], ReclaimSequence | None] = {}
        """What searches with the same requested flavor-resources and limit of priority share."""
        self._merged: dict[bool, list[Reservation]] = {True: [], False: []}
        """Evicted ones and others, as far as they were read."""
        self._rest: dict[bool, Iterator[_Ordered]] = {
            evicted: heapq.merge(*[self._stream(queue, evicted=evicted) for queue in queues])
            for evicted in (True, False)
        }

    def _stream(self, queue: ClusterQueueState, *, evicted: bool) -> Iterator[_Ordered]:
        needed = self.needed
        for reservation in queue.reservations.evicted() if evicted else queue.reservations.staying():
            if not needed.isdisjoint(reservation.flavor_resources):
                yield reservation.order, reservation

    def close(self) -> None:
        """Drop the generators, which refer to this object, so that no collection is needed."""
        self._rest.clear()
        for sequence in self.sequences.values():
            if sequence is not None:
                sequence.close()

    def reservations(self, *, evicted: bool) -> Iterator[Reservation]:
        merged, rest = self._merged[evicted], self._rest[evicted]
        position = 0
        while True:
            if position == len(merged):
                following = next(rest, None)
                if following is None:
                    return
                merged.append(following[1])
            yield merged[position]
            position += 1


class SharedCandidates:
    """The candidates of all cohorts in one cycle; only while it is open."""

    def __init__(self) -> None:
        self.is_open = False
        self.by_cohort: dict[tuple[quota_tree.NodeKey, frozenset[quota_tree.Index]], BorrowerCandidates] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> "SharedCandidates":
        """A fork searches on its own."""
        return SharedCandidates()

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        for candidates in self.by_cohort.values():
            candidates.close()
        self.by_cohort = {}
