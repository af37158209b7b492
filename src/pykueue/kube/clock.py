"""Time as an argument: whoever waits or stamps a time is given one of these.

Controllers and the machine room take a `Clock`, so that tests and the simulation can run the same code in virtual time.
Times on the wire are RFC 3339 with whole seconds; inside we count integer nanoseconds since the epoch.
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
