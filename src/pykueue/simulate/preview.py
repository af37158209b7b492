"""What a change of objects would do to a running cluster in the next hour.

The cluster is forked twice, without and with the change, and both forks run for the same time. The
difference is what the change does. Jobs run as long as the middle one of the finished jobs that
are like them (`estimates.run_times`), or until their time limit; jobs whose end nobody knows run
until the preview ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.workloads import predicates
from pykueue.engine import decisions, values
from pykueue.engine.reasons import RequeueReason
from pykueue.simulate import what_if
from pykueue.simulate.engine_driver.simulation import JobRun, Simulation
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.estimates import live
from pykueue.simulate.report import text
from pykueue.simulate.sources import manifests
from pykueue.simulate.what_if import Variant
from pykueue.translate import messages, outcomes

HOUR_NS = 3600 * SECOND_NS
_MIDDLE = 0.5
_MOST_LINES = 20
_FOR_EVER = (RequeueReason.NO_FIT, RequeueReason.NAMESPACE_MISMATCH)


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What differs with the change; times are seconds from now."""

    admitted: list[tuple[str, float]]
    flavors: dict[str, list[str]]
    """The flavors of the admitted Workloads."""
    evicted: list[tuple[str, float, str]]
    moved: list[tuple[str, float, float]]
    """Workloads that start anyway, but sooner or later: when with the change, and when without."""
    blocked: list[tuple[str, str]]
    """Workloads that would have started without the change, could start without it, or are new,
    and why they wait.
    """
    endless: list[str]
    """Running Workloads whose end nobody knows, while others wait: they keep their quota."""
    horizon_seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "horizonSeconds": self.horizon_seconds,
            "admitted": [
                {"workload": key, "afterSeconds": after, "flavors": self.flavors[key]} for key, after in self.admitted
            ],
            "evicted": [
                {"workload": key, "afterSeconds": after, "reason": reason} for key, after, reason in self.evicted
            ],
            "moved": [
                {"workload": key, "afterSeconds": after, "insteadOfSeconds": before}
                for key, after, before in self.moved
            ],
            "blocked": [{"workload": key, "why": why} for key, why in self.blocked],
            "unknownRunTimes": self.endless,
        }

    def lines(self) -> Iterator[str]:
        yield from self._changes()
        if self.endless:
            more = f" (nor {len(self.endless) - 1} more)" if len(self.endless) > 1 else ""
            yield f"Nobody knows how long {self.endless[0]}{more} will run: the preview assumes no end."

    def _changes(self) -> Iterator[str]:
        span = text.duration(self.horizon_seconds)
        if not (self.admitted or self.evicted or self.moved or self.blocked):
            yield f"Nothing would change in the next {span}."
            return
        yield f"In the next {span} this change would"
        admitted = [
            f"  admit {key} after {text.duration(after)} with {', '.join(self.flavors[key])}"
            for key, after in self.admitted
        ]
        evicted = [f"  evict {key} after {text.duration(after)} ({reason})" for key, after, reason in self.evicted]
        moved = [f"  {_moved(*entry)}" for entry in self.moved]
        blocked = [f"  keep {key} waiting: {why}" for key, why in self.blocked]
        for lines in (admitted, evicted, moved, blocked):
            yield from lines[:_MOST_LINES]
            if len(lines) > _MOST_LINES:
                yield f"  ... and {len(lines) - _MOST_LINES} more like these"


def _moved(key: str, after: float, before: float) -> str:
    direction = "sooner" if after < before else "later"
    return f"start {key} {text.duration(abs(after - before))} {direction}, after {text.duration(after)}"


class _Steps:
    """An observer that keeps when jobs start and stop."""

    def __init__(self) -> None:
        self.start_ns: dict[str, int] = {}
        self.flavors: dict[str, list[str]] = {}
        self.eviction: dict[str, tuple[int, str]] = {}

    def queued(self, job: JobRun, at_ns: int) -> None:
        """Nothing to keep."""

    def reserved(self, job: JobRun, at_ns: int) -> None:
        """Nothing to keep."""

    def started(self, job: JobRun, at_ns: int) -> None:
        admission = job.workload.admission
        assert admission is not None
        if job.key not in self.start_ns:
            self.start_ns[job.key] = at_ns
            self.flavors[job.key] = sorted({str(name) for pods in admission.pod_sets for name in pods.flavors.values()})

    def evicted(self, job: JobRun, at_ns: int, *, reason: str, by: values.WorkloadKey | None, lost_ns: int) -> None:
        del lost_ns
        self.eviction.setdefault(job.key, (at_ns, f"{reason} by {by}" if by else reason))

    def released(self, job: JobRun, at_ns: int) -> None:
        """Nothing to keep."""

    def ended(self, job: JobRun, at_ns: int, *, how: str) -> None:
        """Nothing to keep."""


@dataclass(slots=True, kw_only=True)
class _Fork:
    simulation: Simulation
    steps: _Steps
    requeue_reasons: dict[str, RequeueReason] = field(default_factory=dict)
    """Why the last try of a workload failed."""
    endless: list[str] = field(default_factory=list)

    def keep_reason(self, _at_ns: int, decision: decisions.Decision) -> None:
        if isinstance(decision, decisions.MarkInadmissible | decisions.Requeue):
            self.requeue_reasons[decision.workload] = decision.reason

    def is_stuck(self, key: str) -> bool:
        """Whether it waits for more than quota: it never starts unless something is changed."""
        return bool(_stopped(self.simulation, key)) or self.requeue_reasons.get(key) in _FOR_EVER


