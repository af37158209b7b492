"""What the processes of pods use of this machine: read from /proc, by the marks that the process runtime puts on them."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from pykueue.cluster.runtimes import leftover_processes

Owner = tuple[str, str]
"""Pod uid and container."""

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Consumed:
    cpu_ns: int = 0
    memory_bytes: int = 0


def measure() -> dict[Owner, Consumed]:
    """Since each process started; a process that ends takes its time with it."""
    found: dict[Owner, Consumed] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if (owner := _owner(entry)) is not None:
                    _add(found.setdefault(owner, Consumed()), entry)
    return found


def _owner(process: Path) -> Owner | None:
    marks = dict(
        part.partition(b"=")[::2]
        for part in (process / "environ").read_bytes().split(b"\0")
        if part.startswith((leftover_processes.MARKER.encode(), leftover_processes.CONTAINER.encode()))
    )
    uid = marks.get(leftover_processes.MARKER.encode())
    return None if uid is None else (uid.decode(), marks.get(leftover_processes.CONTAINER.encode(), b"").decode())


def _add(consumed: Consumed, process: Path) -> None:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    consumed.cpu_ns += (int(fields[11]) + int(fields[12])) * _TICK_NS
    consumed.memory_bytes += int(fields[21]) * _PAGE_BYTES


def rate_nano(before: Consumed | None, after: Consumed, elapsed_ns: int) -> int:
    """Billionths of a CPU between two measurements."""
    used = after.cpu_ns - (before.cpu_ns if before is not None else 0)
    return max(0, used) * 10**9 // max(1, elapsed_ns)
