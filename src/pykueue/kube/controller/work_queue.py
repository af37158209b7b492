"""The queue of keys that a controller reconciles: cache handlers add keys, `run` takes them out.

A key is in the queue once and is never reconciled twice at a time. A key that failed is retried
after a growing pause.
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

MOST_OUTDATED = 256

FAILURES_LOGGED = frozenset(10 << step for step in range(16))
"""A key that meets conflicts or missing objects is logged after so many failures in a row."""

Reconcile = Callable[[KeyType], Awaitable[int]]
"""Reconciles one key and returns `requeue_after_ns`; 0 means: when something changes."""


class WorkQueue(Generic[KeyType]):
    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._ready: dict[KeyType, None] = {}
        self._busy: set[KeyType] = set()
        self._added_while_busy: set[KeyType] = set()
        self._due: dict[KeyType, int] = {}
        self._heap: list[tuple[int, int, KeyType]] = []
        self._sequence = 0
        self._failures: dict[KeyType, int] = {}
        self._keys_ready = asyncio.Semaphore(0)
        """Counts the ready keys; each wakes one worker."""
        self._scheduled = asyncio.Event()
        self._idle_waiters: list[asyncio.Future[None]] = []

    def add(self, key: KeyType) -> None:
        if key in self._busy:
            self._added_while_busy.add(key)
        elif key not in self._ready:
            self._ready[key] = None
            self._keys_ready.release()

    def add_after(self, key: KeyType, pause_ns: int) -> None:
        """Add the key after a pause, which replaces an earlier pause of the key."""
        due_ns = self._clock.now_ns() + pause_ns
        self._due[key] = due_ns
        self._sequence += 1
        heapq.heappush(self._heap, (due_ns, self._sequence, key))
        if self._heap[0][1] == self._sequence:  # due before all others
            self._scheduled.set()
        self._drop_outdated()

    def add_unless_due(self, key: KeyType, pause_ns: int) -> None:
        """Add the key after a pause, unless it is due sooner: many changes are reconciled once."""
        if key not in self._due or self._due[key] > self._clock.now_ns() + pause_ns:
            self.add_after(key, pause_ns)

    def forget(self, key: KeyType) -> None:
        """End the pause of a key whose object is gone: it may be long, and such keys are many."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Remove ended and replaced pauses from the heap when they are most of it."""
        if len(self._heap) - len(self._due) > max(len(self._due), MOST_OUTDATED):
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    @property
    def is_idle(self) -> bool:
        return not self._ready and not self._busy

    async def idle(self) -> None:
        """Wait until all keys are reconciled; keys that wait for a pause do not count."""
        if not self.is_idle:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    async def run(self, reconcile: Reconcile[KeyType], *, workers: int = 8) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._add_due_keys())
            for _ in range(workers):
                group.create_task(self._work(reconcile))

    async def _work(self, reconcile: Reconcile[KeyType]) -> None:
        while True:
            await self._keys_ready.acquire()
            key = next(iter(self._ready))
            del self._ready[key]
            self._busy.add(key)
            try:
                await self._reconcile(reconcile, key)
            finally:
                self._busy.discard(key)
                if key in self._added_while_busy:
                    self._added_while_busy.discard(key)
                    self.add(key)
                if self._idle_waiters and self.is_idle:
                    self._notify_idle()
            await asyncio.sleep(0)  # others want their turns, and a reconcile may never pause

    def _notify_idle(self) -> None:
        for waiter in self._idle_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._idle_waiters.clear()

    async def _reconcile(self, reconcile: Reconcile[KeyType], key: KeyType) -> None:
        try:
            requeue_after_ns = await reconcile(key)
        except ApiError as error:
            self._retry(key)
            if error.code not in (404, 409) or self._failures[key] in FAILURES_LOGGED:
                log.warning("%s %s: %s", self._name, key, error.message)
        except Exception:
            log.exception("%s %s", self._name, key)
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if requeue_after_ns > 0:  # what changed meanwhile may be due sooner
                self.add_unless_due(key, requeue_after_ns)

    def _retry(self, key: KeyType) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_PAUSE_NS << min(failures, 20), LONGEST_PAUSE_NS))

    async def _add_due_keys(self) -> None:
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
    """Wait until the event is set, or until so many seconds have passed."""
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
