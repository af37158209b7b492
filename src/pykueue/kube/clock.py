"""Time as an argument: whoever waits or stamps a time is given one of these.

Controllers and the machine room take a `Clock`, so that tests and the simulation can run the same code in virtual time.
Times on the wire are RFC 3339 with whole seconds; inside we count integer nanoseconds since the epoch.
"""

import asyncio
import functools
import time
from datetime import UTC, datetime
from typing import Protocol

SECOND_NS = 1_000_000_000


class Clock(Protocol):
    def now_ns(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    def now_ns(self) -> int:
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.replace(microsecond=0).timestamp()) * SECOND_NS + moment.microsecond * 1000


def show_time(now_ns: int) -> str:
    """As `metav1.Time` writes it: whole seconds, UTC."""
    return _shown(now_ns // SECOND_NS)


@functools.lru_cache(maxsize=1024)
def _shown(seconds: int) -> str:
    """Much happens in one second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
