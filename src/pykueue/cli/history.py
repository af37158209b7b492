"""`pykueue history`: who used what, and how long jobs waited."""

import csv
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client

_HOUR = 3600.0
_GIB = 2.0**30
_UNSERVED = (403, 404)
_NO_RECORD = (
    "The cluster keeps no record of jobs (`pykueue up` does): these are the Workloads that still exist, "
    "with their last run."
)


@dataclass(slots=True, kw_only=True)
class JobUse:
    """One Workload from its creation to its end, over all its admissions."""

    line: dict[str, Any]
    first_start: float = 0.0
    seconds: float = 0.0
    evictions: int = 0

    def add(self, line: dict[str, Any], now: float) -> None:
        self.line = self.line | line
        if line.get("start"):
            self.first_start = self.first_start or line["start"]
            self.seconds += max(0.0, line.get("end", now) - line["start"])
        self.evictions += line["outcome"] == "evicted"

    @property
    def waited(self) -> float:
        """Until the first admission; without one, until the end."""
        until = self.first_start or self.line.get("end", time.time())
        return max(0.0, float(until - self.line["created"]))

    def used(self, resource: str) -> float:
        """Hours of a resource: CPU hours, GiB hours or GPU hours."""
        amounts = self.line["requests"]
        amount = sum(value for name, value in amounts.items() if name == resource or name.endswith(f"/{resource}"))
        return float(amount) * self.seconds / _HOUR / (_GIB if resource == "memory" else 1.0)

    def as_json(self) -> dict[str, Any]:
        line = self.line
        return {
            "namespace": line["namespace"],
            "job": line["job"] or line["name"],
            "kind": line["jobKind"],
            "user": line["user"],
            "queue": line["queue"],
            "clusterQueue": line["clusterQueue"],
            "outcome": line["outcome"],
            "created": _time(line["created"]),
            "waitedSeconds": round(self.waited, 1),
            "ranSeconds": round(self.seconds, 1),
            "evictions": self.evictions,
            "cpuHours": round(self.used("cpu"), 4),
            "memoryGiBHours": round(self.used("memory"), 4),
            "gpuHours": round(self.used("gpu"), 4),
        }


@dataclass(slots=True)
class UseTotal:
    jobs: list[JobUse] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        waits = sorted(job.waited for job in self.jobs)
        outcomes = [job.line["outcome"] for job in self.jobs]
        return {
            "jobs": len(self.jobs),
            "finished": outcomes.count("finished"),
            "failed": outcomes.count("failed"),
            "medianWaitSeconds": round(waits[len(waits) // 2], 1),
            "longestWaitSeconds": round(waits[-1], 1),
            "evictions": sum(job.evictions for job in self.jobs),
            **{
                name: round(sum(job.used(resource) for job in self.jobs), 4)
                for name, resource in (("cpuHours", "cpu"), ("memoryGiBHours", "memory"), ("gpuHours", "gpu"))
            },
        }


_KEYS: dict[str, Callable[[JobUse], str]] = {
    "user": lambda job: str(job.line["user"] or "-"),
    "queue": lambda job: f"{job.line['namespace']}/{job.line['queue']}",
    "clusterqueue": lambda job: str(job.line["clusterQueue"] or "-"),
    "namespace": lambda job: str(job.line["namespace"]),
    "day": lambda job: _time(job.line["created"])[:10],
}


@click.command()
@click.option("--by", type=click.Choice(tuple(_KEYS)), help="Sum the jobs up by this. Default: list every job.")
@click.option(
    "--since",
    type=options.DurationOption(),
    default="30d",
    show_default=True,
    help="Only jobs that were created in this time, for example 12h or 30d.",
)
@click.option("--user", default="", help="Only jobs of this user.")
@options.with_all_namespaces
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="The format of the report.",
)
@with_cluster
def history(
    *, by: str | None, since: int, user: str, all_namespaces: bool, output: str, cluster: ClusterAccess
) -> None:
    """Show who used what, and how long jobs waited.

    Without -n, all namespaces are shown that you may see. Finished and deleted jobs count, too. A
    job that was evicted and started again has one line: it waited until it first started, and used
    what all its runs used.
    """

    async def read(client: "Client", namespace: str) -> list[dict[str, Any]]:
        lines = await _lines(client)
        return [line for line in lines if all_namespaces or not cluster.namespace or line["namespace"] == namespace]

    now = time.time()
    jobs = [job for job in _jobs(cluster.run(read), now) if job.line["created"] >= now - since]
    jobs = [job for job in jobs if not user or job.line["user"] == user]
    if by is None:
        items = [job.as_json() for job in sorted(jobs, key=lambda job: -job.line["created"])]
    else:
        totals: dict[str, UseTotal] = {}
        for job in jobs:
            totals.setdefault(_KEYS[by](job), UseTotal()).jobs.append(job)
        items = [{by: key} | totals[key].as_json() for key in sorted(totals)]
    _show(items, output)


def _show(items: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        outputs.show_json({"items": items})
    elif not items:
        outputs.echo("No jobs in this time.", err=True)
    elif output == "csv":
        writer = csv.DictWriter(sys.stdout, items[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in item.items()} for item in items)
    else:
        headers = {name: _HEADERS.get(name, name.upper()) for name in items[0] if name not in _ONLY_MACHINES}
        rows = [tuple(_text(name, item[name]) for name in headers) for item in items]
        outputs.show_table(tuple(headers.values()), rows)


_ONLY_MACHINES = ("kind", "clusterQueue")
_HEADERS = {
    "waitedSeconds": "WAITED",
    "ranSeconds": "RAN",
    "medianWaitSeconds": "MEDIAN WAIT",
    "longestWaitSeconds": "LONGEST WAIT",
    "cpuHours": "CPU HOURS",
    "memoryGiBHours": "GIB HOURS",
    "gpuHours": "GPU HOURS",
}


def _text(name: str, value: Any) -> str:
    if name.endswith("Seconds"):
        from pykueue.dashboard.board import duration_text

        return duration_text(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: names are what users chose."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") and value != "-" else value


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _jobs(lines: Iterable[dict[str, Any]], now: float) -> list[JobUse]:
    jobs: dict[str, JobUse] = {}
    for line in lines:
        jobs.setdefault(line["uid"], JobUse(line=line)).add(line, now)
    return list(jobs.values())


async def _lines(client: "Client") -> list[dict[str, Any]]:
    """The record of the cluster; without one, a line for each Workload that exists."""
    from pykueue.api.errors import ApiError

    try:
        answer = await client.raw("GET", "/history")
    except ApiError as error:
        if error.code not in _UNSERVED:
            raise
    else:
        items: list[dict[str, Any]] = answer["items"]
        return items
    from pykueue.api.resources import WORKLOAD
    from pykueue.dashboard import rows

    outputs.echo(_NO_RECORD, err=True)
    lines = []
    for obj in (await client.list(WORKLOAD)).items:
        row = dict(zip(rows.WORKLOAD_FIELDS, rows.workload(obj), strict=True))
        end = {"end": row["finished"]} if row["finished"] else {}
        lines.append(row | {"outcome": row["state"], "start": row["admitted"]} | end)
    return lines
