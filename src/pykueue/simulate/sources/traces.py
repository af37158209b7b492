"""Jobs from the Standard Workload Format, from Slurm's `sacct --parsable2`, and from Philly."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykueue.simulate.sources.rows import GPU, JobRow, Place, SourceError

_SWF_FIELDS = 18


def swf(path: Path) -> Iterator[JobRow | None]:
    """The Standard Workload Format: 18 numbers a line; -1 means unknown; `;` starts a comment."""
    place = Place(str(path))
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            place.line = number
            text = line.strip()
            if text and not text.startswith(";"):
                yield _swf_job(text.split(), place)


def _swf_job(fields: list[str], place: Place) -> JobRow | None:
    if len(fields) != _SWF_FIELDS:
        message = f"the line has {len(fields)} fields, the Standard Workload Format has {_SWF_FIELDS}"
        raise SourceError(message, file=place.file, line=place.line, remedy="Comments start with a semicolon.")
    processors = place.integer(fields[7], "8 (requested processors)")
    if processors <= 0:
        processors = place.integer(fields[4], "5 (allocated processors)")
    if processors <= 0 or fields[3] == "-1":
        return None
    requested = place.integer(fields[8], "9 (requested time)")
    return JobRow(
        submit_ns=place.time_ns(fields[1], "2 (submit time)"),
        queue="" if fields[14] == "-1" else f"queue-{fields[14]}",
        requests={"cpu": str(processors)},
        run_ns=place.duration_ns(fields[3], "4 (run time)"),
        name=f"job-{fields[0]}",
        owner="" if fields[11] == "-1" else f"user-{fields[11]}",
        limit_ns=requested * 10**9 if requested > 0 else None,
    )


def sacct(path: Path) -> Iterator[JobRow | None]:
    """The output of `sacct --parsable2`: a header, then one job or job step a line."""
    place = Place(str(path), 1)
    with path.open(encoding="utf-8", errors="replace") as file:
        columns = file.readline().rstrip("\n").split("|")
        for required in ("JobID", "Submit"):
            if required not in columns:
                remedy = "Run: sacct -a -X --parsable2 -o JobID,JobName,User,Partition,Submit,ElapsedRaw,ReqTRES"
                raise place.error(f"the header has no {required}", required, remedy)
        for number, line in enumerate(file, 2):
            place.line = number
            cells = line.rstrip("\n").split("|")
            if len(cells) < len(columns):
                raise SourceError(f"{len(cells)} cells, {len(columns)} columns", file=place.file, line=number)
            job = dict(zip(columns, cells, strict=False))
            if "." not in job["JobID"]:  # A step (`12.batch`) is a part of its job.
                yield _sacct_job(job, place)


def _sacct_job(cells: dict[str, str], place: Place) -> JobRow | None:
    """None for a job that never started and has no run time."""
    if cells["Submit"] in ("", "Unknown"):
        return None
    elapsed = cells.get("ElapsedRaw") or cells.get("Elapsed") or ""
    if not elapsed or (elapsed == "0" and cells.get("Start") in ("Unknown", "None")):
        return None
    limit = cells.get("Timelimit", "")
    requests = _tres(cells, place)
    return JobRow(
        submit_ns=place.time_ns(cells["Submit"], "Submit"),
        queue=cells.get("Partition", ""),
        requests=requests,
        run_ns=place.duration_ns(elapsed, "Elapsed"),
        priority=place.integer(cells["Priority"], "Priority") if cells.get("Priority") else 0,
        name=f"{cells.get('JobName') or 'job'}-{cells['JobID']}".replace("_", "-").lower(),
        owner=cells.get("User", ""),
        limit_ns=place.duration_ns(limit, "Timelimit") if limit and limit[0].isdigit() else None,
    )


def _tres(cells: dict[str, str], place: Place) -> dict[str, str]:
    """`cpu=8,mem=64G,node=1,gres/gpu=2` as requests; the whole job is one pod.

    Clusters that count GPUs by type only have `gres/gpu:a100=2`.
    """
    column = "ReqTRES" if cells.get("ReqTRES") else "AllocTRES"
    requests: dict[str, str] = {}
    typed_gpus = 0
    for part in filter(None, (cells.get(column) or "").split(",")):
        name, _, amount = part.partition("=")
        if name == "cpu":
            requests["cpu"] = place.quantity(amount, column)
        elif name == "mem":
            requests["memory"] = place.quantity(amount.rstrip("nc") + ("i" if amount[-1:] in "KMGT" else ""), column)
        elif name == "gres/gpu" and amount != "0":
            requests[GPU] = place.quantity(amount, column)
        elif name.startswith("gres/gpu:"):
            typed_gpus += place.integer(amount, column)
    if typed_gpus and GPU not in requests:
        requests[GPU] = str(typed_gpus)
    if "cpu" not in requests and (count := cells.get("ReqCPUS") or cells.get("NCPUS")):
        requests["cpu"] = place.quantity(count, "ReqCPUS")
    if not requests:
        raise place.error("the job requests nothing", column, "Add ReqTRES to the columns of sacct (-o).")
    return requests


def philly(path: Path) -> Iterator[JobRow | None]:
    """Microsoft's Philly: a list of jobs in JSON (`cluster_job_log`); attempts are added up."""
    try:
        jobs: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise SourceError(f"not JSON: {error}", file=str(path)) from None
    if not isinstance(jobs, list):
        raise SourceError("not a list of jobs", file=str(path), remedy="Give the file cluster_job_log of the trace.")
    for number, job in enumerate(jobs, 1):
        place = Place(str(path), number)
        try:
            row = _philly_job(job, place)
        except (KeyError, TypeError, AttributeError) as error:
            message = f"job {number} of the list lacks {error}"
            raise SourceError(message, file=str(path), remedy="Give the file cluster_job_log of the trace.") from None
        yield row


def _philly_job(job: Any, place: Place) -> JobRow | None:
    for name in ("vc", "jobid", "submitted_time"):
        if not isinstance(job[name], str | None):
            raise place.error(f"{job[name]!r} is not text", name, "Give the file cluster_job_log of the trace.")
    attempts = [attempt for attempt in job["attempts"] if attempt.get("start_time") and attempt.get("end_time")]
    if not attempts or not job["submitted_time"] or job["submitted_time"] == "None":
        return None
    run_ns = sum(
        place.time_ns(attempt["end_time"], "end_time") - place.time_ns(attempt["start_time"], "start_time")
        for attempt in attempts
    )
    hosts = [len(host["gpus"]) for host in attempts[0]["detail"] if host["gpus"]]
    if not hosts:
        return None
    return JobRow(
        submit_ns=place.time_ns(job["submitted_time"], "submitted_time"),
        queue=job["vc"] or "",
        requests={GPU: str(max(hosts))},
        run_ns=max(0, run_ns),
        pods=len(hosts),
        name=job["jobid"].replace("_", "-"),
        owner=str(job.get("user") or ""),
    )
