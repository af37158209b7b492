"""Reads a file of jobs by its kind: manifests, a table, SWF, sacct or Philly's JSON."""

from collections.abc import Iterator
from pathlib import Path

from pykueue.simulate.sources import manifests, tables, traces
from pykueue.simulate.sources.collector import JobCollector
from pykueue.simulate.sources.rows import JobRow, SourceError

FORMATS = ("auto", "manifests", "table", "swf", "sacct", "philly")
_YAML = (".yaml", ".yml")


def format_of(path: Path) -> str:
    """The kind of a file, by its suffix and its first bytes."""
    if path.suffix in _YAML:
        return "manifests"
    if path.suffix == ".parquet":
        return "table"
    with path.open("rb") as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \r\n\t")
    first_line = start.partition(b"\n")[0]
    if path.suffix == ".swf" or start.startswith(b";"):
        return "swf"
    if path.suffix == ".json" or start[:1] in (b"[", b"{"):
        return "philly" if b'"attempts"' in start or b'"vc"' in start else "manifests"
    if b"|" in first_line and b"JobID" in first_line:
        return "sacct"
    return "table"


def add(
    path: Path, collector: JobCollector, *, file_format: str = "auto", run_ns: int | None = None, interval_ns: int = 0
) -> None:
    """Add the jobs of a file; `run_ns` is for jobs of manifests without a run time."""
    try:
        kind = format_of(path) if file_format == "auto" else file_format
        if kind == "manifests":
            loaded = manifests.load([(str(path), path.read_bytes())])
            if not loaded.jobs:
                remedy = "Jobs are kinds such as Job, RayJob or PyTorchJob; queues belong to -f."
                raise SourceError("the file has no job", file=str(path), remedy=remedy)
            manifests.add_jobs(loaded.jobs, collector, run_ns=run_ns, interval_ns=interval_ns)
            return
        before = len(collector.jobs)
        collector.add_rows(_rows(path, kind), str(path))
        if len(collector.jobs) == before:
            raise SourceError(
                "the file has no job that ran", file=str(path), remedy="See docs/planning.md for formats."
            )
    except OSError as error:
        raise SourceError(error.strerror or str(error), file=str(path)) from None


def _rows(path: Path, kind: str) -> Iterator[JobRow | None]:
    match kind:
        case "swf":
            return traces.swf(path)
        case "sacct":
            return traces.sacct(path)
        case "philly":
            return traces.philly(path)
        case _:
            return tables.read(path)
