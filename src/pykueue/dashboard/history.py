"""Samples of the queues, kept for hours and days, so that the page has a past after a restart.

Each ClusterQueue has its depth, its admitted workloads, how many were admitted and finished a
minute, and the mean wait of those that were admitted; each flavor and resource has its quota and
what is reserved. There are two rings: one sample every 10 seconds for an hour, and one every 5
minutes for a week. Both are written to one file in the data directory of `pykueue up` each minute
and at the end; `pykueue controller` keeps them in memory.
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
_PAUSE_STEPS = 3
_ABSENT = math.nan

Totals = Callable[[], Mapping[str, tuple[float, float, float]]]
"""Returns by ClusterQueue: workloads admitted, the sum of their waits, and workloads finished."""
_NOTHING = (0.0, 0.0, 0.0)


class Ring:
    """The latest values of named series, one value of each for every step."""

    def __init__(self, step_seconds: int, length: int) -> None:
        self.step_seconds = step_seconds
        self.length = length
        self.times: list[int] = []
        self.series: dict[str, array[float]] = {}

    def add(self, at: int, values: Mapping[str, float]) -> None:
        """What is too old is forgotten, however few values there are. A pause becomes a gap."""
        if self.times and at - self.times[-1] > _PAUSE_STEPS * self.step_seconds:
            self._append(self.times[-1] + self.step_seconds, {})
        self._append(at, values)

    def _append(self, at: int, values: Mapping[str, float]) -> None:
        """Series that have no value at any time are forgotten."""
        times = [*self.times, at][-self.length :]
        oldest = at - self.step_seconds * self.length
        self.times = times[next(index for index, time in enumerate(times) if time > oldest) :]
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

    def latest(self) -> Object:
        values = {name: _rounded(series[-1]) for name, series in self.series.items()}
        return {"at": self.times[-1], "values": values}

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
    def __init__(self, client: Client, totals: Totals, path: Path | None = None) -> None:
        """Without a path, samples are kept in memory."""
        self._client = client
        self._totals = totals
        self._path = path
        self._last_totals: Mapping[str, tuple[float, float, float]] | None = None
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
        totals = await asyncio.to_thread(self._totals)
        values = _of_queues(queues) | self._of_totals(map(objects.name, queues), totals)
        self._last_totals = totals
        self.count += 1
        self.short.add(at, values)
        if self.count % _SHORT_STEPS_OF_LONG == 0:
            self.long.add(at, _means(self.short, _SHORT_STEPS_OF_LONG))

    def _of_totals(self, names: Iterable[str], totals: Mapping[str, tuple[float, float, float]]) -> dict[str, float]:
        """Admissions and ends a minute, and the mean wait where there were admissions."""
        values: dict[str, float] = {}
        if self._last_totals is None:
            return values
        for name in names:
            earlier = self._last_totals.get(name, _NOTHING)
            changes = (max(0.0, new - old) for new, old in zip(totals.get(name, _NOTHING), earlier, strict=True))
            admissions, waits, finished = changes
            values[f"rate/{name}"] = admissions * 60 / STEP_SECONDS
            values[f"finished/{name}"] = finished * 60 / STEP_SECONDS
            if admissions:
                values[f"wait/{name}"] = waits / admissions
        return values

    def latest(self) -> Object:
        """The values of the last sample, with those of the week if it has new ones."""
        sample = self.short.latest()
        return sample | {"long": self.long.latest()} if self.count % _SHORT_STEPS_OF_LONG == 0 else sample

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
