"""Control groups for containers, where this process may create them: as root.

A container's cgroup bounds the memory of all its processes, their number and their CPU time, and
ends all of them at once. Without one, RLIMIT_DATA and `monitor` bound the memory.

Version 2 has one hierarchy. Version 1 has one for each controller: there a container has a cgroup
in each, beneath the one that this process is in, so that limits of this process cover its jobs.
"""

import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pykueue.cluster import paths

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
_NAME = "pykueue"
_CONTROLLERS = "cgroup.controllers"
_SUBTREE = "cgroup.subtree_control"
_PROCESSES = "cgroup.procs"
_CPU_PERIOD_MICROSECONDS = 100_000
_REQUIRED = frozenset({"memory", "pids"})
_USED = ("memory", "pids", "cpu")
_POLLS, _POLL_SECONDS = 50, 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    memory_bytes: int | None = None
    cpu_milli: int | None = None
    processes: int

    def files(self) -> Iterable[tuple[str, str]]:
        """What is written to which file, for both versions; the order matters in version 1."""
        yield "pids.max", str(self.processes)
        if self.memory_bytes is not None:
            yield "memory.max", str(self.memory_bytes)
            yield "memory.swap.max", "0"
            yield "memory.oom.group", "1"
            yield "memory.limit_in_bytes", str(self.memory_bytes)
            yield "memory.memsw.limit_in_bytes", str(self.memory_bytes)
        if self.cpu_milli is not None:
            quota = max(1000, self.cpu_milli * _CPU_PERIOD_MICROSECONDS // 1000)
            yield "cpu.max", f"{quota} {_CPU_PERIOD_MICROSECONDS}"
            yield "cpu.cfs_period_us", str(_CPU_PERIOD_MICROSECONDS)
            yield "cpu.cfs_quota_us", str(quota)


class Cgroups:
    """The cgroups of all containers, below one of our own in each hierarchy."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories

    @classmethod
    def detect(cls, root: Path = ROOT, processes: Path = Path("/proc")) -> "Cgroups | None":
        """None without writable hierarchies that bound memory and processes."""
        try:
            if (root / _CONTROLLERS).exists():
                return cls._version_2(root)
            return cls._version_1(root, processes)
        except OSError as error:
            log.info("no cgroups: %s", error)
            return None

    @classmethod
    def _version_2(cls, root: Path) -> "Cgroups | None":
        directory = root / _NAME
        if not set((root / _CONTROLLERS).read_text().split()) >= _REQUIRED:
            return None
        directory.mkdir(exist_ok=True)
        for parent in (root, directory):
            _enable_controllers(parent)
        return cls(directory) if set((directory / _SUBTREE).read_text().split()) >= _REQUIRED else None

    @classmethod
    def _version_1(cls, root: Path, processes: Path) -> "Cgroups | None":
        parents = _own_cgroups(root, (processes / "self" / "cgroup").read_text())
        if not parents.keys() >= _REQUIRED:
            return None
        directories = {controller: parent / _NAME for controller, parent in parents.items()}
        for directory in directories.values():
            directory.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # another pykueue has containers there
                directory.rmdir()
        return cls(*directories.values())

    def create(self, name: str, limits: CgroupLimits) -> "ContainerCgroup":
        cgroup = ContainerCgroup(tuple(paths.inside(directory, name) for directory in self._directories))
        cgroup.create(limits)
        return cgroup


def _own_cgroups(root: Path, text: str) -> dict[str, Path]:
    """The cgroup of this process in each hierarchy that we use, from /proc/self/cgroup.

    In a container the hierarchy is mounted without the directories above that cgroup.
    """
    own: dict[str, Path] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for controller in set(names.split(",")) & set(_USED):
            hierarchy = paths.inside(root, controller)
            inside = paths.inside(hierarchy, *paths.components(path.lstrip("/")))
            directory = inside if (inside / _PROCESSES).exists() else hierarchy
            if os.access(directory / _PROCESSES, os.W_OK):
                own[controller] = directory
    return own


def _enable_controllers(directory: Path) -> None:
    """Enable those that are not, one by one: the CPU controller may be missing."""
    enabled = (directory / _SUBTREE).read_text().split()
    for controller in _USED:
        if controller not in enabled:
            with contextlib.suppress(OSError):
                (directory / _SUBTREE).write_text(f"+{controller}")


def _make(directory: Path) -> None:
    """Create a cgroup, and the one above it, which another pykueue may be removing."""
    for _ in range(_POLLS):
        with contextlib.suppress(FileNotFoundError):
            directory.parent.mkdir(exist_ok=True)
            directory.mkdir(exist_ok=True)
            return
    directory.mkdir(exist_ok=True)


class ContainerCgroup:
    """One container's cgroup: a directory, or in version 1 one for each controller."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self._directories = directories

    @classmethod
    def parse(cls, text: str) -> "ContainerCgroup":
        return cls(tuple(paths.of_host(line) for line in text.splitlines()))

    def __str__(self) -> str:
        """What `parse` reads, after a restart."""
        return "\n".join(map(str, self._directories))

    @property
    def ends_as_a_whole(self) -> bool:
        """Whether the kernel kills all processes at once when memory is short: version 2 does."""
        return any((directory / "memory.oom.group").exists() for directory in self._directories)

    def create(self, limits: CgroupLimits) -> None:
        for directory in self._directories:
            _make(directory)
        for name, value in limits.files():
            for file in self._files(name):
                file.write_text(value)

    def _files(self, name: str) -> list[Path]:
        """The files of this name that the kernel has."""
        files = [paths.inside(directory, name) for directory in self._directories]
        return [file for file in files if file.exists()]

    def add(self, pid: int) -> None:
        """Move a process here, before it starts others; OSError if its limits would not hold."""
        for directory in self._directories:
            (directory / _PROCESSES).write_text(str(pid))

    def join_thread(self) -> None:
        """Move the calling thread here, so that what it starts is here from the beginning.

        Version 2 cannot move a thread alone: there the started process is added afterwards.
        """
        for file in self._files("tasks"):
            file.write_text("0")

    def kill(self) -> None:
        """Kill all processes in the cgroup; version 2 needs Linux 5.14 for it."""
        with contextlib.suppress(OSError):
            if files := self._files("cgroup.kill"):
                files[0].write_text("1")
                return
        for _ in range(_POLLS):
            pids = self._pids()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)

    def _pids(self) -> set[int]:
        pids: set[int] = set()
        for file in self._files(_PROCESSES):
            with contextlib.suppress(OSError):
                pids |= {int(line) for line in file.read_text().split()}
        return pids - {0}

    def was_out_of_memory(self) -> bool:
        for file in (*self._files("memory.events"), *self._files("memory.oom_control")):
            with contextlib.suppress(OSError, ValueError):
                counters = dict(line.split() for line in file.read_text().splitlines())
                if int(counters.get("oom_kill", 0)) > 0:
                    return True
        return False

    def remove(self) -> None:
        """Remove the cgroup as soon as its last process has ended, and ours if it is the last."""
        for directory in self._directories:
            for _ in range(_POLLS):
                with contextlib.suppress(OSError):
                    if directory.exists():
                        directory.rmdir()
                    break
                time.sleep(_POLL_SECONDS)
            if not (directory.parent / _SUBTREE).exists():
                with contextlib.suppress(OSError):
                    directory.parent.rmdir()
