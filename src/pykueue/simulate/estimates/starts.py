"""Plays what is queued and running forward, several times, until Workloads start.

Each run draws how long every job runs, and lets jobs arrive as they arrived lately, each time
shifted by another part of that time. The starts of all runs give the error bar. Jobs whose run
time nobody knows never end: if a Workload cannot start without their quota, its estimate is
unknown and names one of them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from pykueue.api import times
from pykueue.api.times import SECOND_NS
from pykueue.engine import events, values
from pykueue.engine.engine import Engine
from pykueue.simulate.engine_driver.jobs import UNKNOWN_NS
from pykueue.simulate.engine_driver.simulation import Simulation
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.estimates.run_times import RemainingTime
from pykueue.translate import explanations

RUNS = 15
FEWEST_RUNS = 7
_ENOUGH_CYCLES = 1500
"""After so many scheduling cycles in all, the fewest runs are enough: a user waits for them."""
MOST_PENDING = 200
MOST_RUNNING = 1000
MOST_ARRIVALS = 100
_FEWEST_ARRIVALS = 10
_LONGEST_SPAN_NS = 86400 * SECOND_NS
_MOST_STEPS = 2000
_HORIZON_NS = 90 * 86400 * SECOND_NS
_QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
_UNKNOWN = RemainingTime()

Remaining = Mapping[values.WorkloadKey, RemainingTime]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A job that arrived lately, and how long ago: one like it may arrive again."""

    prototype: values.Workload
    ago_ns: int
    time: RemainingTime


