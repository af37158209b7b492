"""Control groups (version 2) for containers, where this process may create them: as root.

A container's cgroup bounds the memory of all its processes, their number and their CPU time, and
ends all of them at once. Without one, RLIMIT_DATA and `monitor` bound the memory.
"""

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

from pykueue.cluster import paths

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
_NAME = "pykueue"
_CONTROLLERS = "cgroup.controllers"
_SUBTREE = "cgroup.subtree_control"
_CPU_PERIOD_MICROSECONDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    memory_bytes: int | None = None
    cpu_milli: int | None = None
    processes: int


class Cgroups:
    """The cgroups of all containers, below one of our own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def detect(cls, root: Path = ROOT) -> "Cgroups | None":
        """None without a writable hierarchy that bounds memory and processes."""
        directory = root / _NAME
        try:
            if not {"memory", "pids"} <= set((root / _CONTROLLERS).read_text().split()):
                return None
            directory.mkdir(exist_ok=True)
            for parent in (root, directory):
                _enable_controllers(parent)
            enabled = set((directory / _SUBTREE).read_text().split())
        except OSError as error:
            log.info("no cgroups: %s", error)
            return None
        return cls(directory) if {"memory", "pids"} <= enabled else None

    def create(self, name: str, limits: CgroupLimits) -> "ContainerCgroup":
        cgroup = ContainerCgroup(paths.inside(self._directory, name))
        cgroup.create(limits)
        return cgroup


def _enable_controllers(directory: Path) -> None:
    """Enable those that are not, one by one: the CPU controller may be missing."""
    enabled = (directory / _SUBTREE).read_text().split()
    for controller in ("memory", "pids", "cpu"):
        if controller not in enabled:
            with contextlib.suppress(OSError):
                (directory / _SUBTREE).write_text(f"+{controller}")


class ContainerCgroup:
    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, limits: CgroupLimits) -> None:
        self.path.mkdir(exist_ok=True)
        values = {self.path / "pids.max": str(limits.processes)}
        if limits.memory_bytes is not None:
            values |= {
                self.path / "memory.max": str(limits.memory_bytes),
                self.path / "memory.swap.max": "0",
                self.path / "memory.oom.group": "1",
            }
        if limits.cpu_milli is not None:
            quota = max(1000, limits.cpu_milli * _CPU_PERIOD_MICROSECONDS // 1000)
            values[self.path / "cpu.max"] = f"{quota} {_CPU_PERIOD_MICROSECONDS}"
        for file, value in values.items():
            if file.exists():
                file.write_text(value)

    def add(self, pid: int) -> None:
        try:
            (self.path / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            log.warning("process %d runs without the limits of its cgroup: %s", pid, error)

    def kill(self) -> None:
        """Kill all processes in the cgroup. Needs Linux 5.14; without it, other ways remain."""
        with contextlib.suppress(OSError):
            if (self.path / "cgroup.kill").exists():
                (self.path / "cgroup.kill").write_text("1")

    def was_out_of_memory(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            lines = (self.path / "memory.events").read_text().splitlines()
            return int(dict(line.split() for line in lines).get("oom_kill", 0)) > 0
        return False

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()
