"""Plays what is queued and running forward, several times, until the Workload starts.

Each run draws how long every job runs. The starts of all runs give the error bar. Jobs whose run
time nobody knows never end: if the Workload cannot start without their quota, the estimate is
unknown and names one of them. Jobs that arrive later are unknown, too, and left out.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_MOST_STEPS = 2000
_HORIZON_NS = 90 * 86400 * SECOND_NS
_QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
_UNKNOWN = RemainingTime()

Remaining = Mapping[values.WorkloadKey, RemainingTime]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedStart:
    """The waits of all runs in order, or why they are unknown."""

    now_ns: int
    waits_ns: tuple[int, ...] = ()
    unknown: str = ""

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
    waits_ns = [max(0, times.to_ns(estimated_start[name]) - now_ns) for name in ("p05", "p50", "p95")]
    first, middle, last = map(explanations.age, waits_ns)
    if last == "0s":
        return "Estimated start: at once"
    if first == last:
        return f"Estimated start: in about {middle}"
    return f"Estimated start: in about {middle} (between {first} and {last} in nine of ten cases)"


def estimate(
    engine: Engine,
    key: values.WorkloadKey,
    remaining: Remaining,
    *,
    now_ns: int,
    configuration: Mapping[str, Any] | None = None,
) -> EstimatedStart:
    """When a pending Workload starts. The engine is copied and keeps its state."""
    base = engine.fork()
    workloads = _related(base, key, now_ns)
    pending_count = sum(workload.admission is None for workload in workloads)
    if pending_count > MOST_PENDING or len(workloads) - pending_count > MOST_RUNNING:
        return EstimatedStart(now_ns=now_ns, unknown=f"too many jobs share its quota ({len(workloads)})")
    shares = {workload.key: _shares(workload.uid) for workload in workloads}
    waits_ns = []
    cycles = 0
    for number in range(RUNS):
        if number >= FEWEST_RUNS and cycles > _ENOUGH_CYCLES:
            break
        simulation = Simulation(World.forked(base, configuration, now_ns=now_ns))
        for workload in workloads:
            time = remaining.get(workload.key, _UNKNOWN)
            simulation.adopt(workload, run_ns=time.draw_ns(shares[workload.key][number]))
        start_ns = _start_ns(simulation, key)
        if start_ns is None:
            return EstimatedStart(now_ns=now_ns, unknown=_why_unknown(simulation, key))
        waits_ns.append(start_ns - now_ns)
        cycles += simulation.cycle_count
    return EstimatedStart(now_ns=now_ns, waits_ns=tuple(sorted(waits_ns)))


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
    return sorted(workloads, key=lambda workload: (workload.created_at_ns, workload.key))


def _shares(uid: str) -> list[float]:
    """For each run, which of its possible run times a Workload has: from 0 to 1, evenly spread.

    The order differs between Workloads and is always the same for one.
    """

    def digest(number: int) -> bytes:
        return hashlib.blake2b(f"{number} {uid}".encode(), digest_size=8).digest()

    return [(place + 0.5) / RUNS for place in sorted(range(RUNS), key=digest)]


def _start_ns(simulation: Simulation, key: values.WorkloadKey) -> int | None:
    steps = 0
    start_ns: int | None = None

    def is_over() -> bool:
        nonlocal steps, start_ns
        steps += 1
        job = simulation.runs.get(key)
        start_ns = None if job is None else job.started_ns
        return job is None or start_ns is not None or steps >= _MOST_STEPS

    simulation.run(simulation.now_ns + _HORIZON_NS, stop=is_over)
    return start_ns


def _why_unknown(simulation: Simulation, key: values.WorkloadKey) -> str:
    endless = sorted(
        job.key
        for job in simulation.runs.values()
        if job.left_ns == UNKNOWN_NS and job.started_ns is not None and job.key != key
    )
    if endless:
        more = f" (nor {len(endless) - 1} more)" if len(endless) > 1 else ""
        return (
            f"nobody knows how long {endless[0]}{more} will run: it has no time limit, and too few jobs like it"
            " have finished after as long a time"
        )
    if simulation.next_ns() is not None:
        return "too much happens before it in a simulation of what is queued"
    return "it does not start in a simulation of what is queued, even when nothing else runs"
