"""Watches running containers: the size of their logs, and their memory where no cgroup does it.

A log keeps its last bytes. What is older is given back to the file system as a hole at the
beginning of the file, so that the process writes on, offsets stay, and no line is lost or copied.

The memory of a container is the proportional set size of all its processes: pages that several
processes share count once, shared memory included. RLIMIT_DATA bounds each process at once; the
monitor bounds all of them together, every second.
"""

import asyncio
import contextlib
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pykueue.cluster.runtimes import linux_calls, linux_processes
from pykueue.cluster.runtimes.cgroups import ContainerCgroup
from pykueue.cluster.runtimes.linux_processes import Owner, ProcessIdentity, ProcessTable
from pykueue.cluster.runtimes.orphans import OrphanTracker

log = logging.getLogger(__name__)

MEBIBYTE = 1 << 20
OOM_FILE = "oom"
"""A file in the directory of an attempt that was killed because of its memory."""
_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    log_bytes: int = 50 * MEBIBYTE
    """As a kubelet's five files of 10 MiB."""
    interval_seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredContainer:
    directory: Path
    process: ProcessIdentity
    owner: Owner
    cgroup: ContainerCgroup | None = None
    """A cgroup of which the kernel kills one process when memory is short, not all."""
    memory_bytes: int | None = None


class ContainerMonitor:
    def __init__(self, limits: ContainerLimits, orphans: OrphanTracker) -> None:
        self._limits = limits
        self._orphans = orphans
        self._containers: dict[Path, MonitoredContainer] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, container: MonitoredContainer) -> None:
        self._containers[container.directory] = container
        self.ensure_running()

    def ensure_running(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        """Run as long as there are containers, or processes that they have left."""
        while self._containers or self._orphans:
            await asyncio.sleep(self._limits.interval_seconds)
            containers = list(self._containers.values())
            for container in await asyncio.to_thread(self._check, containers):
                self._containers.pop(container.directory, None)
            self._orphans.look()

    def _check(self, containers: list[MonitoredContainer]) -> list[MonitoredContainer]:
        """Apply the limits; return the containers that have ended."""
        ended = [container for container in containers if not container.process.is_alive()]
        for container in containers:
            with contextlib.suppress(OSError):
                bound_log(container.directory / "log", self._limits.log_bytes)
        limited = [container for container in containers if container.memory_bytes is not None]
        if limited:
            table = ProcessTable.read()
            for container in limited:
                if container not in ended:
                    _bound_memory(container, table)
        for container in containers:
            if container.cgroup is not None and container.cgroup.was_out_of_memory():
                container.cgroup.kill()  # the kernel has killed one of its processes only
        return ended


def bound_log(path: Path, limit_bytes: int) -> None:
    """Keep the last four fifths of the limit of a log that has grown beyond the limit."""
    status = path.stat()
    if status.st_blocks * 512 <= limit_bytes:
        return
    oldest = max(0, status.st_size - limit_bytes * 4 // 5) // _BLOCK_BYTES * _BLOCK_BYTES
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        linux_calls.punch_hole(descriptor, oldest)
    except OSError as error:
        log.warning("%s is emptied, because this file system cannot shorten it: %s", path, error)
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _bound_memory(container: MonitoredContainer, table: ProcessTable) -> None:
    assert container.memory_bytes is not None
    pids = table.of_container(container.process.pid, container.owner)
    if table.resident_bytes(pids) <= container.memory_bytes:
        return
    if sum(map(linux_processes.proportional_bytes, pids)) <= container.memory_bytes:
        return
    (container.directory / OOM_FILE).touch()
    for pid in (container.process.pid, *pids):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