def preview(
    items: Sequence[Object],
    changes: manifests.Manifests,
    configuration: Mapping[str, Any],
    *,
    now_ns: int,
    horizon_ns: int = HOUR_NS,
) -> Preview:
    """Compare the next hour of a cluster without and with new or changed objects and new jobs."""
    before = _run(items, (), configuration, now_ns=now_ns, horizon_ns=horizon_ns)
    changed = what_if.changed(items, Variant(name="change", objects=tuple(changes.objects)))
    after = _run(changed, changes.jobs, configuration, now_ns=now_ns, horizon_ns=horizon_ns)

    def seconds(at_ns: int) -> float:
        return (at_ns - now_ns) / SECOND_NS

    admitted = [
        (key, seconds(at_ns))
        for key, at_ns in sorted(after.steps.start_ns.items(), key=lambda item: (item[1], item[0]))
        if key not in before.steps.start_ns
    ]
    evicted = [
        (key, seconds(at_ns), reason)
        for key, (at_ns, reason) in sorted(after.steps.eviction.items(), key=lambda item: (item[1], item[0]))
        if key not in before.steps.eviction
    ]
    moved = [
        (key, seconds(at_ns), seconds(before.steps.start_ns[key]))
        for key, at_ns in sorted(after.steps.start_ns.items(), key=lambda item: (item[1], item[0]))
        if abs(at_ns - before.steps.start_ns.get(key, at_ns)) > SECOND_NS
    ]
    blocked = [
        (str(key), _why(after.simulation, key))
        for key, job in sorted(after.simulation.runs.items())
        if key not in after.steps.start_ns
        and job.workload.admission is None
        and (
            key in before.steps.start_ns
            or key not in before.simulation.runs
            or (after.is_stuck(key) and not before.is_stuck(key))
        )
    ]
    return Preview(
        admitted=admitted,
        flavors={key: after.steps.flavors[key] for key, _ in admitted},
        evicted=evicted,
        moved=moved,
        blocked=blocked,
        endless=after.endless if any(job.workload.admission is None for job in after.simulation.runs.values()) else [],
        horizon_seconds=horizon_ns / SECOND_NS,
    )


def _run(
    items: Sequence[Object],
    jobs: Sequence[Any],
    configuration: Mapping[str, Any],
    *,
    now_ns: int,
    horizon_ns: int,
) -> _Fork:
    world = World.from_objects(items, configuration, now_ns=now_ns)
    steps = _Steps()
    simulation = Simulation(world, observer=steps)
    fork = _Fork(simulation=simulation, steps=steps)
    simulation.on_decision = fork.keep_reason
    workloads = [obj for obj in items if obj["kind"] == "Workload"]
    learned = live.learn(workloads, now_ns)
    for obj in workloads:
        workload = world.engine.view.workload(values.WorkloadKey(predicates.key(obj)))
        if workload is not None and not predicates.is_finished(obj):
            run_ns = live.remaining_time(obj, learned, now_ns).draw_ns(_MIDDLE)
            simulation.adopt(workload, run_ns=run_ns)
            if run_ns is None and workload.admission is not None:
                fork.endless.append(str(workload.key))
    _drain(simulation)
    for document in jobs:
        job = document.object
        workload_object = manifests.workload_of(job, world.priority_classes, world, file=document.file)
        prototype = world.workload_value(workload_object)
        run_ns = live.remaining_time(workload_object, learned, now_ns).draw_ns(_MIDDLE)
        simulation.submit(prototype, run_ns=run_ns, name=f"{job['kind'].lower()}-{objects.name(job)}")
    simulation.run(until_ns=now_ns + horizon_ns)
    return fork


def _drain(simulation: Simulation) -> None:
    """A ClusterQueue or LocalQueue with HoldAndDrain evicts what it admitted."""
    view = simulation.engine.view
    drain = values.StopPolicy.HOLD_AND_DRAIN
    for job in list(simulation.runs.values()):
        admission, eviction = job.workload.admission, job.workload.eviction
        if admission is None or eviction is not None:
            continue
        queue, local_queue = view.cluster_queue(admission.cluster_queue), view.local_queue(job.workload.local_queue)
        if queue is not None and queue.value.stop_policy is drain:
            simulation.evict(job, "ClusterQueueStopped")
        elif local_queue is not None and local_queue.stop_policy is drain:
            simulation.evict(job, "LocalQueueStopped")


def _why(simulation: Simulation, key: str) -> str:
    job = simulation.runs[values.WorkloadKey(key)]
    if stopped := _stopped(simulation, key):
        return stopped
    if job.pending is not None:
        return messages.pending(job.pending, outcomes.amount_text)
    return "jobs ahead of it take the quota"


def _stopped(simulation: Simulation, key: str) -> str:
    """Which of its queues admits nothing; empty if both are active."""
    view = simulation.engine.view
    local_queue = view.local_queue(simulation.runs[values.WorkloadKey(key)].workload.local_queue)
    if local_queue is None:
        return "its LocalQueue does not exist"
    if local_queue.stop_policy is not values.StopPolicy.NONE:
        return f"LocalQueue {local_queue.key} is stopped"
    queue = view.cluster_queue(local_queue.cluster_queue)
    if queue is None or not queue.is_active:
        return f"ClusterQueue {local_queue.cluster_queue} is not active"
    return ""
