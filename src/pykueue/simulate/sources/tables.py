"""Jobs from CSV and Parquet tables: pykueue's own columns, and the layouts of public GPU traces.

The layout is recognised by its columns. Own columns are `submit`, `run` and any of `queue`,
`priority`, `pods`, `name`, `user`, `limit`, `startup`, `cpu`, `memory`, `gpu`; a column whose name
has a slash is an extended resource, such as `nvidia.com/gpu`. Amounts are for one pod.
"""

import csv
import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pykueue.simulate.sources.rows import GPU, JobRow, Place, SourceError

Cells = Mapping[str, str]
Layout = Callable[[Cells, Place], JobRow | None]

_ALIASES = {
    "submit": ("submit", "submit_time", "submitted", "arrival", "created"),
    "run": ("run", "run_time", "runtime", "duration", "seconds"),
    "queue": ("queue", "local_queue", "queue_name"),
    "priority": ("priority",),
    "pods": ("pods", "count", "replicas"),
    "name": ("name", "job", "job_id", "job_name"),
    "user": ("user", "owner"),
    "limit": ("limit", "time_limit"),
    "startup": ("startup",),
    "cpu": ("cpu", "cpus"),
    "memory": ("memory", "mem"),
    "gpu": ("gpu", "gpus"),
}
_COLUMN_OF = {alias: column for column, aliases in _ALIASES.items() for alias in aliases}
_PAI_TASK_COLUMNS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
_OWN_COLUMNS = "submit, run, queue, priority, pods, name, user, limit, startup, cpu, memory, gpu, nvidia.com/gpu"


def read(path: Path) -> Iterator[JobRow | None]:
    """The jobs of a table, in the order of its rows; None for a row without a run."""
    columns, lines = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    place = Place(str(path), 1)
    layout = _layout(columns, place)
    for line, cells in lines:
        place.line = line
        yield layout(dict(zip(columns, cells, strict=False)), place)


def _csv(path: Path) -> tuple[list[str], Iterator[tuple[int, Sequence[str]]]]:
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        first = file.readline()
    if not first.strip():
        raise SourceError("the first line is empty", file=str(path), remedy=f"It names columns: {_OWN_COLUMNS}.")
    delimiter = next((mark for mark in ",\t;" if mark in first), ",")
    header = next(csv.reader([first], delimiter=delimiter), [])
    columns = [name.strip() for name in header]
    has_header = not _is_task_without_header(columns)

    def lines() -> Iterator[tuple[int, Sequence[str]]]:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=delimiter)
            if has_header:
                next(reader, None)
            try:
                for cells in reader:
                    if any(cell.strip() for cell in cells):
                        _check_width(cells, columns if has_header else _PAI_TASK_COLUMNS, str(path), reader.line_num)
                        yield reader.line_num, cells
            except (csv.Error, UnicodeDecodeError) as error:
                raise SourceError(str(error), file=str(path), line=reader.line_num) from None

    return (columns if has_header else list(_PAI_TASK_COLUMNS)), lines()


def _check_width(cells: Sequence[str], columns: Sequence[str], file: str, line: int) -> None:
    if len(cells) != len(columns):
        message = f"the row has {len(cells)} cells, the header has {len(columns)}"
        remedy = "Quote cells that contain a comma." if len(cells) > len(columns) else "Add the missing cells."
        raise SourceError(message, file=file, line=line, remedy=remedy)


def _is_task_without_header(cells: list[str]) -> bool:
    """PAI's files come without a header; the status is in the fourth column."""
    return len(cells) == len(_PAI_TASK_COLUMNS) and cells[3] in ("Terminated", "Failed", "Running", "Waiting")


def _parquet(path: Path) -> tuple[list[str], Iterator[tuple[int, Sequence[str]]]]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        remedy = "Install it with `pip install pykueue[parquet]`, or convert the file to CSV."
        raise SourceError("reading Parquet needs pyarrow", file=str(path), remedy=remedy) from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise SourceError(f"not a Parquet file: {error}", file=str(path)) from None

    def lines() -> Iterator[tuple[int, Sequence[str]]]:
        number = 0
        for batch in file.iter_batches():
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            for cells in rows:
                number += 1
                yield number, ["" if cell is None else str(cell) for cell in cells]

    return list(file.schema_arrow.names), lines()


def _layout(columns: list[str], place: Place) -> Layout:
    names = set(columns)
    if {"vc", "gpu_num", "submit_time"} <= names:
        return _helios
    if {"plan_gpu", "inst_num"} <= names:
        return _pai
    if {"num_gpu", "cpu_milli"} <= names:
        return _pai_pods
    return _own_layout(columns, place)


