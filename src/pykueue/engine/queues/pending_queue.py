"""The pending workloads of one cluster queue: those in the heap, and those parked until something changes.

Workloads of one shape (scheduling equivalence) fare alike, so they live together in a bucket: parking a shape and
bringing it back moves one bucket, not its workloads. The cycle pops heads and requeues them; the engine pushes,
updates and reactivates.
"""

import copy
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pykueue.engine import values
from pykueue.engine.policy import Policy, RequeuingTimestamp
from pykueue.engine.reasons import PreemptionReason, RequeueReason
from pykueue.engine.values import QueueingStrategy

Order = tuple[int, int, str, str]

_MILLISECOND_NS = 1_000_000
_IMMEDIATE = {
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PREEMPTION_FAILED,
}
_FAILS_ALIKE = {RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanMemory(values.Value):
    """Where the flavor scan of a workload stopped, to go on from there."""

    tried: tuple[dict[values.ResourceName, int], ...]
    """Per pod set: resource to the index of the last flavor looked at; -1 when that was the last one."""
    generation: int
    cycle: int
    shape: str

    @property
    def flavors_remain(self) -> bool:
        return any(index != -1 for tried in self.tried for index in tried.values())

    def matches(self, shape: str) -> bool:
        return not self.shape or not shape or self.shape == shape


def queue_order_timestamp(workload: values.Workload, policy: Policy) -> int:
    """Creation, or the eviction that sent it to the back."""
    eviction = workload.eviction
    if eviction is not None and (
        eviction.reason == "AdmissionCheck"
        or (eviction.reason == "PodsReadyTimeout" and policy.requeuing_timestamp is RequeuingTimestamp.EVICTION)
    ):
        return eviction.at_ns
    preemption = workload.preemption
    if (
        not policy.priority_sorting_within_cohort
        and preemption is not None
        and preemption.reason == PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING
    ):
        return preemption.at_ns + _MILLISECOND_NS
    return workload.created_at_ns


class Pending:
    """A workload in a queue."""

    __slots__ = ("bucket", "evaluated_generation", "order", "scan", "timestamp_ns", "workload")

    def __init__(self, workload: values.Workload, policy: Policy) -> None:
        self.workload = workload
        self.timestamp_ns = queue_order_timestamp(workload, policy)
        self.order: Order = (-workload.priority, self.timestamp_ns, workload.uid, workload.key)
        self.scan: ScanMemory | None = None
        self.evaluated_generation = 0
        self.bucket: _Bucket | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "Pending":
        """Forks copy these by the thousand."""
        clone = memo[id(self)] = Pending.__new__(Pending)
        clone.workload = self.workload
        clone.timestamp_ns = self.timestamp_ns
        clone.order = self.order
        clone.scan = self.scan
        clone.evaluated_generation = self.evaluated_generation
        clone.bucket = copy.deepcopy(self.bucket, memo)
        return clone

    @property
    def key(self) -> values.WorkloadKey:
        return self.workload.key

    @property
    def may_back_off(self) -> bool:
        return self.workload.requeued is False or self.workload.requeue_at_ns is not None

    def backoff_expired(self, now_ns: int) -> bool:
        if self.workload.requeued is False:
            return False
        return self.workload.requeue_at_ns is None or now_ns >= self.workload.requeue_at_ns


class _Bucket:
    """Workloads of one shape in queue order; those that left are dropped when met."""

    __slots__ = ("has_backoff", "heap", "namespaces", "parked", "shape", "size")

    def __init__(self, shape: str) -> None:
        self.shape = shape
        self.heap: list[tuple[Order, int, Pending]] = []
        self.namespaces: set[str] = set()
        self.size = 0
        self.parked = False
        self.has_backoff = False
        """Some member waits for a time or a condition: they cannot be moved all together."""

    def __deepcopy__(self, memo: dict[int, object]) -> "_Bucket":
        clone = memo[id(self)] = _Bucket(self.shape)
        clone.namespaces = set(self.namespaces)
        clone.size = self.size
        clone.parked = self.parked
        clone.has_backoff = self.has_backoff
        clone.heap = [
            (order, sequence, copy.deepcopy(pending, memo))
            for order, sequence, pending in self.heap
            if pending.bucket is self
        ]
        heapq.heapify(clone.heap)
        return clone

    def head(self) -> Pending | None:
        while self.heap and self.heap[0][2].bucket is not self:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None

    def members(self) -> Iterator[Pending]:
        return (pending for _, _, pending in self.heap if pending.bucket is self)


class PendingQueue:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.strategy = QueueingStrategy.BEST_EFFORT_FIFO
        self.by_local_queue = False
        """Admission fair sharing: buckets also split by local queue, for its usage comes before all else."""
        self._all: dict[values.WorkloadKey, Pending] = {}
        self._active: dict[str, _Bucket] = {}
        self._parked: dict[str, _Bucket] = {}
        self._alone: dict[values.WorkloadKey, Pending] = {}
        """Parked one by one: backoff, wrong namespace, gates."""
        self._heads: list[tuple[Order, int, _Bucket]] = []
        self._sequence = 0
        self._failed_shapes: set[str] = set()
        self._preemptor: tuple[values.WorkloadKey, int] | None = None
        self.active_count = 0
        self.version = 0
        """Grows with every move, so that whoever counts need not count again."""

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key: values.WorkloadKey) -> bool:
        return key in self._all

    def __iter__(self) -> Iterator[Pending]:
        """In no order that means anything."""
        return iter(self._all.values())

    def get(self, key: values.WorkloadKey) -> Pending | None:
        return self._all.get(key)

    def in_heap(self) -> list[Pending]:
        """In queue order."""
        return sorted((each for each in self._all.values() if self._is_active(each)), key=lambda each: each.order)

    def parked(self) -> list[Pending]:
        return sorted((each for each in self._all.values() if not self._is_active(each)), key=lambda each: each.order)

    def is_parked(self, key: values.WorkloadKey) -> bool:
        pending = self._all.get(key)
        return pending is not None and not self._is_active(pending)

    @staticmethod
    def _is_active(pending: Pending) -> bool:
        return pending.bucket is not None and not pending.bucket.parked

    def reorganize(self, strategy: QueueingStrategy, *, by_local_queue: bool) -> None:
        """Another strategy sorts workloads into other buckets."""
        if (strategy, by_local_queue) == (self.strategy, self.by_local_queue):
            return
        active, parked = self.in_heap(), self.parked()
        self._active, self._parked, self._alone, self._heads = {}, {}, {}, []
        self._failed_shapes.clear()
        self.active_count = 0
        self.strategy, self.by_local_queue = strategy, by_local_queue
        for pending in active:
            self._activate(pending)
        for pending in parked:
            pending.bucket = None
            self._set_aside(pending)

    # Coming and going.

    def push(self, workload: values.Workload) -> None:
        """Into the heap, whatever is known of its shape; what is tracked already stays where it is."""
        if workload.key not in self._all:
            self._activate(self._track(workload))

    def put(self, workload: values.Workload, now_ns: int) -> None:
        """A workload that is new, changed or back from running."""
        old = self._all.get(workload.key)
        pending = Pending(workload, self._policy)
        if old is not None:
            pending.evaluated_generation = old.evaluated_generation
            if old.scan is not None and self._policy.preserve_scan_progress and old.scan.matches(workload.shape):
                pending.scan = old.scan
            if self._is_active(old) or _fares_alike(old, workload):
                self._replace(old, pending)
                return
            self.remove(workload.key, forget_preemptor=False)
        self._all[workload.key] = pending
        if not pending.backoff_expired(now_ns):
            self._set_aside(pending)
        elif self._shape(pending) in self._failed_shapes:
            self._enter(self._parked, pending, parked=True)
        else:
            self._activate(pending)

    def remove(self, key: values.WorkloadKey, *, forget_preemptor: bool = True) -> None:
        pending = self._all.pop(key, None)
        if pending is not None:
            self._leave(pending)
        if forget_preemptor:
            self.forget_preemptor(key)

    def _track(self, workload: values.Workload) -> Pending:
        pending = self._all[workload.key] = Pending(workload, self._policy)
        return pending

    def _replace(self, old: Pending, new: Pending) -> None:
        was_active, was_parked = self._is_active(old), old.bucket is not None and old.bucket.parked
        self._leave(old)
        self._all[new.key] = new
        if was_active:
            self._activate(new)
        elif was_parked:
            self._enter(self._parked, new, parked=True)
        else:
            self._set_aside(new)

    # Heads.

    def pop(self, usage_of: Callable[[values.LocalQueueKey], float] | None = None) -> Pending | None:
        """Take the head out of the heap. It is in flight until `requeue` or until it is admitted."""
        head = self._head() if usage_of is None else self._least_usage_head(usage_of)
        if head is None:
            return None
        del self._all[head.key]
        self._leave(head)
        head.evaluated_generation = head.workload.generation
        return head

    def is_preemptor(self, pending: Pending) -> bool:
        return self._preemptor == (pending.key, pending.workload.generation)

    def forget_preemptor(self, key: values.WorkloadKey) -> None:
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None

    def _sticky(self) -> Pending | None:
        """A preemptor keeps the head of a BestEffortFIFO queue until its victims are gone."""
        if self._preemptor is None or self.strategy is QueueingStrategy.STRICT_FIFO:
            return None
        pending = self._all.get(self._preemptor[0])
        return pending if pending is not None and self._is_active(pending) else None

    def _head(self) -> Pending | None:
        sticky = self._sticky()
        if sticky is not None:
            return sticky
        while self._heads:
            order, _, bucket = self._heads[0]
            head = None if bucket.parked else bucket.head()
            if head is not None and head.order == order:
                return head
            heapq.heappop(self._heads)
        return None

    def _least_usage_head(self, usage_of: Callable[[values.LocalQueueKey], float]) -> Pending | None:
        sticky = self._sticky()
        heads = [head for bucket in self._active.values() if (head := bucket.head()) is not None]
        if sticky is not None:
            heads.append(sticky)
        return min(
            heads,
            key=lambda head: (usage_of(head.workload.local_queue), head is not sticky, head.order),
            default=None,
        )

    # After an attempt.

    def requeue(self, pending: Pending, reason: RequeueReason, now_ns: int) -> bool:
        """Back into the heap, or parked. Answers whether it is in the heap."""
        if reason is RequeueReason.PENDING_PREEMPTION:
            self._preemptor = (pending.key, pending.evaluated_generation)
        self._all[pending.key] = pending
        best_effort = self.strategy is QueueingStrategy.BEST_EFFORT_FIFO
        immediate = reason in _IMMEDIATE if best_effort else reason is not RequeueReason.NAMESPACE_MISMATCH
        remains = pending.scan is not None and pending.scan.flavors_remain
        if (immediate or remains) and pending.backoff_expired(now_ns):
            self._activate(pending)
            return True
        if reason in _FAILS_ALIKE and self._shape(pending):
            self._park_shape(pending)
        else:
            self._set_aside(pending)
        return False

    def _park_shape(self, pending: Pending) -> None:
        shape = self._shape(pending)
        self._enter(self._parked, pending, parked=True)
        self._failed_shapes.add(shape)
        if self.by_local_queue:
            alike = [group for group in self._active if group.partition("\0")[0] == shape]
        else:
            alike = [shape] if shape in self._active else []
        for group in alike:
            bucket = self._active.pop(group)
            self.active_count -= bucket.size
            self._merge(self._parked, group, bucket, parked=True)

    @property
    def has_parked(self) -> bool:
        return bool(self._parked or self._alone or self._failed_shapes)

    def reactivate(self, namespace_fits: Callable[[str], bool], now_ns: int) -> bool:
        """Something changed: whatever is parked may be tried again. Answers whether anything moved."""
        self._failed_shapes.clear()
        before = self.active_count
        for group, bucket in list(self._parked.items()):
            if not bucket.has_backoff and all(namespace_fits(namespace) for namespace in bucket.namespaces):
                del self._parked[group]
                self.active_count += bucket.size
                self._merge(self._active, group, bucket, parked=False)
            else:
                for pending in list(bucket.members()):
                    self._reactivate_one(pending, namespace_fits, now_ns)
        for pending in list(self._alone.values()):
            self._reactivate_one(pending, namespace_fits, now_ns)
        return self.active_count > before

    def _reactivate_one(self, pending: Pending, namespace_fits: Callable[[str], bool], now_ns: int) -> None:
        if namespace_fits(pending.workload.namespace) and pending.backoff_expired(now_ns):
            self._leave(pending)
            self._activate(pending)

    # Buckets.

    def _next(self) -> int:
        """Makes entries of a heap differ, so that nothing else of them is compared."""
        self._sequence += 1
        return self._sequence

    def _shape(self, pending: Pending) -> str:
        """Empty when it fares on its own."""
        if self.strategy is QueueingStrategy.STRICT_FIFO or not self._policy.scheduling_equivalence_hashing:
            return ""
        return pending.workload.shape

    def _set_aside(self, pending: Pending) -> None:
        self._alone[pending.key] = pending
        self.version += 1

    def _activate(self, pending: Pending) -> None:
        bucket = self._enter(self._active, pending, parked=False)
        self.active_count += 1
        if bucket.head() is pending:
            self._offer(bucket, pending)

    def _offer(self, bucket: _Bucket, head: Pending) -> None:
        """Let a bucket compete with its head. Outdated offers are dropped when met, or when they are too many."""
        heapq.heappush(self._heads, (head.order, self._next(), bucket))
        if len(self._heads) > 4 * len(self._active) + 64:
            self._heads = [
                (each.order, self._next(), active)
                for active in self._active.values()
                if (each := active.head()) is not None
            ]
            heapq.heapify(self._heads)

    def _enter(self, buckets: dict[str, _Bucket], pending: Pending, *, parked: bool) -> _Bucket:
        group = self._shape(pending)
        if self.by_local_queue:
            group += "\0" + pending.workload.local_queue
        bucket = buckets.get(group)
        if bucket is None:
            bucket = buckets[group] = _Bucket(group)
            bucket.parked = parked
        heapq.heappush(bucket.heap, (pending.order, self._next(), pending))
        bucket.namespaces.add(pending.workload.namespace)
        bucket.has_backoff = bucket.has_backoff or pending.may_back_off
        bucket.size += 1
        pending.bucket = bucket
        self.version += 1
        return bucket

    def _leave(self, pending: Pending) -> None:
        self.version += 1
        bucket = pending.bucket
        if bucket is None:
            self._alone.pop(pending.key, None)
            return
        pending.bucket = None
        bucket.size -= 1
        if not bucket.parked:
            self.active_count -= 1
        if bucket.size == 0:
            (self._parked if bucket.parked else self._active).pop(bucket.shape, None)
        elif not bucket.parked:
            head = bucket.head()
            assert head is not None
            self._offer(bucket, head)

    def _merge(self, buckets: dict[str, _Bucket], group: str, bucket: _Bucket, *, parked: bool) -> None:
        """Move a whole bucket; into the bigger one if both sides have that shape."""
        self.version += 1
        other = buckets.get(group)
        if other is not None:
            if other.size > bucket.size:
                bucket, other = other, bucket
            for pending in list(other.members()):
                pending.bucket = bucket
                heapq.heappush(bucket.heap, (pending.order, self._next(), pending))
            bucket.size += other.size
            bucket.namespaces |= other.namespaces
            bucket.has_backoff = bucket.has_backoff or other.has_backoff
            other.size, other.parked = 0, True
        buckets[group] = bucket
        bucket.parked = parked
        head = bucket.head()
        if not parked and head is not None:
            self._offer(bucket, head)


def _fares_alike(old: Pending, new: values.Workload) -> bool:
    """Nothing changed that could make a parked workload admissible."""
    before = old.workload
    return (
        (not old.evaluated_generation or old.evaluated_generation == new.generation)
        and before.generation == new.generation
        and before.shape == new.shape
        and before.priority == new.priority
        and before.local_queue == new.local_queue
        and before.eviction == new.eviction
        and before.requeued == new.requeued
        and before.requeue_at_ns == new.requeue_at_ns
        and before.closed_preemption_gate == new.closed_preemption_gate
        and before.pod_sets == new.pod_sets
    )
