"""Long-running tasks: started by name, restarted on request, stopped in reverse order.

A scope that fails as a whole uses `asyncio.TaskGroup`. A supervisor is for parts that are started
and stopped by separate calls, as processes do it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class Supervisor:
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    def start(self, name: str, work: Work, *, restart_seconds: float | None = None) -> None:
        """Run `work` as a task; log a failure, and restart it if `restart_seconds` is set."""
        task = asyncio.create_task(self._run(name, work, restart_seconds), name=name)
        self._tasks.append(task)

    async def wait_for(self, condition: Awaitable[Any]) -> None:
        """Wait for the condition; raise the error of a task that failed before."""
        waiting = asyncio.ensure_future(condition)
        failing = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait((waiting, failing), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
            elif self._error is not None:
                raise self._error
        finally:
            waiting.cancel()
            failing.cancel()

    async def stop(self) -> None:
        """Cancel all tasks, the last one first, and wait until they have ended."""
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, name: str, work: Work, restart_seconds: float | None) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                if restart_seconds is None:
                    log.exception("%s failed", name)
                    self._error = error
                    self._failed.set()
                    return
                log.exception("%s failed, starts again", name)
            if restart_seconds is None:
                return
            await asyncio.sleep(restart_seconds)


class BackgroundTasks:
    """Tasks that are not awaited; asyncio alone keeps no reference to them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all tasks have ended; raise the error of one that failed."""
        await asyncio.gather(*self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
