"""Keys to look at again: each once, never two at a time, later if asked, with growing pauses after failures.

What a controller reconciles from: informer handlers put keys in, `run` takes them out.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from pykueue.api.errors import ApiError
from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock

log = logging.getLogger(__name__)

KeyType = TypeVar("KeyType", bound=Hashable)

FIRST_PAUSE_NS = 5_000_000
LONGEST_PAUSE_NS = 30 * SECOND_NS

Reconcile = Callable[[KeyType], Awaitable[int]]
"""Brings one object a step further; answers after how many nanoseconds to look again, 0 for when something changes."""


class WorkQueue(Generic[KeyType]):
    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._ready: dict[KeyType, None] = {}
        self._busy: set[KeyType] = set()
        self._again: set[KeyType] = set()
        """Touched while busy."""
        self._due: dict[KeyType, int] = {}
        self._heap: list[tuple[int, int, KeyType]] = []
        self._sequence = 0
        self._failures: dict[KeyType, int] = {}
        self._keys_ready = asyncio.Semaphore(0)
        """As many as are ready: each wakes one worker."""
        self._scheduled = asyncio.Event()

    def add(self, key: KeyType) -> None:
        if key in self._busy:
            self._again.add(key)
        elif key not in self._ready:
            self._ready[key] = None
            self._keys_ready.release()

    def add_after(self, key: KeyType, pause_ns: int) -> None:
        """Replaces an earlier appointment of the key."""
        due_ns = self._clock.now_ns() + pause_ns
        self._due[key] = due_ns
        self._sequence += 1
        heapq.heappush(self._heap, (due_ns, self._sequence, key))
        self._scheduled.set()

    def add_unless_due(self, key: KeyType, pause_ns: int) -> None:
        """Looked at once in a while, however often it is touched."""
        if key not in self._due:
            self.add_after(key, pause_ns)

    @property
    def is_idle(self) -> bool:
        return not self._ready and not self._busy

    async def run(self, reconcile: Reconcile[KeyType], *, workers: int = 8) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_the_clock())
            for _ in range(workers):
                group.create_task(self._work(reconcile))

    async def _work(self, reconcile: Reconcile[KeyType]) -> None:
        while True:
            await self._keys_ready.acquire()
            key = next(iter(self._ready))
            del self._ready[key]
            self._busy.add(key)
            try:
                await self._once(reconcile, key)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _once(self, reconcile: Reconcile[KeyType], key: KeyType) -> None:
        try:
            requeue_after_ns = await reconcile(key)
        except ApiError as error:
            if error.code not in (404, 409):
                log.warning("%s %s: %s", self._name, key, error.message)
            self._retry(key)
        except Exception:
            log.exception("%s %s", self._name, key)
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if requeue_after_ns > 0:
                self.add_after(key, requeue_after_ns)

    def _retry(self, key: KeyType) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_PAUSE_NS << min(failures, 20), LONGEST_PAUSE_NS))

    async def _watch_the_clock(self) -> None:
        while True:
            now_ns = self._clock.now_ns()
            while self._heap and self._heap[0][0] <= now_ns:
                due_ns, _, key = heapq.heappop(self._heap)
                if self._due.get(key) == due_ns:
                    del self._due[key]
                    self.add(key)
            self._scheduled.clear()
            pause = (self._heap[0][0] - now_ns) / SECOND_NS if self._heap else None
            await first_of(self._scheduled, self._clock, pause)


async def first_of(event: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Until the event is set, or so many seconds have passed."""
    if seconds is None:
        await event.wait()
        return
    waiting = asyncio.ensure_future(event.wait())
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        sleeping.cancel()
