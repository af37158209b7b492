"""Works off items, each at most once at a time, and again if it was added meanwhile. Failures are tried later."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)


class NotYetError(Exception):
    """Nothing is wrong, but it cannot be done now."""


Item = TypeVar("Item", bound=Hashable)

_AT_ONCE = 64
_RETRY_SECONDS = 1.0


class Worker(Generic[Item]):
    def __init__(self, handle: Callable[[Item], Awaitable[None]]) -> None:
        self._handle = handle
        self._waiting: dict[Item, None] = {}
        self._arrival = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def add(self, item: Item) -> None:
        self._waiting[item] = None
        self._is_idle.clear()
        self._arrival.set()

    async def idle(self) -> None:
        """Return when everything that was added has been handled."""
        await self._is_idle.wait()

    async def run(self) -> None:
        while True:
            if not self._waiting:
                self._is_idle.set()
                self._arrival.clear()
                await self._arrival.wait()
            batch = list(self._waiting)[:_AT_ONCE]
            for item in batch:
                del self._waiting[item]
            await asyncio.gather(*(self._try(item) for item in batch))

    async def _try(self, item: Item) -> None:
        try:
            await self._handle(item)
        except NotYetError as reason:
            log.debug("%s waits: %s", item, reason)
            self._add_later(item)
        except Exception:
            log.exception("%s failed, tried again in %.0f s", item, _RETRY_SECONDS)
            self._add_later(item)

    def _add_later(self, item: Item) -> None:
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.add, item)
