"""Decodes large bodies in a thread, one after another, users in turn.

Python decodes YAML with some hundred thousand values a second, so that a large body would stop
every other request for seconds if it were decoded on the event loop.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from pykueue.apiserver.http import bodies
from pykueue.apiserver.http.fair_queue import FairQueue
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.apiserver.http.priority_levels import Seat

_LONGEST_QUEUE = 300


class BodyDecoder:
    def __init__(self) -> None:
        self._queue = FairQueue(1, _LONGEST_QUEUE)
        self._executor: ThreadPoolExecutor | None = None

    async def decode(self, request: HttpRequest, user: str) -> bodies.Decoded:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="decode")
        async with Seat(self._queue, user):
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, bodies.decode, request.content_type, request.data, request.most_values
            )

    def stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
