"""Writes that run side by side, but one after another for the same object. Used by the scheduler, which never waits."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class OrderedWrites:
    def __init__(self, limit: int = 64) -> None:
        self._room = asyncio.Semaphore(limit)
        self._last: dict[Hashable, asyncio.Task[None]] = {}

    def submit(self, key: Hashable, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last[key] = task = asyncio.get_running_loop().create_task(self._run(self._last.get(key), write))
        task.add_done_callback(lambda done: self._forget(key, done))

    async def _run(self, previous: asyncio.Task[None] | None, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        async with self._room:
            await write()

    def _forget(self, key: Hashable, task: asyncio.Task[None]) -> None:
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
