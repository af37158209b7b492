import asyncio

from pykueue.kube.clock import WallClock
from pykueue.kube.controller.work_queue import WorkQueue


async def test_the_queue_is_idle_when_all_keys_are_reconciled():
    queue, reconciled = WorkQueue("test", WallClock()), []

    async def reconcile(key):
        reconciled.append(key)
        if key == "first":
            queue.add("second")
        return 0

    queue.add("first")
    running = asyncio.create_task(queue.run(reconcile))
    await asyncio.wait_for(queue.idle(), 5)
    running.cancel()
    assert reconciled == ["first", "second"]


async def test_a_key_that_failed_is_retried():
    queue, attempts = WorkQueue("test", WallClock()), []
    succeeded = asyncio.Event()

    async def reconcile(key):
        attempts.append(key)
        if len(attempts) < 3:
            raise ArithmeticError
        succeeded.set()
        return 0

    queue.add("key")
    running = asyncio.create_task(queue.run(reconcile))
    await asyncio.wait_for(succeeded.wait(), 5)
    running.cancel()
    assert attempts == ["key"] * 3
