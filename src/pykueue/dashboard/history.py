"""Samples of the queues, kept for hours and days, so that the page has a past after a restart.

Each ClusterQueue has its depth, its admitted workloads, admissions a minute and the mean wait of
those; each flavor and resource has its quota and what is reserved. There are two rings: one sample
every 10 seconds for an hour, and one every 5 minutes for a week. Both are written to one file in
the data directory of `pykueue up` each minute and at the end; `pykueue controller` keeps them in
memory.
"""

import asyncio
import contextlib
import math
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.dashboard import rows
from pykueue.kube.client import Client

STEP_SECONDS = 10
SHORT_RING = 360
LONG_RING = 2016
_SHORT_STEPS_OF_LONG = 30
_SAVE_STEPS = 6
MOST_SERIES = 2000
_ABSENT = math.nan

Waits = Callable[[], Mapping[str, tuple[float, float]]]
"""Returns the number of admissions and the sum of their waits, by ClusterQueue."""


class Ring:
    """The latest values of named series, one value of each for every step."""

    def __init__(self, step_seconds: int, length: int) -> None:
        self.step_seconds = step_seconds
        self.length = length
        self.times: list[int] = []
        self.series: dict[str, array[float]] = {}

    def add(self, at: int, values: Mapping[str, float]) -> None:
        """Series that have no value at any time are forgotten."""
        self.times = [*self.times, at][-self.length :]
        for name in [*self.series.keys() | values.keys()]:
            values_of = self.series.get(name)
            if values_of is None:
                if len(self.series) >= MOST_SERIES:
                    continue
                values_of = self.series[name] = array("f", [_ABSENT] * (len(self.times) - 1))
            values_of.append(values.get(name, _ABSENT))
            del values_of[: len(values_of) - len(self.times)]
            if name not in values and all(map(math.isnan, values_of)):
                del self.series[name]

    def as_json(self) -> Object:
        series = {name: [_rounded(value) for value in values] for name, values in self.series.items()}
        return {"step": self.step_seconds, "times": self.times, "series": series}

    def state(self) -> Object:
        return {"times": self.times, "series": {name: values.tobytes() for name, values in self.series.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.times = [int(at) for at in state["times"]]
        self.series = {}
        for name, data in state["series"].items():
            values = array("f")
            values.frombytes(data)
            if len(values) == len(self.times):
                self.series[name] = values


class History:
    def __init__(self, client: Client, waits: Waits, path: Path | None = None) -> None:
        """Without a path, samples are kept in memory."""
        self._client = client
        self._waits = waits
        self._path = path
        self._last_waits: Mapping[str, tuple[float, float]] | None = None
        self.short = Ring(STEP_SECONDS, SHORT_RING)
        self.long = Ring(STEP_SECONDS * _SHORT_STEPS_OF_LONG, LONG_RING)
        self.count = 0
        """How many samples were taken since the start."""

    async def run(self) -> None:
        await asyncio.to_thread(self.load)
        try:
            while True:
                with contextlib.suppress(ApiError, OSError):
                    await self.sample(int(time.time()))
                if self.count % _SAVE_STEPS == 0:
                    await asyncio.to_thread(self.save)
                await asyncio.sleep(STEP_SECONDS)
        finally:
            self.save()

    async def sample(self, at: int) -> None:
        queues = (await self._client.list(resources.CLUSTER_QUEUE)).items
        waits = await asyncio.to_thread(self._waits)
        values = _of_queues(queues) | self._of_waits(map(objects.name, queues), waits)
        self._last_waits = waits
        self.count += 1
        self.short.add(at, values)
        if self.count % _SHORT_STEPS_OF_LONG == 0:
            self.long.add(at, _means(self.short, _SHORT_STEPS_OF_LONG))

    def _of_waits(self, names: Iterable[str], waits: Mapping[str, tuple[float, float]]) -> dict[str, float]:
        """Admissions a minute, and their mean wait where there were any."""
        values: dict[str, float] = {}
        if self._last_waits is None:
            return values
        for name in names:
            count, total = waits.get(name, (0.0, 0.0))
            earlier_count, earlier_total = self._last_waits.get(name, (0.0, 0.0))
            admissions = max(0.0, count - earlier_count)
            values[f"rate/{name}"] = admissions * 60 / STEP_SECONDS
            if admissions:
                values[f"wait/{name}"] = max(0.0, total - earlier_total) / admissions
        return values

    def latest(self) -> Object:
        values = {name: _rounded(series[-1]) for name, series in self.short.series.items() if series}
        return {"at": self.short.times[-1], "values": values}

    def as_json(self) -> Object:
        return {"short": self.short.as_json(), "long": self.long.as_json()}

    def load(self) -> None:
        """A file that is missing or damaged means that there is no past."""
        if self._path is None:
            return
        with contextlib.suppress(OSError, msgspec.MsgspecError, KeyError, TypeError, ValueError):
            state = msgspec.msgpack.decode(self._path.read_bytes())
            self.short.restore(state["short"])
            self.long.restore(state["long"])

    def save(self) -> None:
        if self._path is None:
            return
        data = msgspec.msgpack.encode({"short": self.short.state(), "long": self.long.state()})
        temporary = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            temporary.touch(mode=0o600)
            temporary.write_bytes(data)
            temporary.replace(self._path)


def _of_queues(queues: Iterable[Object]) -> dict[str, float]:
    values: dict[str, float] = {}
    for obj in queues:
        row = rows.cluster_queue(obj)
        values[f"pending/{row['name']}"] = float(row["pending"])
        values[f"admitted/{row['name']}"] = float(row["admitted"])
        for flavor, resource, nominal, _borrowing, _lending, reserved, *_rest in row["quota"]:
            for prefix, amount in (("quota", nominal), ("reserved", reserved)):
                name = f"{prefix}/{flavor}/{resource}"
                values[name] = values.get(name, 0.0) + amount
    return values


def _means(ring: Ring, count: int) -> dict[str, float]:
    means = {}
    for name, series in ring.series.items():
        values = [value for value in series[-count:] if not math.isnan(value)]
        if values:
            means[name] = sum(values) / len(values)
    return means


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.4g}")