class RecentArrivals(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a span of time up to now; without any, no job arrives."""

    jobs: Sequence[Arrival] = ()
    span_ns: int = 0

    @classmethod
    def of(cls, jobs: Sequence[Arrival]) -> Self:
        """The latest jobs of the last day, if they are enough to say how often jobs arrive."""
        latest = sorted((job for job in jobs if job.ago_ns <= _LONGEST_SPAN_NS), key=lambda job: job.ago_ns)
        latest = latest[:MOST_ARRIVALS]
        return cls(jobs=latest, span_ns=latest[-1].ago_ns + 1) if len(latest) >= _FEWEST_ARRIVALS else cls()


class EstimatedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The waits of all runs in order, or why they are unknown."""

    now_ns: int
    waits_ns: tuple[int, ...] = ()
    unknown: str = ""
    endless: values.WorkloadKey | None = None
    """The job whose run time nobody knows, if that is why."""

    def hiding(self, namespace: str) -> Self:
        """The estimate without the name of a Workload outside the namespace."""
        if self.endless is None or self.endless.startswith(f"{namespace}/"):
            return self
        return replace(self, unknown=self.unknown.replace(self.endless, explanations.ELSEWHERE), endless=None)

    def quantile_ns(self, share: float) -> int:
        """The wait that this share of the runs does not exceed."""
        return self.waits_ns[round(share * len(self.waits_ns) - 0.5)]

    def as_json(self) -> dict[str, Any]:
        if self.unknown:
            return {"unknown": self.unknown}
        return {name: times.from_ns(self.now_ns + self.quantile_ns(share)) for name, share in _QUANTILES.items()}


def text(estimated_start: Mapping[str, str], now_ns: int) -> str:
    """The line of `pykueue explain`, from the JSON of an estimate."""
    if "unknown" in estimated_start:
        return f"Estimated start: unknown, because {estimated_start['unknown']}"
    first, middle, last = _ages(estimated_start, now_ns)
    if last == "0s":
        return "Estimated start: at once"
    if first == last:
        return f"Estimated start: in about {middle}"
    return f"Estimated start: in about {middle} (between {first} and {last} in nine of ten cases)"


def short_text(estimated_start: Mapping[str, str], now_ns: int) -> str:
    """The cell of a table: `at once`, `12m`, or with its bar `12m (5m-40m)`."""
    first, middle, last = _ages(estimated_start, now_ns)
    if last == "0s":
        return "at once"
    return middle if first == last else f"{middle} ({first}-{last})"


def _ages(estimated_start: Mapping[str, str], now_ns: int) -> list[str]:
    times_ns = (times.to_ns(estimated_start[name]) for name in ("p05", "p50", "p95"))
    return [explanations.age(max(0, at_ns - now_ns)) for at_ns in times_ns]


def estimate(
    engine: Engine,
    key: values.WorkloadKey,
    remaining: Remaining,
    *,
    now_ns: int,
    configuration: Mapping[str, Any] | None = None,
    recent: RecentArrivals | None = None,
) -> EstimatedStart:
    """When a pending Workload starts. The engine is copied and keeps its state."""
    base = engine.fork()
    workloads = _related(base, key, now_ns)
    keys = [key]
    return _estimates(base, workloads, keys, remaining, now_ns=now_ns, configuration=configuration, recent=recent)[key]


def estimate_all(
    engine: Engine,
    remaining: Remaining,
    *,
    now_ns: int,
    configuration: Mapping[str, Any] | None = None,
    recent: RecentArrivals | None = None,
) -> dict[values.WorkloadKey, EstimatedStart]:
    """When all pending Workloads of an engine start, in one set of runs."""
    view = engine.view
    unordered = [workload for key in view.workload_keys() if (workload := view.workload(key)) is not None]
    workloads = sorted(unordered, key=_order)
    keys = [workload.key for workload in workloads if workload.admission is None]
    return _estimates(engine, workloads, keys, remaining, now_ns=now_ns, configuration=configuration, recent=recent)


def _estimates(
    base: Engine,
    workloads: list[values.Workload],
    keys: Sequence[values.WorkloadKey],
    remaining: Remaining,
    *,
    now_ns: int,
    configuration: Mapping[str, Any] | None,
    recent: RecentArrivals | None,
) -> dict[values.WorkloadKey, EstimatedStart]:
    pending_count = sum(workload.admission is None for workload in workloads)
    if pending_count > MOST_PENDING or len(workloads) - pending_count > MOST_RUNNING:
        unknown = f"too many jobs share its quota ({len(workloads)})"
        return {key: EstimatedStart(now_ns=now_ns, unknown=unknown) for key in keys}
    shares = {workload.key: _shares(workload.uid) for workload in workloads}
    waits_ns: dict[values.WorkloadKey, list[int]] = {key: [] for key in keys}
    starts: dict[values.WorkloadKey, EstimatedStart] = {}
    cycles = 0
    for number in range(RUNS):
        if number >= FEWEST_RUNS and cycles > _ENOUGH_CYCLES:
            break
        simulation = Simulation(World.forked(base, configuration, now_ns=now_ns))
        for workload in workloads:
            time = remaining.get(workload.key, _UNKNOWN)
            simulation.adopt(workload, run_ns=time.draw_ns(shares[workload.key][number]))
        _add_arrivals(simulation, recent or RecentArrivals(), number)
        start_ns = _starts_ns(simulation, keys)
        for key in waits_ns.keys() - start_ns.keys():
            starts[key] = _unknown(simulation, key, now_ns)
            del waits_ns[key]
        for key, waits in waits_ns.items():
            waits.append(start_ns[key] - now_ns)
        cycles += simulation.cycle_count
        if not waits_ns:
            break
    for key, waits in waits_ns.items():
        starts[key] = EstimatedStart(now_ns=now_ns, waits_ns=tuple(sorted(waits)))
    return starts


def _add_arrivals(simulation: Simulation, recent: RecentArrivals, number: int) -> None:
    """Let the jobs of the last span arrive in the next one, in each run with another shift."""
    now_ns, span_ns = simulation.now_ns, recent.span_ns
    for position, arrival in enumerate(recent.jobs):
        after_ns = (span_ns - arrival.ago_ns + span_ns * number // RUNS) % span_ns
        share = _shares(f"later-{position}")[number]
        name = f"later-{position}"
        run_ns = arrival.time.draw_ns(share)
        simulation.submit(arrival.prototype, run_ns=run_ns, at_ns=now_ns + max(1, after_ns), name=name)


def _related(engine: Engine, key: values.WorkloadKey, now_ns: int) -> list[values.Workload]:
    """The Workloads that share quota with this one, in a total order; all others are removed."""
    view = engine.view
    own_queue = view.cluster_queue_of(key)
    own_tree = None if own_queue is None else view.tree_of(own_queue)
    workloads = []
    for other in view.workload_keys():
        queue, workload = view.cluster_queue_of(other), view.workload(other)
        if workload is None:
            continue
        if queue is not None and view.tree_of(queue) == own_tree and not workload.finished:
            workloads.append(workload)
        else:
            engine.handle(events.WorkloadGone(at_ns=now_ns, key=other))
    return sorted(workloads, key=_order)


def _order(workload: values.Workload) -> tuple[int, str]:
    return workload.created_at_ns, workload.key


def _shares(uid: str) -> list[float]:
    """For each run, which of its possible run times a Workload has: from 0 to 1, evenly spread.

    The order differs between Workloads and is always the same for one.
    """

    def digest(number: int) -> bytes:
        return hashlib.blake2b(f"{number} {uid}".encode(), digest_size=8).digest()

    return [(place + 0.5) / RUNS for place in sorted(range(RUNS), key=digest)]


def _starts_ns(simulation: Simulation, keys: Sequence[values.WorkloadKey]) -> dict[values.WorkloadKey, int]:
    """When each of the Workloads first started, if it did."""
    steps = 0
    waiting = set(keys)
    starts_ns: dict[values.WorkloadKey, int] = {}

    def is_over() -> bool:
        nonlocal steps
        steps += 1
        for key in [key for key in waiting if (job := simulation.runs.get(key)) is None or job.started_ns is not None]:
            waiting.remove(key)
            job = simulation.runs.get(key)
            if job is not None and job.started_ns is not None:
                starts_ns[key] = job.started_ns
        return not waiting or steps >= _MOST_STEPS

    simulation.run(simulation.now_ns + _HORIZON_NS, stop=is_over)
    return starts_ns


def _unknown(simulation: Simulation, key: values.WorkloadKey, now_ns: int) -> EstimatedStart:
    endless = sorted(
        job.key
        for job in simulation.runs.values()
        if job.left_ns == UNKNOWN_NS and job.started_ns is not None and job.key != key
    )
    if endless:
        more = f" (nor {len(endless) - 1} more)" if len(endless) > 1 else ""
        unknown = (
            f"nobody knows how long {endless[0]}{more} will run: it has no time limit, and too few jobs like it"
            " have finished after as long a time"
        )
        return EstimatedStart(now_ns=now_ns, unknown=unknown, endless=endless[0])
    if simulation.next_ns() is not None:
        return EstimatedStart(now_ns=now_ns, unknown="too much happens before it in a simulation of what is queued")
    unknown = "it does not start in a simulation of what is queued, even when nothing else runs"
    return EstimatedStart(now_ns=now_ns, unknown=unknown)
