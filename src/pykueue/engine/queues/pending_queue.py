"""The pending workloads of one cluster queue: those in the heap, and the inadmissible ones outside
it.

An inadmissible workload is not tried until something changes. Workloads with the same scheduling
equivalence hash share a bucket, because what happens to one would happen to all: marking them
inadmissible and reactivating them moves one bucket, not its workloads. The cycle pops heads and
requeues them; the event handlers push, update and reactivate.
"""

import copy
import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykueue.engine import decisions, values
from pykueue.engine.policy import Policy, RequeuingTimestamp
from pykueue.engine.queues.bucket import Bucket, Order
from pykueue.engine.queues.equivalence import is_equivalent
from pykueue.engine.queues.scan_progress import ScanProgress
from pykueue.engine.reasons import NoFitReason, PreemptionReason, RequeueReason
from pykueue.engine.values import QueueingStrategy

if TYPE_CHECKING:
    from pykueue.engine.cycle.last_nomination import Nominations

_MILLISECOND_NS = 1_000_000
_IMMEDIATE = {
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PENDING_MIGRATION,
    RequeueReason.PREEMPTION_FAILED,
}
_FAILS_FOR_WHOLE_HASH = {RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES}


def queue_order_timestamp(workload: values.Workload, policy: Policy) -> int:
    """The creation of a workload, or the eviction that moved it to the back of the queue."""
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


class PendingWorkload:
    """One workload in a pending queue."""

    __slots__ = (
        "bucket", "evaluated_generation", "key", "last_decision", "nominations", "order", "scan", "timestamp_ns", "valid_settings", "workload",
    )  # fmt: skip

    def __init__(self, workload: values.Workload, policy: Policy) -> None:
        self.workload = workload
        self.key = workload.key
        self.timestamp_ns = queue_order_timestamp(workload, policy)
        self.order: Order = (
            -workload.priority,
            self.timestamp_ns,
            workload.arrival,
            workload.uid,
            workload.key,
        )
        self.scan: ScanProgress | None = None
        self.evaluated_generation = 0
        self.bucket: Bucket | None = None
        self.nominations: Nominations | None = None
        """Earlier nominations that may be repeated; None until it is nominated."""
        self.last_decision: decisions.Requeue | decisions.MarkInadmissible | None = None
        """How its last try ended; most tries end like the one before."""
        self.valid_settings: int | None = None
        """The version of the settings with which it was last nominated."""

    def __deepcopy__(self, memo: dict[int, object]) -> "PendingWorkload":
        """Faster than the default; a fork copies thousands of these."""
        clone = memo[id(self)] = PendingWorkload.__new__(PendingWorkload)
        clone.workload = self.workload
        clone.key = self.key
        clone.timestamp_ns = self.timestamp_ns
        clone.order = self.order
        clone.scan = self.scan
        clone.evaluated_generation = self.evaluated_generation
        clone.bucket = copy.deepcopy(self.bucket, memo)
        clone.nominations = clone.last_decision = clone.valid_settings = None
        return clone

    @property
    def is_inadmissible(self) -> bool:
        bucket = self.bucket
        return bucket is None or bucket.inadmissible

    @property
    def may_back_off(self) -> bool:
        return self.workload.requeued is False or self.workload.requeue_at_ns is not None

    def backoff_expired(self, now_ns: int) -> bool:
        due_ns = self.workload.requeue_at_ns
        return self.workload.requeued is not False and (due_ns is None or now_ns >= due_ns)