def _own_layout(columns: list[str], place: Place) -> Layout:
    column_of: dict[str, str] = {}
    for name in columns:
        word = _COLUMN_OF.get(name.lower().replace(" ", "_"))
        if word is None and "/" not in name:
            close = difflib.get_close_matches(name.lower(), _COLUMN_OF, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise place.error("pykueue does not know it", name, f"{hint}Known columns: {_OWN_COLUMNS}.")
        if (word or name) in column_of.values():
            raise place.error("the table has this column twice", name, "Remove or rename one of them.")
        column_of[name] = word or name
    for required in ("submit", "run"):
        if required not in column_of.values():
            remedy = f"Known columns: {_OWN_COLUMNS}."
            message = f"the table has no column {required}, it has {', '.join(columns)}"
            raise SourceError(message, file=place.file, line=place.line, remedy=remedy)
    return lambda cells, at: _own({column_of[name]: cell for name, cell in cells.items()}, at)


def _own(cells: Cells, place: Place) -> JobRow:
    def cell(name: str) -> str:
        return cells.get(name, "").strip()

    requests = {name: place.quantity(cell(name), name) for name in cells if "/" in name and cell(name)}
    for name, resource in (("cpu", "cpu"), ("memory", "memory"), ("gpu", GPU)):
        if cell(name):
            requests[resource] = place.quantity(cell(name), name)
    if not requests:
        raise place.error("the job requests nothing", "cpu, memory, gpu", "Fill in at least one of these columns.")
    return JobRow(
        submit_ns=place.time_ns(cell("submit"), "submit"),
        queue=cell("queue"),
        requests=requests,
        run_ns=place.duration_ns(cell("run"), "run") if cell("run") else None,
        pods=place.count(cell("pods"), "pods") if cell("pods") else 1,
        priority=place.integer(cell("priority"), "priority") if cell("priority") else 0,
        name=cell("name") or None,
        owner=cell("user"),
        limit_ns=place.duration_ns(cell("limit"), "limit") if cell("limit") else None,
        startup_ns=place.duration_ns(cell("startup"), "startup") if cell("startup") else 0,
    )


def _helios(cells: Cells, place: Place) -> JobRow | None:
    """SenseTime's Helios: one job a row, its virtual cluster is the queue."""
    gpus, nodes = place.integer(cells["gpu_num"] or "0", "gpu_num"), cells.get("node_num", "")
    pods = max(1, place.integer(nodes, "node_num")) if nodes else 1
    cpus = cells.get("cpu_num", "")
    requests = {GPU: str(math.ceil(gpus / pods))} if gpus else {}
    if cpus:
        requests["cpu"] = str(math.ceil(place.integer(cpus, "cpu_num") / pods))
    return JobRow(
        submit_ns=place.time_ns(cells["submit_time"], "submit_time"),
        queue=cells["vc"],
        requests=requests,
        run_ns=place.duration_ns(cells.get("duration") or "0", "duration"),
        pods=pods,
        name=cells.get("job_id") or None,
        owner=cells.get("user", ""),
    )


def _pai(cells: Cells, place: Place) -> JobRow | None:
    """Alibaba's PAI of 2020: one task a row; 100 are one GPU or one CPU.

    The trace has no submit time, so a task arrives when it started. Tasks without an end are left
    out.
    """
    if not cells["start_time"] or not cells["end_time"]:
        return None
    start_ns = place.time_ns(cells["start_time"], "start_time")
    requests = {}
    if cells.get("plan_cpu"):
        requests["cpu"] = place.quantity(f"{place.integer(cells['plan_cpu'], 'plan_cpu') * 10}m", "plan_cpu")
    if cells.get("plan_mem"):
        requests["memory"] = place.quantity(f"{max(1, place.integer(cells['plan_mem'], 'plan_mem'))}Gi", "plan_mem")
    gpu_share = place.integer(cells["plan_gpu"], "plan_gpu") if cells.get("plan_gpu") else 0
    if gpu_share:
        requests[GPU] = str(math.ceil(gpu_share / 100))
    return JobRow(
        submit_ns=start_ns,
        queue=cells.get("gpu_type", "") or "",
        requests=requests,
        run_ns=max(0, place.time_ns(cells["end_time"], "end_time") - start_ns),
        pods=max(1, place.integer(cells["inst_num"] or "1", "inst_num")),
        name=f"{cells['job_name']}-{cells['task_name']}",
        owner=cells.get("user", ""),
    )


def _pai_pods(cells: Cells, place: Place) -> JobRow | None:
    """Alibaba's pods of 2023: one pod a row, with its priority class in `qos`."""
    if not cells.get("creation_time") or not cells.get("deletion_time"):
        return None
    created_ns = place.time_ns(cells["creation_time"], "creation_time")
    started_ns = place.time_ns(cells.get("scheduled_time") or cells["creation_time"], "scheduled_time")
    requests = {"cpu": place.quantity(f"{place.integer(cells['cpu_milli'], 'cpu_milli')}m", "cpu_milli")}
    if cells.get("memory_mib"):
        requests["memory"] = place.quantity(f"{place.integer(cells['memory_mib'], 'memory_mib')}Mi", "memory_mib")
    gpus = place.integer(cells["num_gpu"] or "0", "num_gpu")
    if gpus:
        requests[GPU] = str(gpus)
    return JobRow(
        submit_ns=created_ns,
        queue=cells.get("qos", ""),
        requests=requests,
        run_ns=max(0, place.time_ns(cells["deletion_time"], "deletion_time") - started_ns),
        name=cells.get("name") or None,
    )
