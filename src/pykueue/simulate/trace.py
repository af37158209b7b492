"""What happened in a run: counts, the last lines, and a digest that two equal runs share."""

import zlib
from collections import Counter, deque

from pykueue.api.times import SECOND_NS
from pykueue.simulate.event_loop import SimulationLoop

_LAST_LINES = 400


class Trace:
    def __init__(self, loop: SimulationLoop, *, keeps_all: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: deque[str] = deque(maxlen=None if keeps_all else _LAST_LINES)
        self._loop = loop
        self._digest = 0

    def add(self, what: str, about: str = "") -> None:
        """Note that something happened; `what` is counted."""
        self.counts[what] += 1
        line = f"{self._loop.steps:>8} {self._loop.now_ns / SECOND_NS:>12.6f}s {what} {about}"
        self.lines.append(line)
        self._digest = zlib.crc32(line.encode(), self._digest)

    @property
    def digest(self) -> str:
        return f"{self._digest:08x}"
