"""A bucket: the pending workloads of one cluster queue with one scheduling hash, in queue order.

`pending_queue` moves whole buckets between its heap and the inadmissible workloads.
"""

import copy
import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykueue.engine.queues.pending_queue import PendingWorkload

Order = tuple[int, int, int, str, str]


class Bucket:
    """Members that left stay in the heap until they are popped."""

    __slots__ = ("accepted_by", "group", "has_backoff", "heap", "inadmissible", "namespaces", "size")

    def __init__(self, group: str) -> None:
        self.group = group
        """The scheduling hash, with the local queue under admission fair sharing."""
        self.heap: list[tuple[Order, int, PendingWorkload]] = []
        self.namespaces: set[str] = set()
        self.accepted_by: Callable[[str], bool] | None = None
        """The check that has accepted all namespaces."""
        self.size = 0
        self.inadmissible = False
        self.has_backoff = False
        """Some member waits for a time or a condition: members move one by one."""

    def __deepcopy__(self, memo: dict[int, object]) -> "Bucket":
        clone = memo[id(self)] = Bucket(self.group)
        clone.namespaces = set(self.namespaces)
        clone.size = self.size
        clone.inadmissible = self.inadmissible
        clone.has_backoff = self.has_backoff
        clone.heap = [
            (order, sequence, copy.deepcopy(pending, memo))
            for order, sequence, pending in self.heap
            if pending.bucket is self
        ]
        heapq.heapify(clone.heap)
        return clone

    def head(self) -> "PendingWorkload | None":
        while self.heap and self.heap[0][2].bucket is not self:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None

    def members(self) -> "Iterator[PendingWorkload]":
        return (pending for _, _, pending in self.heap if pending.bucket is self)
