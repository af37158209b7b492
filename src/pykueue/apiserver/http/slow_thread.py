"""Decodes and encodes what is large in one thread, one after another, users in turn.

Python reads YAML with some hundred thousand values a second, so that a large body would stop every
other request for seconds on the event loop. Several threads would stop them as well: each waits
for the interpreter as the event loop does.
"""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http.priority_levels import Seat

_LONGEST_QUEUE = 300

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SlowThread:
    def __init__(self) -> None:
        self._queue = FairQueue(1, _LONGEST_QUEUE)
        self._executor: ThreadPoolExecutor | None = None

    async def run(
        self,
        user: str,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """Call a function that reads and changes nothing that the event loop changes."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="slow")
        async with Seat(self._queue, user):
            call = functools.partial(function, *arguments, **options)
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
