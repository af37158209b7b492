"""The clock as an argument, so that tests can run the same code in virtual time.

Times on the wire are RFC 3339 with whole seconds. Inside pykueue a time is an integer number of
nanoseconds since the epoch.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now_ns(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    def now_ns(self) -> int:
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
