"""The board in a terminal: queues as bars and workloads with their states, from the same rows.

`Board` keeps the rows of two kinds, and why pods failed; `drawing` makes a rich renderable of
them. Used by `pykueue top` and by the live view of `pykueue demo`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.dashboard import rows
from pykueue.kube.informer import Key, key_of
from pykueue.translate import failure_causes

_ORDER = {state: place for place, state in enumerate(rows.STATES)}
FIELD = {name: index for index, name in enumerate(rows.WORKLOAD_FIELDS)}
_BYTE_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_STATES_OF_FILTER = {
    "pending": ("pending", "reserved"),
    "running": ("starting", "running", "stopping"),
    "finished": ("finished", "failed"),
    "active": ("pending", "reserved", "starting", "running", "stopping", "stopped"),
}
FILTERS = ("all", *_STATES_OF_FILTER)
_BEGINNING = re.compile(r"^couldn't assign flavors to pod set \S+: ")
SORTS = ("state", "age", "priority", "name")
FAILED_PODS = "status.phase=Failed"
"""The field selector of the pods that the board reads."""
_LIMITS = ("backoff limit", "failed indexes")
"""Words of a message that says how often pods failed, not why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """Which workloads are shown, and in which order."""

    states: str = "all"
    text: str = ""
    sort: str = "state"
    first: int = 0
    """The first row that is shown."""
    most: int = 30
    most_bars: int = 24
    width: int = 160
    """Columns of the terminal; a narrow one has no room for priorities and reasons."""


@dataclass(slots=True)
class Board:
    queues: dict[Key, dict[str, Any]] = field(default_factory=dict)
    workloads: dict[Key, rows.Row] = field(default_factory=dict)
    failures: dict[Key, tuple[str, Key, str]] = field(default_factory=dict)
    """Of each failed pod the time, the Job and the cause."""

    def replace(self, plural: str, items: Iterable[Object]) -> None:
        self._table(plural).clear()
        for obj in items:
            self.change(plural, "ADDED", obj)

    def change(self, plural: str, event_type: str, obj: Object) -> None:
        table = self._table(plural)
        if event_type == "DELETED":
            table.pop(key_of(obj), None)
        else:
            table[key_of(obj)] = _ROWS[plural](obj)

    def _table(self, plural: str) -> dict[Key, Any]:
        tables: dict[str, dict[Key, Any]] = {
            "workloads": self.workloads,
            "clusterqueues": self.queues,
            "pods": self.failures,
        }
        return tables[plural]

    def selected(self, options: BoardOptions) -> list[rows.Row]:
        states = _STATES_OF_FILTER.get(options.states, rows.STATES)
        words = options.text.lower().split()
        chosen = [row for row in self.workloads.values() if row[FIELD["state"]] in states and _matches(row, words)]
        causes = {job: cause for _, job, cause in sorted(self.failures.values()) if cause}
        if causes:
            chosen = [_with_cause(row, causes) for row in chosen]
        return sorted(chosen, key=lambda row: (_sort_key(row, options.sort), row[FIELD["uid"]]))

    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys(rows.STATES, 0)
        for row in self.workloads.values():
            counts[row[FIELD["state"]]] += 1
        return counts

    def bar_count(self) -> int:
        return sum(len(queue["quota"]) for queue in self.queues.values())

    def bars(self, most: int) -> Iterator[tuple[str, str, str, str, float, float, float]]:
        """Queue, cohort, flavor, resource, used, own and highest possible amount.

        If not all bars fit, they are those of the queues with the most pending workloads.
        """
        queues = sorted(self.queues.values(), key=lambda queue: queue["name"])
        if self.bar_count() > most:
            queues.sort(key=lambda queue: -queue["pending"])
        for queue in queues:
            most -= len(queue["quota"])
            if most < 0:
                return
            for flavor, resource, nominal, _borrowing, _lending, reserved, *_rest in queue["quota"]:
                whole = self._cohort_quota(queue["cohort"], flavor, resource) if queue["cohort"] else nominal
                yield queue["name"], queue["cohort"], flavor, resource, reserved, nominal, max(whole, nominal)

    def _cohort_quota(self, cohort: str, flavor: str, resource: str) -> float:
        return sum(
            float(entry[2])
            for queue in self.queues.values()
            if queue["cohort"] == cohort
            for entry in queue["quota"]
            if (entry[0], entry[1]) == (flavor, resource)
        )


def _failure(pod: Object) -> tuple[str, Key, str]:
    """When a pod of a Job failed, the Job, and why."""
    owner = objects.controller_of(pod) or {}
    end = failure_causes.last_end([pod], has_failed=True)
    at, cause = ("", "") if end is None else (str(end[2].get("finishedAt", "")), failure_causes.of_container(end[2]))
    return at, (objects.namespace(pod), str(owner.get("name", "")) if owner.get("kind") == "Job" else ""), cause


_ROWS: dict[str, Callable[[Object], Any]] = {
    "workloads": rows.workload,
    "clusterqueues": rows.cluster_queue,
    "pods": _failure,
}


def _with_cause(row: rows.Row, causes: dict[Key, str]) -> rows.Row:
    """The row of a failed Job with the cause of its last failed pod instead of a limit."""
    is_limit = row[FIELD["state"]] == "failed" and any(words in row[FIELD["message"]] for words in _LIMITS)
    cause = causes.get((row[FIELD["namespace"]], row[FIELD["job"]])) if is_limit else None
    if cause is None or row[FIELD["jobKind"]] != "Job":
        return row
    return [*row[: FIELD["message"]], cause, *row[FIELD["message"] + 1 :]]


def _matches(row: rows.Row, words: list[str]) -> bool:
    names = ("namespace", "name", "queue", "job", "clusterQueue", "priorityClass", "user")
    text = " ".join(str(row[FIELD[name]]) for name in names).lower()
    return all(word in text for word in words)


def _sort_key(row: rows.Row, sort: str) -> Any:
    if sort == "age":
        return -row[FIELD["created"]]
    if sort == "priority":
        return -row[FIELD["priority"]]
    if sort == "name":
        return job_name(row)
    return _ORDER[row[FIELD["state"]]], row[FIELD["created"]]


def job_name(row: rows.Row) -> str:
    return str(row[FIELD["job"]] or row[FIELD["name"]])


def elapsed_seconds(row: rows.Row, at: float) -> float:
    """How long a workload waits, or has run."""
    created, admitted, finished = (float(row[FIELD[name]]) for name in ("created", "admitted", "finished"))
    if finished:
        return max(0.0, finished - admitted) if admitted else 0.0
    return max(0.0, at - (admitted or created))


def requests_text(requests: dict[str, float]) -> str:
    """Devices first: they are what jobs wait for."""
    ordered = sorted(requests.items(), key=lambda item: ("/" not in item[0], item[0] != "cpu"))
    return ", ".join(f"{amount_text(name, value)} {name.rpartition('/')[2]}" for name, value in ordered)


def reason_text(row: rows.Row) -> str:
    """Where the workload runs, or what it waits for without words that many reasons begin with."""
    cluster = row[FIELD["cluster"]]
    return f"on {cluster}" if cluster else _BEGINNING.sub("", row[FIELD["message"]])


def amount_text(resource: str, value: float) -> str:
    if "memory" in resource or "storage" in resource:
        unit = 0
        while value >= 1024 and unit < len(_BYTE_UNITS) - 1:
            value /= 1024
            unit += 1
        return f"{value:.4g}{_BYTE_UNITS[unit]}"
    return f"{value:,.6g}"


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