class PendingQueue:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.strategy = QueueingStrategy.BEST_EFFORT_FIFO
        self.by_local_queue = False
        """Admission fair sharing orders by local queue first, so each has its own buckets."""
        self._all: dict[values.WorkloadKey, PendingWorkload] = {}
        self._active: dict[str, Bucket] = {}
        self._inadmissible_buckets: dict[str, Bucket] = {}
        self._inadmissible_singly: dict[values.WorkloadKey, PendingWorkload] = {}
        """Inadmissible for reasons of their own: backoff, namespace mismatch, gates."""
        self._heads: list[tuple[Order, int, Bucket]] = []
        self._sequence = 0
        self._inadmissible_hashes: dict[str, NoFitReason] = {}
        self.preemptor: tuple[values.WorkloadKey, int] | None = None
        """The key and generation of the workload that waits for its targets."""
        self.active_count = 0
        self.version = 0
        """Grows with every move, so that a reader can keep its counts while this is the same."""

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key: values.WorkloadKey) -> bool:
        return key in self._all

    def __iter__(self) -> Iterator[PendingWorkload]:
        """All pending workloads, in no particular order."""
        return iter(self._all.values())

    def get(self, key: values.WorkloadKey) -> PendingWorkload | None:
        return self._all.get(key)

    def in_order(self) -> list[PendingWorkload]:
        """All pending workloads in queue order."""
        return sorted(self._all.values(), key=_order)

    def in_heap(self) -> list[PendingWorkload]:
        """The workloads in the heap, in queue order."""
        return [pending for pending in self.in_order() if not pending.is_inadmissible]

    def inadmissible(self) -> list[PendingWorkload]:
        """The workloads outside the heap, in queue order."""
        return [pending for pending in self.in_order() if pending.is_inadmissible]

    def is_inadmissible(self, key: values.WorkloadKey) -> bool:
        pending = self._all.get(key)
        return pending is not None and pending.is_inadmissible

    def reorganize(self, strategy: QueueingStrategy, *, by_local_queue: bool) -> None:
        """Sort the workloads into other buckets if the strategy changed."""
        if (strategy, by_local_queue) == (self.strategy, self.by_local_queue):
            return
        active, inadmissible = self.in_heap(), self.inadmissible()
        self._active, self._inadmissible_buckets, self._inadmissible_singly, self._heads = {}, {}, {}, []
        self._inadmissible_hashes.clear()
        self.active_count = 0
        self.strategy, self.by_local_queue = strategy, by_local_queue
        for pending in active:
            self._activate(pending)
        for pending in inadmissible:
            pending.bucket = None
            self._add_inadmissible_singly(pending)

    # Adding and removing.

    def push(self, workload: values.Workload) -> None:
        """Put a workload into the heap, also if its hash is inadmissible.

        One that is pending already stays as it is.
        """
        if workload.key not in self._all:
            pending = self._all[workload.key] = PendingWorkload(workload, self._policy)
            self._activate(pending)

    def put(self, workload: values.Workload, now_ns: int) -> None:
        """Add or update a workload: it is new, it changed, or it lost its quota."""
        old = self._all.get(workload.key)
        pending = PendingWorkload(workload, self._policy)
        if old is not None:
            pending.evaluated_generation = old.evaluated_generation
            if (
                old.scan is not None
                and self._policy.preserve_scan_progress
                and old.scan.matches(workload.scheduling_hash)
            ):
                pending.scan = old.scan
            if not old.is_inadmissible or is_equivalent(old.workload, workload, old.evaluated_generation):
                self._replace(old, pending)
                return
            self.remove(workload.key, forget_preemptor=False)
        self._all[workload.key] = pending
        if not pending.backoff_expired(now_ns):
            self._add_inadmissible_singly(pending)
        elif self._hash_of(pending) in self._inadmissible_hashes:
            self._enter(self._inadmissible_buckets, pending, inadmissible=True)
        else:
            self._activate(pending)

    def remove(self, key: values.WorkloadKey, *, forget_preemptor: bool = True) -> None:
        pending = self._all.pop(key, None)
        if pending is not None:
            self._leave(pending)
        if forget_preemptor and self.preemptor is not None:
            self.forget_preemptor(key)

    def _replace(self, old: PendingWorkload, new: PendingWorkload) -> None:
        was_active, was_in_bucket = not old.is_inadmissible, old.bucket is not None
        self._leave(old)
        self._all[new.key] = new
        if was_active:
            self._activate(new)
        elif was_in_bucket:
            self._enter(self._inadmissible_buckets, new, inadmissible=True)
        else:
            self._add_inadmissible_singly(new)

    # Heads.

    def head(self, usage_of: Callable[[values.LocalQueueKey], float] | None = None) -> PendingWorkload | None:
        """The workload to try next. It stays in the heap until the cycle decides about it."""
        if usage_of is not None:
            return self._least_usage_head(usage_of)
        if self.preemptor is not None and (preemptor := self._preemptor_head()) is not None:
            return preemptor
        while self._heads:
            order, _, bucket = self._heads[0]
            if not bucket.inadmissible:
                head = bucket.head()
                if head is not None and head.order == order:
                    return head
            heapq.heappop(self._heads)
        return None

    def take(self, head: PendingWorkload) -> None:
        """Remove a head; the cycle either admits it or puts it back with `requeue`."""
        del self._all[head.key]
        self._leave(head)
        head.evaluated_generation = head.workload.generation

    def pop(self, usage_of: Callable[[values.LocalQueueKey], float] | None = None) -> PendingWorkload | None:
        """Remove and return the head."""
        head = self.head(usage_of)
        if head is not None:
            self.take(head)
        return head

    def forget_preemptor(self, key: values.WorkloadKey) -> None:
        if self.preemptor is not None and self.preemptor[0] == key:
            self.preemptor = None

    def _preemptor_head(self) -> PendingWorkload | None:
        """The preemptor stays the head of a BestEffortFIFO queue until its targets are gone."""
        if self.preemptor is None or self.strategy is QueueingStrategy.STRICT_FIFO:
            return None
        pending = self._all.get(self.preemptor[0])
        return None if pending is None or pending.is_inadmissible else pending

    def _least_usage_head(self, usage_of: Callable[[values.LocalQueueKey], float]) -> PendingWorkload | None:
        preemptor = self._preemptor_head()
        heads = [head for bucket in self._active.values() if (head := bucket.head()) is not None]
        if preemptor is not None:
            heads.append(preemptor)
        return min(
            heads,
            key=lambda head: (usage_of(head.workload.local_queue), head is not preemptor, head.order),
            default=None,
        )

    # After an attempt.

    def requeue(
        self,
        pending: PendingWorkload,
        reason: RequeueReason,
        now_ns: int,
        no_fit_reason: NoFitReason = NoFitReason.NONE,
    ) -> bool:
        """Put a workload back into the heap, or mark it inadmissible (returns False).

        A head that nobody took is still in the heap.
        """
        is_in_heap = pending.bucket is not None
        if is_in_heap:
            pending.evaluated_generation = pending.workload.generation
        else:
            self._all[pending.key] = pending
        if reason in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION):
            self.preemptor = (pending.key, pending.evaluated_generation)
        best_effort = self.strategy is QueueingStrategy.BEST_EFFORT_FIFO
        immediate = reason in _IMMEDIATE if best_effort else reason is not RequeueReason.NAMESPACE_MISMATCH
        scan = pending.scan
        if (immediate or (scan is not None and scan.flavors_remain)) and pending.backoff_expired(now_ns):
            if not is_in_heap:
                self._activate(pending)
            return True
        fails_for_hash = best_effort and reason in _FAILS_FOR_WHOLE_HASH and self._policy.scheduling_equivalence_hashing
        if fails_for_hash and (scheduling_hash := pending.workload.scheduling_hash):
            if not is_in_heap:
                self._enter(self._inadmissible_buckets, pending, inadmissible=True)
            self._mark_hash_inadmissible(scheduling_hash, no_fit_reason)
        else:
            if is_in_heap:
                self._leave(pending)
            self._add_inadmissible_singly(pending)
        return False

    def _mark_hash_inadmissible(self, scheduling_hash: str, no_fit_reason: NoFitReason) -> None:
        self._inadmissible_hashes[scheduling_hash] = no_fit_reason
        if not self.by_local_queue:
            self._mark_group_inadmissible(scheduling_hash)
            return
        for group in [group for group in self._active if group.partition("\0")[0] == scheduling_hash]:
            self._mark_group_inadmissible(group)

    def _mark_group_inadmissible(self, group: str) -> None:
        bucket = self._active.pop(group, None)
        if bucket is not None:
            self.active_count -= bucket.size
            bucket.inadmissible = True
            self._merge(self._inadmissible_buckets, group, bucket)

    def bypassed_reason(self, key: values.WorkloadKey) -> NoFitReason | None:
        """Why an inadmissible workload with the same hash did not fit."""
        pending = self._all.get(key)
        return self._inadmissible_hashes.get(self._hash_of(pending)) if pending and pending.is_inadmissible else None

    @property
    def has_inadmissible(self) -> bool:
        return bool(self._inadmissible_buckets or self._inadmissible_singly or self._inadmissible_hashes)

    def reactivate(self, namespace_fits: Callable[[str], bool], now_ns: int, above: int | None = None) -> bool:
        """Move inadmissible workloads back to the heap, all or only those above a priority.

        Returns whether any moved.
        """
        if above is None:
            self._inadmissible_hashes.clear()
        for scheduling_hash in self._inadmissible_hashes.keys() - self._inadmissible_buckets.keys():
            del self._inadmissible_hashes[scheduling_hash]  # nobody knows its priority any more
        before = self.active_count
        if not before:
            self._heads.clear()
        for group, bucket in list(self._inadmissible_buckets.items()):
            if above is not None and not self._clear_hash_above(above, bucket):
                continue
            is_accepted = bucket.accepted_by is namespace_fits or all(map(namespace_fits, bucket.namespaces))
            if is_accepted and not bucket.has_backoff:
                bucket.accepted_by = namespace_fits
                del self._inadmissible_buckets[group]
                self.active_count += bucket.size
                bucket.inadmissible = False
                active = self._merge(self._active, group, bucket)
                head = active.head()
                assert head is not None
                self._push_head(active, head)
            else:
                for pending in list(bucket.members()):
                    self._reactivate_one(pending, namespace_fits, now_ns)
        for pending in list(self._inadmissible_singly.values()):
            if above is None or pending.workload.priority > above:
                self._reactivate_one(pending, namespace_fits, now_ns)
        return self.active_count > before

    def _clear_hash_above(self, above: int, bucket: Bucket) -> bool:
        """Whether the workloads of a bucket, which have one priority, are above a priority."""
        head = bucket.head()
        if head is None or head.workload.priority <= above:
            return False
        self._inadmissible_hashes.pop(self._hash_of(head), None)
        return True

    def _reactivate_one(self, pending: PendingWorkload, namespace_fits: Callable[[str], bool], now_ns: int) -> None:
        if namespace_fits(pending.workload.namespace) and pending.backoff_expired(now_ns):
            self._leave(pending)
            self._activate(pending)

    # Buckets.

    def _next_sequence(self) -> int:
        """Makes the entries of a heap distinct, so that later fields are never compared."""
        self._sequence += 1
        return self._sequence

    def _hash_of(self, pending: PendingWorkload) -> str:
        """The scheduling hash; empty if it is not to be used."""
        if self.strategy is QueueingStrategy.STRICT_FIFO or not self._policy.scheduling_equivalence_hashing:
            return ""
        return pending.workload.scheduling_hash

    def _add_inadmissible_singly(self, pending: PendingWorkload) -> None:
        self._inadmissible_singly[pending.key] = pending
        self.version += 1

    def _activate(self, pending: PendingWorkload) -> None:
        bucket = self._enter(self._active, pending, inadmissible=False)
        self.active_count += 1
        if bucket.head() is pending:
            self._push_head(bucket, pending)

    def _push_head(self, bucket: Bucket, head: PendingWorkload) -> None:
        """Add the head of a bucket to the heap of heads.

        Outdated heads are dropped when they are popped, or all at once when they are too many.
        """
        self._sequence += 1
        heapq.heappush(self._heads, (head.order, self._sequence, bucket))
        if len(self._heads) > 4 * len(self._active) + 64:
            self._heads = [
                (active_head.order, self._next_sequence(), active)
                for active in self._active.values()
                if (active_head := active.head()) is not None
            ]
            heapq.heapify(self._heads)

    def _enter(self, buckets: dict[str, Bucket], pending: PendingWorkload, *, inadmissible: bool) -> Bucket:
        group = self._hash_of(pending)
        if self.by_local_queue:
            group += "\0" + pending.workload.local_queue
        bucket = buckets.get(group)
        if bucket is None:
            bucket = buckets[group] = Bucket(group)
            bucket.inadmissible = inadmissible
        heapq.heappush(bucket.heap, (pending.order, self._next_sequence(), pending))
        if pending.workload.namespace not in bucket.namespaces:
            bucket.namespaces.add(pending.workload.namespace)
            bucket.accepted_by = None
        bucket.has_backoff = bucket.has_backoff or pending.may_back_off
        bucket.size += 1
        pending.bucket = bucket
        self.version += 1
        return bucket

    def _leave(self, pending: PendingWorkload) -> None:
        self.version += 1
        bucket = pending.bucket
        if bucket is None:
            self._inadmissible_singly.pop(pending.key, None)
            return
        pending.bucket = None
        bucket.size -= 1
        if not bucket.inadmissible:
            self.active_count -= 1
        if bucket.size == 0:
            (self._inadmissible_buckets if bucket.inadmissible else self._active).pop(bucket.group, None)
        elif not bucket.inadmissible:
            head = bucket.head()
            assert head is not None
            self._push_head(bucket, head)

    def _merge(self, buckets: dict[str, Bucket], group: str, bucket: Bucket) -> Bucket:
        """Move a whole bucket, which is marked already.

        If the destination has a bucket of this group, the smaller is merged into the larger.
        """
        self.version += 1
        other = buckets.get(group)
        if other is not None:
            if other.size > bucket.size:
                bucket, other = other, bucket
            for pending in list(other.members()):
                pending.bucket = bucket
                heapq.heappush(bucket.heap, (pending.order, self._next_sequence(), pending))
            bucket.size += other.size
            bucket.namespaces |= other.namespaces
            bucket.accepted_by = None
            bucket.has_backoff = bucket.has_backoff or other.has_backoff
            other.size, other.inadmissible = 0, True
        buckets[group] = bucket
        return bucket


def _order(pending: PendingWorkload) -> Order:
    return pending.order
