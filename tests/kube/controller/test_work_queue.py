import asyncio

from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import WallClock
from pykueue.kube.controller import work_queue
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


async def test_a_change_brings_a_key_forward_that_waits_for_long():
    queue, reconciled = WorkQueue("test", WallClock()), asyncio.Queue()

    async def reconcile(key):
        reconciled.put_nowait(key)
        return 3600 * SECOND_NS

    queue.add("key")
    running = asyncio.create_task(queue.run(reconcile))
    await asyncio.wait_for(reconciled.get(), 5)
    await asyncio.wait_for(queue.idle(), 5)
    queue.add_unless_due("key", 1)
    assert await asyncio.wait_for(reconciled.get(), 5) == "key"
    running.cancel()


async def test_a_change_during_a_reconcile_is_not_postponed_by_its_requeue():
    queue, reconciled = WorkQueue("test", WallClock()), asyncio.Queue()

    async def reconcile(key):
        if reconciled.empty():
            queue.add_unless_due(key, SECOND_NS // 10)
        reconciled.put_nowait(key)
        return 3600 * SECOND_NS

    queue.add("key")
    running = asyncio.create_task(queue.run(reconcile))
    for _ in range(2):
        assert await asyncio.wait_for(reconciled.get(), 5) == "key"
    running.cancel()


async def test_the_pauses_of_objects_that_are_gone_leave_nothing():
    queue = WorkQueue("test", WallClock())
    for number in range(10 * work_queue.MOST_OUTDATED):
        queue.add_after(f"gone-{number}", 3600 * SECOND_NS)
        queue.forget(f"gone-{number}")
    assert not queue._due
    assert len(queue._heap) <= work_queue.MOST_OUTDATED


async def test_a_key_that_was_forgotten_can_wait_again():
    queue, reconciled = WorkQueue("test", WallClock()), asyncio.Queue()

    async def reconcile(key):
        reconciled.put_nowait(key)
        return 0

    running = asyncio.create_task(queue.run(reconcile))
    queue.add_after("key", 3600 * SECOND_NS)
    queue.forget("key")
    queue.add_unless_due("key", 1)
    assert await asyncio.wait_for(reconciled.get(), 5) == "key"
    running.cancel()


async def test_reconciles_without_a_pause_leave_the_event_loop_to_others():
    queue, reconciled = WorkQueue("test", WallClock()), []

    async def reconcile(key):
        reconciled.append(key)
        return 0

    for number in range(100):
        queue.add(number)
    running = asyncio.create_task(queue.run(reconcile, workers=2))
    in_turn = []
    while len(reconciled) < 100:
        before = len(reconciled)
        await asyncio.sleep(0)
        in_turn.append(len(reconciled) - before)
    running.cancel()
    assert max(in_turn) <= 2
