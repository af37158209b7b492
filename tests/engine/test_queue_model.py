"""The queue with its buckets behaves like a plain one that moves workloads one by one."""

import random

import pytest
from tests.engine import builders as b

from pykueue.engine.policy import Policy
from pykueue.engine.queues.pending_queue import Pending, PendingQueue, ScanMemory
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.values import QueueingStrategy

POLICY = Policy()
IMMEDIATE = {
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PREEMPTION_FAILED,
}


class Plain:
    """Kueue's rules, word by word."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.heap = {}
        self.parked = {}
        self.failed_shapes = set()
        self.preemptor = None

    @property
    def is_strict(self):
        return self.strategy is QueueingStrategy.STRICT_FIFO

    def put(self, workload):
        if workload.key in self.heap:
            self.heap[workload.key] = workload
        elif workload.key in self.parked and self.parked[workload.key] == workload:
            return
        else:
            self.parked.pop(workload.key, None)
            fails = not self.is_strict and workload.shape in self.failed_shapes
            waits = workload.requeued is False
            (self.parked if fails or waits else self.heap)[workload.key] = workload

    def remove(self, key):
        self.heap.pop(key, None)
        self.parked.pop(key, None)
        if self.preemptor == key:
            self.preemptor = None

    def pop(self):
        if not self.heap:
            return None
        sticky = None if self.is_strict else self.heap.get(self.preemptor)
        head = sticky or min(self.heap.values(), key=lambda each: (-each.priority, each.created_at_ns, each.uid))
        return self.heap.pop(head.key)

    def requeue(self, workload, reason, flavors_remain):
        if reason is RequeueReason.PENDING_PREEMPTION:
            self.preemptor = workload.key
        immediate = reason is not RequeueReason.NAMESPACE_MISMATCH if self.is_strict else reason in IMMEDIATE
        if (immediate or flavors_remain) and workload.requeued is not False:
            self.heap[workload.key] = workload
            return
        self.parked[workload.key] = workload
        if reason in (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES) and not self.is_strict:
            self.failed_shapes.add(workload.shape)
            for key in [key for key, each in self.heap.items() if each.shape == workload.shape]:
                self.parked[key] = self.heap.pop(key)

    def reactivate(self, fits):
        self.failed_shapes.clear()
        for key in [key for key, each in self.parked.items() if fits(each.namespace) and each.requeued is not False]:
            self.heap[key] = self.parked.pop(key)


def some_workload(choose):
    """Name, age and namespace never change; shape, priority and backoff may."""
    number = choose.randrange(12)
    priority = choose.randrange(2)
    workload = b.workload(
        f"workload{number}",
        priority=priority,
        shape=f"{priority}-{choose.randrange(2)}",
        created=number // 2,
        requeued=choose.choice((None, None, None, True, False)),
    )
    return b.replaced(workload, namespace=("one", "two")[number % 2])


def step(choose, queue, plain):
    """One thing happens to both; in flight there is at most one workload, and only within a step."""
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
            pending.scan = ScanMemory(tried=tried, generation=0, cycle=0, shape=workload.shape)
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


def keys(found: list[Pending]):
    return {pending.key for pending in found}


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
@pytest.mark.parametrize("seed", range(60))
def test_buckets_are_invisible(seed, strategy):
    choose = random.Random(seed)
    queue, plain = PendingQueue(POLICY), Plain(strategy)
    queue.strategy = strategy
    for _ in range(150):
        step(choose, queue, plain)
        assert (keys(queue.in_heap()), keys(queue.parked())) == (set(plain.heap), set(plain.parked))
        assert queue.active_count == len(plain.heap)
