"""The report as one HTML file: no request leaves the page, and it follows the theme of the reader.

Charts are SVG. The jobs are drawn on a canvas, whatever their number: what is smaller than a pixel
is merged, and the reader zooms in.
"""

import heapq
import html
import importlib.resources
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pykueue.api.times import SECOND_NS
from pykueue.simulate.report import svg, text
from pykueue.simulate.report.figures import Figures, size_of
from pykueue.simulate.report.outcomes import NEVER, Outcomes

_Run = tuple[int, int, int, int]
"""Start, end, number of the job, and whether an eviction ended it."""

MOST_BARS = 200_000
"""More would make the file larger than a browser likes; the longest runs are drawn then."""


def page(figures: Figures, outcomes: Outcomes) -> str:
    template = importlib.resources.files("pykueue.simulate.report").joinpath("page.html").read_text(encoding="utf-8")
    bars = _bars(figures, outcomes)
    replaced = {
        "title": html.escape(figures["title"]),
        "summary": "".join(_tiles(figures)),
        "pending": _pending_chart(figures),
        "usage": "".join(_usage_charts(figures)) + _borrowed_chart(figures),
        "tables": "".join(_tables(figures)),
        "notes": "".join(f"<p>{html.escape(note)}</p>" for note in figures["notes"]),
        "data": json.dumps(bars, separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, content in replaced.items():
        template = template.replace(f"{{{{{name}}}}}", content)
    return template


def _tiles(figures: Figures) -> Iterator[str]:
    waits, preemptions = figures["waits"], figures["preemptions"]
    used = sum(row["used_hours"] for row in figures["usage"] if row["resource"] == figures["resource"])
    nominal = sum(row["nominal"] for row in figures["usage"] if row["resource"] == figures["resource"])
    hours = nominal * figures["makespan_seconds"] / 3600
    for name, value in (
        ("Jobs", f"{figures['jobs']:,}"),
        ("Time span", text.duration(figures["makespan_seconds"])),
        ("Mean wait", text.duration(waits["mean_seconds"])),
        ("95 % wait less than", text.duration(waits["p95_seconds"])),
        ("Quota in use", text.percent(used / hours) if hours else "-"),
        ("Preemptions", f"{preemptions['preemptions']:,}"),
        (f"{figures['resource'].rpartition('/')[2]} hours lost", f"{preemptions['lost_resource_hours']:,.1f}"),
    ):
        yield f'<div class="tile"><div class="value">{html.escape(value)}</div><div>{html.escape(name)}</div></div>'


def _pending_chart(figures: Figures) -> str:
    timeline = figures["timeline"]
    return _figure("Pending jobs by ClusterQueue", _largest(timeline["pending"]), timeline["interval_seconds"])


def _borrowed_chart(figures: Figures) -> str:
    """What cluster queues borrowed of the main resource, in all flavors together."""
    timeline, resource = figures["timeline"], figures["resource"]
    by_queue: dict[str, list[float]] = {}
    for row in timeline["borrowed"]:
        if row["resource"] == resource:
            before = by_queue.get(row["cluster_queue"])
            levels = row["values"]
            by_queue[row["cluster_queue"]] = (
                levels if before is None else [sum(pair) for pair in zip(before, levels, strict=True)]
            )
    if not by_queue:
        return ""
    return _figure(f"Borrowed {resource} by ClusterQueue", _largest(by_queue), timeline["interval_seconds"])


def _largest(by_queue: Mapping[str, Sequence[float]]) -> list[tuple[str, Sequence[float]]]:
    """A line for each of the queues with the most, and one for the others together."""
    series = sorted(by_queue.items(), key=lambda item: -sum(item[1]))
    if len(series) <= svg.MOST_SERIES:
        return series
    rest = [levels for _, levels in series[svg.MOST_SERIES - 1 :]]
    return [
        *series[: svg.MOST_SERIES - 1],
        (f"{len(rest)} other queues", [sum(levels) for levels in zip(*rest, strict=True)]),
    ]


def _usage_charts(figures: Figures) -> Iterator[str]:
    timeline = figures["timeline"]
    by_resource: dict[str, list[Figures]] = {}
    for row in timeline["used"]:
        by_resource.setdefault(row["resource"], []).append(row)
    resources = sorted(by_resource, key=lambda name: (name != figures["resource"], name))
    for resource in resources:
        rows = by_resource[resource][: svg.MOST_SERIES]
        limit = rows[0]["nominal"] if len(rows) == 1 else None
        series = [(row["flavor"], row["values"]) for row in rows]
        title = f"Used {resource} by flavor" if len(rows) > 1 else f"Used {resource}, flavor {rows[0]['flavor']}"
        yield _figure(title, series, timeline["interval_seconds"], limit=limit)


def _figure(title: str, series: list[Any], interval: float, *, limit: float | None = None) -> str:
    legend = "".join(
        f'<span><i style="background:var(--series-{index % svg.MOST_SERIES + 1})"></i>{html.escape(name)}</span>'
        for index, (name, _) in enumerate(series)
    )
    data = html.escape(json.dumps({"interval": interval, "series": series}, separators=(",", ":")), quote=True)
    chart = svg.line_chart(series, interval_seconds=interval, limit=limit)
    return (
        f'<section class="chart" data-chart="{data}"><h2>{html.escape(title)}</h2>'
        f'<div class="legend">{legend}</div>{chart}</section>'
    )


def _tables(figures: Figures) -> Iterator[str]:
    columns = ("jobs", "mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds", "max_seconds")
    heads = ("jobs", "mean", "p50", "p95", "p99", "longest")
    for title, key in (("queue", "waits_by_queue"), ("priority", "waits_by_priority"), ("size", "waits_by_size")):
        rows = [
            (
                row["name"],
                f"{row['jobs']:,}",
                *(text.duration(row[name]) if row["jobs"] else "-" for name in columns[1:]),
            )
            for row in figures[key]
        ]
        unit = f" in {figures['resource']}" if title == "size" else ""
        yield _table(f"Waits by {title}{unit}", (title, *heads), rows)
    yield _table(
        "Usage",
        ("queue", "flavor", "resource", "nominal", "used on average", "utilisation", "borrowed hours"),
        [
            (
                row["cluster_queue"],
                row["flavor"],
                row["resource"],
                text.amount(row["resource"], row["nominal"]),
                text.amount(row["resource"], row["average_used"]),
                "-" if row["utilisation"] is None else text.percent(row["utilisation"]),
                text.amount(row["resource"], row["borrowed_hours"]),
            )
            for row in figures["usage"]
        ],
    )
    yield _table(
        f"Share of {figures['resource']}",
        ("queue", "entitled", "used", "hours"),
        [
            (
                row["cluster_queue"],
                text.percent(row["entitled_share"]),
                text.percent(row["used_share"]),
                text.number(row["used_hours"]),
            )
            for row in figures["fairness"]
        ],
    )
    yield _table(
        "Longest waits",
        ("job", "queue", "wait", "why"),
        [
            (row["job"], row["cluster_queue"], text.duration(row["wait_seconds"]), row["why"])
            for row in figures["worst_waits"]
            if row["wait_seconds"]
        ],
    )
    yield _table(
        "Never started",
        ("job", "why", "what would help"),
        [(row["job"], row["why"], "; or ".join(row["remedies"])) for row in figures["never_started"]],
    )


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<section><h2>{html.escape(title)}</h2><div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"


def _bars(figures: Figures, outcomes: Outcomes) -> dict[str, Any]:
    """The runs of all jobs as columns of numbers, each in a lane of its cluster queue."""
    jobs = outcomes.jobs
    of_template = [outcomes.cluster_queue_of(prototype) for prototype in jobs.templates]
    queues = sorted({of_template[template] for template in set(jobs.template)})
    index = {name: position for position, name in enumerate(queues)}
    count = len(outcomes.interrupted) + sum(1 for _ in _last_runs(outcomes))
    left_out = max(0, count - MOST_BARS)
    runs: Iterable[_Run] = itertools.chain(
        ((start, end, number, 1) for number, start, end in outcomes.interrupted), _last_runs(outcomes)
    )
    if left_out:
        runs = heapq.nsmallest(MOST_BARS, runs, key=lambda run: (run[0] - run[1], run))
    runs = sorted(runs)
    queue_of = [index[of_template[jobs.template[number]]] for _, _, number, _ in runs]
    sizes = [size_of(prototype, figures["resource"]) for prototype in jobs.templates]
    lanes = _lanes(runs, queue_of, len(queues))
    return {
        "queues": queues,
        "lanes": lanes[1],
        "start": [_seconds(start - outcomes.start_ns) for start, *_ in runs],
        "length": [_seconds(end - start) for start, end, *_ in runs],
        "lane": lanes[0],
        "queue": queue_of,
        "name": [str(jobs.key(number)) for _, _, number, _ in runs],
        "wait": [_seconds(max(0, start - jobs.submit_ns[number])) for start, _, number, _ in runs],
        "size": [sizes[jobs.template[number]] for _, _, number, _ in runs],
        "evicted": [evicted for *_, evicted in runs],
        "resource": figures["resource"],
        "timeSteps": svg.TIME_STEPS,
        "span": _seconds(outcomes.end_ns - outcomes.start_ns),
        "leftOut": left_out,
    }


def _last_runs(outcomes: Outcomes) -> "Iterator[_Run]":
    """The last run of every job that ran and was not evicted from it."""
    for number, start in enumerate(outcomes.start_ns_of):
        ended = outcomes.ended_ns[number]
        if start != NEVER and (ended != NEVER or outcomes.ending[number] == 1):
            yield start, outcomes.end_ns if ended == NEVER else ended, number, 0


def _seconds(duration_ns: int) -> int:
    return round(duration_ns / SECOND_NS)


def _lanes(runs: list[tuple[int, int, int, int]], queues: list[int], count: int) -> tuple[list[int], list[int]]:
    """The lowest free lane of each run in its queue, and the number of lanes of each queue."""
    busy: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    free: list[list[int]] = [[] for _ in range(count)]
    lanes, widths = [], [0] * count
    for (start, end, _, _), queue in zip(runs, queues, strict=True):
        while busy[queue] and busy[queue][0][0] <= start:
            heapq.heappush(free[queue], heapq.heappop(busy[queue])[1])
        if free[queue]:
            lane = heapq.heappop(free[queue])
        else:
            lane = widths[queue]
            widths[queue] += 1
        heapq.heappush(busy[queue], (end, lane))
        lanes.append(lane)
    return lanes, widths
