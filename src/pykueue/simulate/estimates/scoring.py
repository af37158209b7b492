"""How good estimated starts are: compared with what then happened in a simulation.

Run times are learned from the first half of the jobs, as each of them ends. Jobs of the second
half are estimated when they arrive, with what is queued and running at that time.
"""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.engine_driver.simulation import JobRun, Simulation
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.estimates import starts
from pykueue.simulate.estimates.run_times import JobTraits, RemainingTime, RunTimes, name_prefix
from pykueue.simulate.estimates.starts import MOST_ARRIVALS, Arrival, EstimatedStart, RecentArrivals
from pykueue.simulate.planning import SimulationPlan
from pykueue.simulate.report import text

MOST_SCORED = 200


class ScoredJob(msgspec.Struct, frozen=True, kw_only=True):
    estimate: EstimatedStart
    wait_ns: int

    def is_within(self, first: float, last: float) -> bool:
        return self.estimate.quantile_ns(first) <= self.wait_ns <= self.estimate.quantile_ns(last)


def score(plan: SimulationPlan) -> dict[str, Any]:
    """The coverage of the bars and the error of the median: of all jobs, of those that waited."""
    observer = _Scorer(plan)
    observer.simulation.run(plan.until_ns)
    jobs = [
        ScoredJob(estimate=estimate, wait_ns=observer.start_ns[number] - estimate.now_ns)
        for number, estimate in sorted(observer.estimates.items())
        if number in observer.start_ns
    ]
    estimated = [job for job in jobs if not job.estimate.unknown]
    return {
        "jobs": len(plan.jobs),
        "scored": len(jobs),
        "unknown": len(jobs) - len(estimated),
        "all": _figures(estimated),
        "waited": _figures([job for job in estimated if job.wait_ns > 0]),
    }


def _figures(jobs: list[ScoredJob]) -> dict[str, Any]:
    if not jobs:
        return {"jobs": 0}
    errors = [abs(job.estimate.quantile_ns(0.5) - job.wait_ns) / SECOND_NS for job in jobs]
    return {
        "jobs": len(jobs),
        "coverage50": round(sum(job.is_within(0.25, 0.75) for job in jobs) / len(jobs), 3),
        "coverage90": round(sum(job.is_within(0.05, 0.95) for job in jobs) / len(jobs), 3),
        "startedLater": round(sum(job.wait_ns > job.estimate.quantile_ns(0.95) for job in jobs) / len(jobs), 3),
        "medianErrorSeconds": round(statistics.median(errors), 1),
        "medianWaitSeconds": round(statistics.median(job.wait_ns / SECOND_NS for job in jobs), 1),
    }


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    yield f"{figures['scored']} of {figures['jobs']} jobs were estimated when they arrived, {figures['unknown']} of them as unknown."
    rows = []
    for title, key in (("all", "all"), ("that waited", "waited")):
        row = figures[key]
        if row["jobs"]:
            rows.append(
                (
                    title,
                    str(row["jobs"]),
                    text.percent(row["coverage50"]),
                    text.percent(row["coverage90"]),
                    text.percent(row["startedLater"]),
                    text.duration(row["medianErrorSeconds"]),
                    text.duration(row["medianWaitSeconds"]),
                )
            )
    columns = ("ESTIMATED", "JOBS", "IN 50% BAR", "IN 90% BAR", "AFTER 90% BAR", "MEDIAN ERROR", "MEDIAN WAIT")
    yield from text.table(columns, rows)


class _Scorer:
    """An observer that learns from the first half of the jobs and estimates the second."""

    def __init__(self, plan: SimulationPlan) -> None:
        self._plan = plan
        self._learned = RunTimes()
        order = list(plan.jobs.in_order_of_arrival())
        half = len(order) // 2
        self._order = order
        self._place = {number: place for place, number in enumerate(order)}
        self._first = frozenset(order[:half])
        step = max(1, -(-(len(order) - half) // MOST_SCORED))
        self._scored = frozenset(order[half::step])
        self.estimates: dict[int, EstimatedStart] = {}
        self.start_ns: dict[int, int] = {}
        world = World.from_objects(plan.objects, plan.configuration)
        self.simulation = Simulation(world, plan.jobs, options=plan.options, observer=self)

    def queued(self, job: JobRun, at_ns: int) -> None:
        """Estimate the job when it arrives; an evicted job is queued again and not estimated."""
        if job.number not in self._scored or job.number in self.estimates:
            return
        runs = self.simulation.runs.values()
        self._learned.set_running(
            (_traits(self._plan.jobs, run.number), at_ns - run.started_ns) for run in runs if run.started_ns is not None
        )
        self.estimates[job.number] = starts.estimate(
            self.simulation.engine,
            job.key,
            {run.key: self._remaining(run, at_ns) for run in runs},
            now_ns=at_ns,
            configuration=self._plan.configuration,
            recent=self._recent_arrivals(job.number, at_ns),
        )

    def _recent_arrivals(self, until: int, at_ns: int) -> RecentArrivals:
        """The jobs that arrived before this one."""
        jobs = self._plan.jobs
        place = self._place[until]
        return RecentArrivals.of(
            [
                Arrival(
                    prototype=jobs.prototype(number),
                    ago_ns=at_ns - jobs.submit_ns[number],
                    time=RemainingTime(
                        samples_ns=tuple(self._learned.samples_ns(_traits(jobs, number))),
                        limit_ns=jobs.limits_ns[jobs.template[number]],
                    ),
                )
                for number in self._order[max(0, place - MOST_ARRIVALS) : place]
            ]
        )

    def _remaining(self, run: JobRun, at_ns: int) -> RemainingTime:
        jobs = self._plan.jobs
        elapsed_ns = 0 if run.started_ns is None else at_ns - run.started_ns
        limit_ns = jobs.limits_ns[jobs.template[run.number]]
        return RemainingTime(
            samples_ns=tuple(self._learned.samples_ns(_traits(jobs, run.number), longer_than_ns=elapsed_ns)),
            elapsed_ns=elapsed_ns,
            limit_ns=None if limit_ns is None else max(0, limit_ns - run.past_ns),
        )

    def reserved(self, job: JobRun, at_ns: int) -> None:
        """Nothing to keep."""

    def started(self, job: JobRun, at_ns: int) -> None:
        self.start_ns.setdefault(job.number, at_ns)

    def evicted(self, job: JobRun, at_ns: int, *, reason: str, by: values.WorkloadKey | None, lost_ns: int) -> None:
        """Nothing to keep."""

    def released(self, job: JobRun, at_ns: int) -> None:
        """Nothing to keep."""

    def ended(self, job: JobRun, at_ns: int, *, how: str) -> None:
        """Learn how long the job ran in the end, as its conditions would say."""
        if job.number in self._first and how in ("finished", "stopped") and job.started_ns is not None:
            self._learned.add(_traits(self._plan.jobs, job.number), at_ns - job.started_ns)


def _traits(jobs: JobTable, number: int) -> JobTraits:
    prototype = jobs.prototype(number)
    requests = [(pod_set.count, sorted(pod_set.requests.items())) for pod_set in prototype.pod_sets]
    return JobTraits(queue=prototype.local_queue, name_prefix=name_prefix(jobs.name(number)), size=str(requests))
