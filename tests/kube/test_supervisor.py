import asyncio

import pytest

from pykueue.kube.supervisor import BackgroundTasks, Supervisor


async def forever():
    await asyncio.Event().wait()


async def fail():
    raise ArithmeticError("a fault of ours")


async def test_a_waiter_hears_of_a_task_that_failed():
    supervisor = Supervisor()
    supervisor.start("faulty", fail)
    with pytest.raises(ArithmeticError):
        await asyncio.wait_for(supervisor.wait_for(asyncio.Event().wait()), 5)


async def test_a_waiter_returns_when_its_condition_is_true():
    supervisor, ready = Supervisor(), asyncio.Event()
    supervisor.start("idle", forever)
    ready.set()
    await asyncio.wait_for(supervisor.wait_for(ready.wait()), 5)
    await supervisor.stop()


async def test_a_failure_is_logged_with_the_name_of_the_task(caplog):
    supervisor = Supervisor()
    supervisor.start("faulty", fail)
    with pytest.raises(ArithmeticError):
        await supervisor.wait_for(asyncio.Event().wait())
    assert "faulty failed" in caplog.text


async def test_work_that_fails_starts_again_until_it_is_ready():
    supervisor, ready = Supervisor(), asyncio.Event()
    attempts = []

    async def work():
        attempts.append(None)
        if len(attempts) < 3:
            raise ArithmeticError
        ready.set()
        await forever()

    supervisor.start("flaky", work, restart_seconds=0)
    await asyncio.wait_for(supervisor.wait_for(ready.wait()), 5)
    await supervisor.stop()
    assert len(attempts) == 3


async def test_tasks_stop_in_reverse_order():
    supervisor, stopped = Supervisor(), []

    def work(name):
        async def run():
            try:
                await forever()
            finally:
                stopped.append(name)

        return run

    for name in ("first", "second", "third"):
        supervisor.start(name, work(name))
    await asyncio.sleep(0)
    await supervisor.stop()
    assert stopped == ["third", "second", "first"]


async def test_a_background_task_runs_without_a_reference():
    tasks, ended = BackgroundTasks(), asyncio.Event()

    async def work():
        ended.set()

    tasks.start(work())
    await asyncio.wait_for(ended.wait(), 5)
