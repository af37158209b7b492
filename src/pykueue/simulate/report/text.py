"""The report as plain text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykueue.simulate.report.figures import Figures

_STEPS = ((86400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: float) -> str:
    """At most two units: `3h 20m`, `45s`."""
    left = round(seconds)
    parts = []
    for size, unit in _STEPS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    if left or not parts:
        parts.append(f"{left}s")
    return " ".join(parts[:2])


def lines(figures: Figures) -> Iterator[str]:
    yield from _summary(figures)
    for title, key in (("queue", "waits_by_queue"), ("priority", "waits_by_priority"), ("size", "waits_by_size")):
        yield ""
        yield f"Waits by {title}" + (f" ({figures['resource']})" if title == "size" else "")
        yield from table(
            (title.upper(), "JOBS", "MEAN", "P50", "P95", "P99", "LONGEST"),
            [(row["name"], *_wait_cells(row)) for row in figures[key]],
        )
    yield ""
    yield "Usage"
    yield from table(
        ("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "UTILISATION", "BORROWED"),
        [_usage_cells(row) for row in figures["usage"]],
    )
    yield ""
    yield f"Share of {figures['resource']}"
    yield from table(
        ("CLUSTERQUEUE", "ENTITLED", "USED", "HOURS"),
        [
            (
                row["cluster_queue"],
                percent(row["entitled_share"]),
                percent(row["used_share"]),
                f"{row['used_hours']:.1f}",
            )
            for row in figures["fairness"]
        ],
    )
    yield from _worst(figures)
    yield from _never_started(figures)
    for note in figures["notes"]:
        yield f"\nNote: {note}"


def _summary(figures: Figures) -> Iterator[str]:
    endings = {name: count for name, count in figures["endings"].items() if count}
    words = ", ".join(f"{count:,} {name}" for name, count in sorted(endings.items(), key=lambda item: -item[1]))
    jobs = "1 job" if figures["jobs"] == 1 else f"{figures['jobs']:,} jobs"
    yield f"{jobs} in {duration(figures['makespan_seconds'])}: {words or 'none'}"
    waits = figures["waits"]
    yield (
        "Waits: no job started"
        if not waits["jobs"]
        else (
            f"Waits: mean {duration(waits['mean_seconds'])}, p50 {duration(waits['p50_seconds'])}, "
            f"p95 {duration(waits['p95_seconds'])}, p99 {duration(waits['p99_seconds'])}"
        )
    )
    preemptions = figures["preemptions"]
    yield (
        f"Preemptions: {preemptions['preemptions']:,}; work lost by evictions: "
        f"{preemptions['lost_hours']:,.1f} hours, {preemptions['lost_resource_hours']:,.1f} {figures['resource']} hours"
    )


def _wait_cells(row: Figures) -> tuple[str, ...]:
    names = ("mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds", "max_seconds")
    return (f"{row['jobs']:,}", *(duration(row[name]) if row["jobs"] else "-" for name in names))


def _usage_cells(row: Figures) -> tuple[str, ...]:
    utilisation = "-" if row["utilisation"] is None else percent(row["utilisation"])
    return (
        row["cluster_queue"],
        row["flavor"],
        row["resource"],
        amount(row["resource"], row["nominal"]),
        amount(row["resource"], row["average_used"]),
        utilisation,
        f"{amount(row['resource'], row['borrowed_hours'])} h" if row["borrowed_hours"] else "-",
    )


def number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.2f}"


def amount(resource: str, value: float) -> str:
    """Bytes in Gi, everything else as a number."""
    is_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return f"{number(round(value / 2**30, 2))}Gi" if is_bytes else number(value)


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _worst(figures: Figures) -> Iterator[str]:
    rows = [row for row in figures["worst_waits"] if row["wait_seconds"]]
    if rows:
        yield "\nLongest waits"
    for row in rows:
        yield f"  {row['job']} waited {duration(row['wait_seconds'])} in {row['cluster_queue']}. {row['why']}"


def _never_started(figures: Figures) -> Iterator[str]:
    if figures["never_started"]:
        yield "\nNever started"
    for row in figures["never_started"]:
        yield f"  {row['job']}: {row['why']}"
        yield from (f"    - {remedy}" for remedy in row["remedies"])


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    cells = [tuple(map(str, row)) for row in (headers, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        yield "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
