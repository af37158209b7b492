"""The queue with its buckets behaves like a plain one that moves workloads one by one."""

import random

import pytest
from tests.engine import builders as b

from pykueue.engine.policy import Policy
from pykueue.engine.queues.pending_queue import PendingQueue, PendingWorkload
from pykueue.engine.queues.scan_progress import ScanProgress
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.values import QueueingStrategy

POLICY = Policy()
IMMEDIATE = {
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PENDING_MIGRATION,
    RequeueReason.PREEMPTION_FAILED,
}


class Plain:
    """Kueue's rules, word by word."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.heap = {}
        self.inadmissible = {}
        self.failed_hashes = set()
        self.preemptor = None

    @property
    def is_strict(self):
        return self.strategy is QueueingStrategy.STRICT_FIFO

    def put(self, workload):
        if workload.key in self.heap:
            self.heap[workload.key] = workload
        elif workload.key in self.inadmissible and self.inadmissible[workload.key] == workload:
            return
        else:
            self.inadmissible.pop(workload.key, None)
            fails = not self.is_strict and workload.scheduling_hash in self.failed_hashes
            waits = workload.requeued is False
            (self.inadmissible if fails or waits else self.heap)[workload.key] = workload

    def remove(self, key):
        self.heap.pop(key, None)
        self.inadmissible.pop(key, None)
        if self.preemptor == key:
            self.preemptor = None

    def pop(self):
        if not self.heap:
            return None
        sticky = None if self.is_strict else self.heap.get(self.preemptor)
        head = sticky or min(
            self.heap.values(), key=lambda workload: (-workload.priority, workload.created_at_ns, workload.uid)
        )
        return self.heap.pop(head.key)

    def requeue(self, workload, reason, flavors_remain):
        if reason in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION):
            self.preemptor = workload.key
        immediate = reason is not RequeueReason.NAMESPACE_MISMATCH if self.is_strict else reason in IMMEDIATE
        if (immediate or flavors_remain) and workload.requeued is not False:
            self.heap[workload.key] = workload
            return
        self.inadmissible[workload.key] = workload
        if reason in (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES) and not self.is_strict:
            self.failed_hashes.add(workload.scheduling_hash)
            for key in [key for key, other in self.heap.items() if other.scheduling_hash == workload.scheduling_hash]:
                self.inadmissible[key] = self.heap.pop(key)

    def reactivate(self, fits):
        self.failed_hashes.clear()
        for key in [
            key for key, other in self.inadmissible.items() if fits(other.namespace) and other.requeued is not False
        ]:
            self.heap[key] = self.inadmissible.pop(key)


def some_workload(choose):
    """Name, age and namespace never change; the scheduling hash, priority and backoff may."""
    number = choose.randrange(12)
    priority = choose.randrange(2)
    workload = b.workload(
        f"workload{number}",
        priority=priority,
        scheduling_hash=f"{priority}-{choose.randrange(2)}",
        created=number // 2,
        requeued=choose.choice((None, None, None, True, False)),
    )
    return b.replaced(workload, namespace=("one", "two")[number % 2])


def step(choose, queue, plain):
    """Do one random thing to both queues."""
    kind = choose.randrange(8)
    if kind < 3:
        workload = some_workload(choose)
        queue.put(workload, 0)
        plain.put(workload)
    elif kind < 6:
        pending, workload = queue.pop(), plain.pop()
        assert (pending and pending.workload) == workload
        if pending is not None and choose.random() < 0.8:
            reason = choose.choice(tuple(RequeueReason))
            remains = choose.random() < 0.2
            tried = ({b.CPU: 0 if remains else -1},)
            pending.scan = ScanProgress(
                tried=tried,
                generation=0,
                cycle=0,
                scheduling_hash=workload.scheduling_hash,
                flavors_remain=remains,
            )
            queue.requeue(pending, reason, 0)
            plain.requeue(workload, reason, remains)
        elif pending is not None:
            queue.forget_preemptor(pending.key)
            plain.remove(pending.key)
    elif kind == 6:
        key = f"default/workload{choose.randrange(12)}"
        queue.remove(key)
        plain.remove(key)
    else:
        allowed = choose.choice((("one", "two"), ("one",)))
        queue.reactivate(allowed.__contains__, 0)
        plain.reactivate(allowed.__contains__)


def keys(workloads: list[PendingWorkload]):
    return {pending.key for pending in workloads}


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
@pytest.mark.parametrize("seed", range(60))
def test_buckets_are_invisible(seed, strategy):
    choose = random.Random(seed)
    queue, plain = PendingQueue(POLICY), Plain(strategy)
    queue.strategy = strategy
    for _ in range(150):
        step(choose, queue, plain)
        assert (keys(queue.in_heap()), keys(queue.inadmissible())) == (set(plain.heap), set(plain.inadmissible))
        assert queue.active_count == len(plain.heap)
