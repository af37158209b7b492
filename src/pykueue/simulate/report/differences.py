"""The difference between a base and its variants on the same jobs."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from pykueue.api.times import SECOND_NS
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.planning import VariantResult
from pykueue.simulate.report import text
from pykueue.simulate.report.outcomes import NEVER

_MOST_JOBS = 10


def difference(base: VariantResult, variant: VariantResult, jobs: JobTable) -> dict[str, Any]:
    before, after = _column(base.first_start_ns, "q"), _column(variant.first_start_ns, "q")
    preempted_before, preempted_after = _column(base.preemptions, "i"), _column(variant.preemptions, "i")
    changes = []
    longer = shorter = 0
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        change = _change(old, new)
        longer, shorter = longer + (change > 0), shorter + (change < 0)
        changes.append((change, number))
    changes.sort()
    newly = [
        number
        for number, (old, new) in enumerate(zip(preempted_before, preempted_after, strict=True))
        if new and not old
    ]
    no_longer = sum(1 for old, new in zip(preempted_before, preempted_after, strict=True) if old and not new)
    return {
        "name": variant.name,
        "waits_longer": longer,
        "waits_shorter": shorter,
        "never_starts_now": sum(1 for old, new in zip(before, after, strict=True) if old != NEVER and new == NEVER),
        "starts_now": sum(1 for old, new in zip(before, after, strict=True) if old == NEVER and new != NEVER),
        "newly_preempted": [str(jobs.key(number)) for number in newly[:_MOST_JOBS]],
        "newly_preempted_count": len(newly),
        "no_longer_preempted_count": no_longer,
        "most_longer": [_job(jobs, change, number) for change, number in reversed(changes[-_MOST_JOBS:]) if change > 0],
        "most_shorter": [_job(jobs, change, number) for change, number in changes[:_MOST_JOBS] if change < 0],
        "queues": _by_queue(base, variant),
        "hours": _hours(base, variant),
        "makespan_seconds": variant.figures["makespan_seconds"],
        "waits": variant.figures["waits"],
        "preemptions": variant.figures["preemptions"]["preemptions"],
    }


def _column(data: bytes, code: str) -> "array[int]":
    column: array[int] = array(code)
    column.frombytes(data)
    return column


def _change(old: int, new: int) -> float:
    """How much longer the wait is; a job that does not start waits for ever."""
    if new == NEVER:
        return float("inf")
    return float("-inf") if old == NEVER else float(new - old)


def _job(jobs: JobTable, change: float, number: int) -> dict[str, Any]:
    finite = abs(change) != float("inf")
    return {"job": str(jobs.key(number)), "change_seconds": change / SECOND_NS if finite else None}


def _by_queue(base: VariantResult, variant: VariantResult) -> list[dict[str, Any]]:
    after = {row["name"]: row for row in variant.figures["waits_by_queue"]}
    return [
        {
            "name": row["name"],
            "mean_seconds_before": row["mean_seconds"],
            "mean_seconds_after": after[row["name"]]["mean_seconds"],
            "p95_seconds_before": row["p95_seconds"],
            "p95_seconds_after": after[row["name"]]["p95_seconds"],
            "started_before": row["jobs"],
            "started_after": after[row["name"]]["jobs"],
            "not_started_before": row["not_started"],
            "not_started_after": after[row["name"]]["not_started"],
        }
        for row in base.figures["waits_by_queue"]
        if row["name"] in after
    ]


def _hours(base: VariantResult, variant: VariantResult) -> dict[str, float]:
    """Hours of the main resource: quota that is provided, hours used, and hours lost."""

    def hours(result: VariantResult) -> tuple[float, float, float]:
        figures = result.figures
        rows = [row for row in figures["usage"] if row["resource"] == figures["resource"]]
        provided = sum(row["nominal"] for row in rows) * figures["makespan_seconds"] / 3600
        used = sum(row["used_hours"] for row in rows)
        return provided, used, figures["preemptions"]["lost_resource_hours"]

    names = ("provided", "used", "lost")
    pairs = zip(names, hours(base), hours(variant), strict=True)
    return {
        f"{name}_{when}": round(value, 3)
        for name, old, new in pairs
        for when, value in (("before", old), ("after", new))
    }


def lines(base: VariantResult, differences: Sequence[dict[str, Any]]) -> Iterator[str]:
    resource = base.figures["resource"]
    yield from sweep_table(base, differences)
    for entry in differences:
        yield f"\n{entry['name']}"
        yield f"  {entry['waits_shorter']:,} jobs wait less, {entry['waits_longer']:,} wait longer"
        if entry["never_starts_now"] or entry["starts_now"]:
            yield f"  {entry['starts_now']:,} jobs start that did not; {entry['never_starts_now']:,} do not start now"
        newly = ", ".join(entry["newly_preempted"][:3])
        yield (
            f"  {entry['newly_preempted_count']:,} jobs are preempted that were not"
            + (f" ({newly}, …)" if entry["newly_preempted_count"] > 3 else f" ({newly})" if newly else "")
            + f"; {entry['no_longer_preempted_count']:,} are no longer"
        )
        hours = entry["hours"]
        yield (
            f"  {resource} hours: {hours['provided_before']:,.1f} -> {hours['provided_after']:,.1f} in quota, "
            f"{hours['used_before']:,.1f} -> {hours['used_after']:,.1f} used, "
            f"{hours['lost_before']:,.1f} -> {hours['lost_after']:,.1f} lost"
        )
        yield from text.table(
            ("QUEUE", "MEAN BEFORE", "AFTER", "P95 BEFORE", "AFTER", "NEVER START BEFORE", "AFTER"),
            [_queue_cells(row) for row in entry["queues"]],
        )
        for title, key in (("longer", "most_longer"), ("less", "most_shorter")):
            for row in entry[key][:3]:
                amount = "for ever" if row["change_seconds"] is None else text.duration(abs(row["change_seconds"]))
                yield f"  {row['job']} waits {amount} {title}"


def _queue_cells(row: dict[str, Any]) -> tuple[str, ...]:
    waits = [
        _wait(row[f"{name}_seconds_{when}"], row[f"started_{when}"])
        for name in ("mean", "p95")
        for when in ("before", "after")
    ]
    return (row["name"], *waits, f"{row['not_started_before']:,}", f"{row['not_started_after']:,}")


def _wait(seconds: float, jobs: int) -> str:
    """A figure of the waits of jobs that started; `-` if none did."""
    return text.duration(seconds) if jobs else "-"


def sweep_table(base: VariantResult, differences: Sequence[dict[str, Any]]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [_row(base.name, base.figures)]
    rows += [
        _row(entry["name"], {**entry, "preemptions": {"preemptions": entry["preemptions"]}}) for entry in differences
    ]
    yield from text.table(("VARIANT", "MEAN WAIT", "P95", "P99", "NEVER START", "PREEMPTIONS", "MAKESPAN"), rows)


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    waits = figures["waits"]
    return (
        name,
        *(_wait(waits[f"{figure}_seconds"], waits["jobs"]) for figure in ("mean", "p95", "p99")),
        f"{waits['not_started']:,}",
        f"{figures['preemptions']['preemptions']:,}",
        text.duration(figures["makespan_seconds"]),
    )
