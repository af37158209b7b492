"""The figures of a run as plain data, which every format prints."""

import bisect
import itertools
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.simulate.engine_driver.jobs import UNKNOWN_NS
from pykueue.simulate.report.outcomes import ENDINGS, NEVER, Outcomes
from pykueue.translate import amounts, explanations, messages
from pykueue.translate import outcomes as quantities

Figures = dict[str, Any]

_HOUR_NS = 3600 * SECOND_NS
_SIZES = ((0, "0"), (1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"))
_MOST_PENDING = 10


def report(outcomes: Outcomes, view: EngineView, *, title: str = "simulation", notes: Sequence[str] = ()) -> Figures:
    """Everything about a run that has ended; `outcomes.finish` was called."""
    resource = main_resource(outcomes, view)
    span_ns = max(1, outcomes.end_ns - outcomes.start_ns)
    waits = _waits_by_template(outcomes)
    templates = outcomes.jobs.templates
    return {
        "title": title,
        "notes": list(notes),
        "jobs": len(outcomes.ending),
        "endings": _endings(outcomes),
        "makespan_seconds": span_ns / SECOND_NS,
        "resource": resource,
        "waits": _waits(waits.values()),
        "waits_by_queue": _by(waits, lambda template: outcomes.cluster_queue_of(templates[template])),
        "waits_by_priority": _by(waits, lambda template: templates[template].priority),
        "waits_by_size": _by(waits, lambda template: size_class(size_of(templates[template], resource))),
        "usage": _usage(outcomes, view, span_ns),
        "fairness": _fairness(outcomes, view, resource, span_ns),
        "preemptions": _preemptions(outcomes, resource),
        "worst_waits": [_worst(outcomes, *entry) for entry in outcomes.worst_waits()],
        "never_started": _never_started(outcomes, view),
        "timeline": _timeline(outcomes, view),
    }


def main_resource(outcomes: Outcomes, view: EngineView) -> str:
    """The resource that sizes are counted in: GPUs if a job requests any, or else CPUs."""
    covered = {str(resource) for queue in view.cluster_queues() for resource in queue.covered_resources}
    requested = {
        str(resource)
        for prototype in outcomes.jobs.templates
        for pod_set in prototype.pod_sets
        for resource, amount in pod_set.requests.items()
        if amount
    }
    names = sorted(covered & requested) or sorted(covered)
    accelerators = [name for name in names if "/" in name]
    return next(iter([*accelerators, *(name for name in names if name == "cpu"), *names]), "cpu")


def size_of(prototype: values.Workload, resource: str) -> float:
    name = values.ResourceName(resource)
    return amounts.as_float(resource, sum(pod_set.requests.get(name, 0) for pod_set in prototype.pod_sets))


def size_class(size: float) -> str:
    for most, name in _SIZES:
        if size <= most:
            return name
    return "65+"


def _endings(outcomes: Outcomes) -> dict[str, int]:
    counts = dict.fromkeys(ENDINGS, 0)
    for code in outcomes.ending:
        counts[ENDINGS[code]] += 1
    return counts


def _waits_by_template(outcomes: Outcomes) -> "dict[int, array[int]]":
    """The times from arrival to the first start for each template; NEVER if there was none."""
    waits: dict[int, array[int]] = {}
    jobs = outcomes.jobs
    for template, submit_ns, start_ns in zip(jobs.template, jobs.submit_ns, outcomes.first_start_ns, strict=True):
        of_template = waits.get(template)
        if of_template is None:
            of_template = waits[template] = array("q")
        of_template.append(NEVER if start_ns == NEVER else start_ns - submit_ns)
    return waits


def _waits(parts: "Iterable[array[int]]") -> Figures:
    """How long jobs waited that started, and how many did not start."""
    waits = sorted(itertools.chain.from_iterable(parts))
    not_started = bisect.bisect_right(waits, NEVER)
    del waits[:not_started]
    counts = {"jobs": len(waits), "not_started": not_started}
    if not waits:
        return counts | {"mean_seconds": 0, "p50_seconds": 0, "p95_seconds": 0, "p99_seconds": 0, "max_seconds": 0}
    return {
        **counts,
        "mean_seconds": round(sum(waits) / len(waits) / SECOND_NS, 3),
        **{f"p{percent}_seconds": _quantile(waits, percent) / SECOND_NS for percent in (50, 95, 99)},
        "max_seconds": waits[-1] / SECOND_NS,
    }


def _quantile(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that is not exceeded by `percent` of all values."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _by(waits: "dict[int, array[int]]", key_of: Callable[[int], Any]) -> list[Figures]:
    groups: dict[Any, list[array[int]]] = {}
    for template, of_template in waits.items():
        groups.setdefault(key_of(template), []).append(of_template)
    order = [name for _, name in _SIZES] + ["65+"]
    keys = sorted(groups, key=lambda key: (order.index(key), "") if key in order else (0, key))
    return [{"name": str(key), **_waits(groups[key])} for key in keys]


def _usage(outcomes: Outcomes, view: EngineView, span_ns: int) -> list[Figures]:
    """Used hours and average utilisation of every flavor and resource of every cluster queue."""
    rows = []
    for queue in view.cluster_queues():
        for name, quota in sorted(queue.quotas.items()):
            key = (str(queue.name), str(name.flavor), str(name.resource))
            used, borrowed = outcomes.timeline.total(("used", *key)), outcomes.timeline.total(("borrowed", *key))
            nominal = amounts.as_float(name.resource, quota.nominal)
            average = amounts.as_float(name.resource, 1) * used / span_ns
            rows.append(
                {
                    "cluster_queue": key[0],
                    "flavor": key[1],
                    "resource": key[2],
                    "nominal": nominal,
                    "average_used": round(average, 4),
                    "utilisation": round(average / nominal, 4) if nominal else None,
                    "used_hours": round(average * span_ns / _HOUR_NS, 3),
                    "borrowed_hours": round(amounts.as_float(name.resource, 1) * borrowed / _HOUR_NS, 3),
                }
            )
    return rows


def _fairness(outcomes: Outcomes, view: EngineView, resource: str, span_ns: int) -> list[Figures]:
    """What each queue used of all that was used, against its part of all nominal quota."""
    del span_ns
    nominal: dict[str, float] = {}
    used: dict[str, float] = {}
    for queue in view.cluster_queues():
        for name, quota in queue.quotas.items():
            if name.resource == resource:
                nominal[queue.name] = nominal.get(queue.name, 0.0) + amounts.as_float(resource, quota.nominal)
                total = outcomes.timeline.total(("used", str(queue.name), str(name.flavor), resource))
                used[queue.name] = used.get(queue.name, 0.0) + amounts.as_float(resource, 1) * total / _HOUR_NS
    all_nominal, all_used = sum(nominal.values()), sum(used.values())
    return [
        {
            "cluster_queue": name,
            "entitled_share": round(nominal[name] / all_nominal, 4) if all_nominal else 0,
            "used_share": round(used[name] / all_used, 4) if all_used else 0,
            "used_hours": round(used[name], 3),
        }
        for name in sorted(nominal)
    ]


def _preemptions(outcomes: Outcomes, resource: str) -> Figures:
    lost = [number for number in range(len(outcomes.ending)) if outcomes.lost_ns[number]]
    hours = sum(
        size_of(outcomes.jobs.prototype(number), resource) * outcomes.lost_ns[number] / _HOUR_NS for number in lost
    )
    return {
        "preemptions": sum(outcomes.preemptions),
        "evictions": dict(sorted(outcomes.eviction_reasons.items())),
        "jobs_evicted": sum(1 for count in outcomes.evictions if count),
        "lost_hours": round(sum(outcomes.lost_ns) / _HOUR_NS, 3),
        "lost_resource_hours": round(hours, 3),
    }


def _worst(outcomes: Outcomes, wait_ns: int, number: int, why: str) -> Figures:
    return {
        "job": str(outcomes.jobs.key(number)),
        "cluster_queue": outcomes.cluster_queue(number),
        "submit_seconds": outcomes.jobs.submit_ns[number] / SECOND_NS,
        "wait_seconds": wait_ns / SECOND_NS,
        "why": why,
    }


def _never_started(outcomes: Outcomes, view: EngineView) -> list[Figures]:
    """Some jobs that did not start, with what the engine says about them at the end."""
    rows = []
    for number in range(len(outcomes.ending)):
        if ENDINGS[outcomes.ending[number]] != "pending" or outcomes.first_start_ns[number] != NEVER:
            continue
        explanation = view.explain(outcomes.jobs.key(number))
        if explanation is None:
            continue
        why = "It fits, but its turn has not come."
        if explanation.pending is not None:
            why = messages.pending(explanation.pending, quantities.amount_text)
        rows.append({"job": str(outcomes.jobs.key(number)), "why": why, "remedies": explanations.remedies(explanation)})
        if len(rows) == _MOST_PENDING:
            break
    return rows


def _timeline(outcomes: Outcomes, view: EngineView) -> Figures:
    timeline = outcomes.timeline
    count = timeline.count(outcomes.end_ns)
    by_flavor: dict[tuple[str, str], list[float]] = {}
    nominal: dict[tuple[str, str], float] = {}
    for queue in view.cluster_queues():
        for name, quota in sorted(queue.quotas.items()):
            key = (str(name.flavor), str(name.resource))
            unit = amounts.as_float(name.resource, 1)
            used = timeline.averages(("used", str(queue.name), *key), count)
            total = by_flavor.setdefault(key, [0.0] * count)
            by_flavor[key] = [before + unit * now for before, now in zip(total, used, strict=True)]
            nominal[key] = nominal.get(key, 0.0) + amounts.as_float(name.resource, quota.nominal)
    return {
        "start_seconds": timeline.start_ns / SECOND_NS,
        "interval_seconds": timeline.width_ns / SECOND_NS,
        "pending": {
            queue: [round(level, 2) for level in timeline.averages(("pending", queue), count)]
            for queue in sorted(str(queue.name) for queue in view.cluster_queues())
        },
        "used": [
            {"flavor": flavor, "resource": resource, "nominal": nominal[flavor, resource], "values": rounded}
            for (flavor, resource), levels in sorted(by_flavor.items())
            if any(rounded := [round(level, 3) for level in levels]) or nominal[flavor, resource]
        ],
        "borrowed": _borrowed(outcomes, view, count),
    }


def _borrowed(outcomes: Outcomes, view: EngineView, count: int) -> list[Figures]:
    rows = []
    for queue in view.cluster_queues():
        for name in sorted(queue.quotas):
            key = ("borrowed", str(queue.name), str(name.flavor), str(name.resource))
            if outcomes.timeline.total(key):
                unit = amounts.as_float(name.resource, 1)
                levels = [round(unit * level, 3) for level in outcomes.timeline.averages(key, count)]
                rows.append({"cluster_queue": key[1], "flavor": key[2], "resource": key[3], "values": levels})
    return rows


JOB_COLUMNS = (
    "job", "local_queue", "cluster_queue", "user", "priority", "submit_seconds", "start_seconds", "end_seconds",
    "run_seconds", "wait_seconds", "evictions", "lost_seconds", "flavor", "ending",
)  # fmt: skip


def job_rows(outcomes: Outcomes) -> Iterable[Figures]:
    """One dictionary for each job, for notebooks."""
    return (dict(zip(JOB_COLUMNS, cells, strict=True)) for cells in job_cells(outcomes))


def job_cells(outcomes: Outcomes) -> Iterable[tuple[Any, ...]]:
    """One row for each job, with a cell for each of `JOB_COLUMNS`."""
    jobs = outcomes.jobs
    for number in range(len(outcomes.ending)):
        first, ended = outcomes.first_start_ns[number], outcomes.ended_ns[number]
        submit, run = jobs.submit_ns[number], jobs.run_ns[number]
        prototype = jobs.prototype(number)
        yield (
            str(jobs.key(number)),
            str(prototype.local_queue),
            outcomes.cluster_queue_of(prototype),
            jobs.owners[jobs.owner[number]],
            prototype.priority,
            submit / SECOND_NS,
            None if first == NEVER else first / SECOND_NS,
            None if ended == NEVER else ended / SECOND_NS,
            None if run == UNKNOWN_NS else run / SECOND_NS,
            None if first == NEVER else (first - submit) / SECOND_NS,
            outcomes.evictions[number],
            outcomes.lost_ns[number] / SECOND_NS,
            outcomes.flavors[outcomes.flavor[number]],
            ENDINGS[outcomes.ending[number]],
        )
