"""Background writes: what a reader can wait for, written while there is room for it.

Reasons of pending Workloads and statuses of queues change with every decision, and only the latest
matters to a reader. While little is written, and when decisions have come to rest, each is written
at once. Under load they get a small rate and a share of the writes of decisions; what has no room
waits here, the latest for each key, in the order in which the keys arrived. Slow answers of the
API lower the rate, so decisions never wait behind what explains them.
"""

import asyncio
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock
from pykueue.kube.controller.work_queue import first_of

BURST = 60.0
SHARE = 0.1
"""The background writes that each write of a decision makes room for."""
BUSY_RATE = 10.0
"""Background writes a second while decisions are written."""
REST_RATE = 1000.0
"""Background writes a second when decisions have come to rest."""
REST_NS = SECOND_NS // 10
"""So long after the last decision things are at rest, if changes are few and answers fast."""
MANY_CHANGES = 10.0
"""With more decisions and arrivals a second than this, rest begins later, in proportion."""
LONGEST_REST_NS = SECOND_NS
"""Rest begins no later than this after the last decision, if answers are fast."""
LONGEST_BUSY_NS = 60 * SECOND_NS
"""A time that stays busy for longer than this shows that the clock was set back."""
REST_ANSWERS = 4
"""Things are at rest only after the time of so many answers: a busy machine also pauses."""
SLOW_SECONDS = 0.25
"""Slower answers than this lower both rates."""
LOWEST_RATE = 0.5
KEY_BURST = 3.0
"""Writes of one key in a row; a key that keeps changing is then written once a second."""
KEY_RATE = 1.0
KEY_PAUSE_SECONDS = 0.05
MOST_REMEMBERED = 4096

Start = Callable[[], object]
"""Begins the write of a key; it does not wait for the answer."""


@dataclass(slots=True)
class _Bucket:
    """A token bucket: how many writes there is room for."""

    size: float
    tokens: float
    filled_ns: int

    def fill(self, rate: float, now_ns: int) -> None:
        passed_ns = max(0, now_ns - self.filled_ns)  # the clock may be set back
        self.tokens = min(self.size, self.tokens + rate * passed_ns / SECOND_NS)
        self.filled_ns = now_ns


class BackgroundWrites:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = _Bucket(BURST, BURST, clock.now_ns())
        self._keys: dict[Hashable, _Bucket] = {}
        self._in_flight = 0
        self._recent_changes = 0.0
        """Decisions and arrivals of the last second: each counts less with its age."""
        self._last_change_ns = 0
        self._busy_until_ns = 0
        self._answer_seconds = 0.0
        self._waiting: dict[Hashable, Start] = {}
        self._is_short = False
        """Some keys wait for room, not only for their own next write: later ones queue up."""
        self._changed = asyncio.Event()

    # The writes of decisions

    def decided(self) -> None:
        """A decision is about to be written; `written` follows."""
        self._fill()
        self._all.tokens = min(BURST, self._all.tokens + SHARE)
        self._in_flight += 1
        self._count_change()

    def arrived(self) -> None:
        """A Workload arrived. Between two decisions a stream of arrivals is no rest."""
        self._count_change()

    def _count_change(self) -> None:
        now_ns = self._clock.now_ns()
        age_seconds = max(0, now_ns - self._last_change_ns) / SECOND_NS
        self._recent_changes = self._recent_changes * math.exp(-age_seconds) + 1
        self._last_change_ns = now_ns

    def written(self) -> None:
        """The write of a decision has ended."""
        self._fill()
        self._in_flight -= 1
        rest_ns = min(LONGEST_REST_NS, int(REST_NS * max(1.0, self._recent_changes / MANY_CHANGES)))
        self._stay_busy(max(rest_ns, int(REST_ANSWERS * self._answer_seconds * SECOND_NS)))

    def paused(self, pause_ns: int) -> None:
        """The next decisions may come after this time. A long pause follows many decisions."""
        if pause_ns >= REST_NS:
            self._fill()
            self._stay_busy(pause_ns + REST_NS)

    def _stay_busy(self, time_ns: int) -> None:
        now_ns = self._clock.now_ns()
        until_ns = now_ns + min(time_ns, LONGEST_BUSY_NS)
        self._busy_until_ns = max(until_ns, self._busy_until_ns if self._is_busy(now_ns) else 0)

    def answered(self, seconds: float) -> None:
        """The API took so long to answer a write."""
        self._answer_seconds += (seconds - self._answer_seconds) / 8

    # Background writes

    def submit(self, key: Hashable, start: Start) -> None:
        """Begin the write now or when there is room for it; a later one of the key replaces it."""
        if not self._is_short and key not in self._waiting and self._has_tokens(key):
            self._begin(key, start)
        else:
            self._waiting[key] = start
            self._is_short = self._is_short or self._all.tokens < 1
            if len(self._waiting) == 1:
                self._changed.set()

    def is_waiting(self, key: Hashable) -> bool:
        return key in self._waiting

    def unused(self, key: Hashable) -> None:
        """The write that began for this key had nothing to change."""
        self._all.tokens += 1
        if key in self._keys:
            self._keys[key].tokens += 1

    def charge(self) -> None:
        """A background write brought about another one."""
        self._all.tokens -= 1

    def drop(self, key: Hashable) -> None:
        """What waits for this key is no longer true."""
        self._waiting.pop(key, None)

    async def run(self) -> None:
        """Begin the waiting writes, the oldest first, as room comes."""
        while True:
            self._changed.clear()
            self._begin_waiting()
            await first_of(self._changed, self._clock, self._pause_seconds() if self._waiting else None)

    def _begin_waiting(self) -> None:
        self._fill()
        self._is_short = False
        for key in list(self._waiting):
            if self._all.tokens < 1:
                self._is_short = True
                return
            if self._has_tokens(key):
                self._begin(key, self._waiting.pop(key))

    def _begin(self, key: Hashable, start: Start) -> None:
        now_ns = self._clock.now_ns()
        self._all.tokens -= 1
        bucket = self._keys.get(key)
        if bucket is None:
            bucket = self._keys[key] = _Bucket(KEY_BURST, KEY_BURST, now_ns)
        bucket.tokens -= 1
        if len(self._keys) > MOST_REMEMBERED:
            self._forget_full_buckets(now_ns)
        start()

    def _forget_full_buckets(self, now_ns: int) -> None:
        for bucket in self._keys.values():
            bucket.fill(KEY_RATE, now_ns)
        self._keys = {key: bucket for key, bucket in self._keys.items() if bucket.tokens < bucket.size}

    # Room

    def _has_tokens(self, key: Hashable) -> bool:
        self._fill()
        bucket = self._keys.get(key)
        if bucket is not None:
            bucket.fill(KEY_RATE, self._clock.now_ns())
        return self._all.tokens >= 1 and (bucket is None or bucket.tokens >= 1)

    def _fill(self) -> None:
        self._all.fill(self._rate(), self._clock.now_ns())

    def _rate(self) -> float:
        is_busy = self._in_flight > 0 or self._is_busy(self._clock.now_ns())
        rate = BUSY_RATE if is_busy else REST_RATE
        if self._answer_seconds > SLOW_SECONDS:
            rate *= SLOW_SECONDS / self._answer_seconds
        return max(rate, LOWEST_RATE)

    def _is_busy(self, now_ns: int) -> bool:
        return 0 < self._busy_until_ns - now_ns <= LONGEST_BUSY_NS

    def _pause_seconds(self) -> float:
        """Until there may be room, but soon enough to notice that things have come to rest."""
        return REST_NS / SECOND_NS if self._all.tokens < 1 else KEY_PAUSE_SECONDS
