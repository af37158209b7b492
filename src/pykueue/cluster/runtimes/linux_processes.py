"""Processes of this machine, read from /proc: their identity, pod and resource usage.

The process runtime sets POD_UID and CONTAINER in the environment of every process that it starts.
Processes that leave their process group, such as Ray's daemons, are found by them.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

POD_UID = "PYKUEUE_POD_UID"
CONTAINER = "PYKUEUE_CONTAINER"
MARKS = (POD_UID, CONTAINER)

Owner = tuple[str, str]
"""Pod uid and container name."""

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_GROUP_POLLS = 100
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def stat_line(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process; its start time and boot distinguish it from a later one with the same pid."""

    pid: int
    started: int
    """Clock ticks since boot."""
    is_this_boot: bool = True

    @classmethod
    def parse(cls, stat: str, *, is_this_boot: bool) -> "ProcessIdentity":
        """Parse /proc/PID/stat. The name in parentheses may have any character."""
        pid, _, rest = stat.partition(" (")
        fields = rest.rpartition(")")[2].split()
        return cls(pid=int(pid), started=int(fields[19]), is_this_boot=is_this_boot)

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        return cls.parse(stat_line(pid), is_this_boot=True)

    def is_alive(self) -> bool:
        if not self.is_this_boot:
            return False
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = stat_line(self.pid)
            is_zombie = stat.rpartition(")")[2].split()[0] in "ZX"
            return not is_zombie and ProcessIdentity.parse(stat, is_this_boot=True) == self
        return False

    async def ended(self) -> None:
        """Wait until the process has ended, whether it is a child of ours or not."""
        if not self.is_alive():
            return
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():
                await _readable(descriptor)
        finally:
            os.close(descriptor)

    async def group_ended(self) -> None:
        """Wait until the killed processes of its group have ended, but no longer than a second.

        Those that have become our children are reaped.
        """
        for _ in range(_GROUP_POLLS if self.is_this_boot else 0):
            try:
                _reap_group(self.pid)
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            await asyncio.sleep(1 / _GROUP_POLLS)

    def reap(self) -> int | None:
        """The exit code of a child, 128 + signal if killed; None for other processes."""
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        return None


def _reap_group(group: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _processes() -> Iterator[Path]:
    """The directories of all processes; none where there is no /proc."""
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdecimal():
            yield entry


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """All processes at one moment."""

    parents: dict[int, int]
    resident: dict[int, int]
    """Bytes in memory, shared ones included, by pid."""

    @classmethod
    def read(cls) -> "ProcessTable":
        table = cls({}, {})
        for process in _processes():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                table.parents[int(process.name)] = int(fields[1])
                table.resident[int(process.name)] = int(fields[21]) * _PAGE_BYTES
        return table

    def of_container(self, pid: int, owner: Owner) -> list[int]:
        """The main process with its descendants, and what left them but has the container's mark.

        Only processes whose parent is this process (`kubectl exec`) or process 1 can have left.
        They can remove the mark, but leave no PID namespace.
        """
        roots, namespace = {pid}, _foreign_namespace(pid)
        for other, parent in self.parents.items():
            if parent in (1, os.getpid()) and other != pid:
                with contextlib.suppress(OSError):
                    is_inside = namespace is not None and _pid_namespace(other) == namespace
                    if is_inside or _owner(Path(f"/proc/{other}")) == owner:
                        roots.add(other)
        return self.descendants(roots)

    def children(self, pid: int) -> list[int]:
        return [child for child, parent in self.parents.items() if parent == pid]

    def descendants(self, roots: Iterable[int]) -> list[int]:
        """The processes of these pids that still run, and all that descend from them."""
        children: dict[int, list[int]] = {}
        for child, parent in self.parents.items():
            children.setdefault(parent, []).append(child)
        pids, pending = [], [root for root in roots if root in self.parents]
        while pending:
            current = pending.pop()
            pids.append(current)
            pending += children.get(current, ())
        return pids

    def resident_bytes(self, pids: list[int]) -> int:
        return sum(self.resident[pid] for pid in pids)


def _pid_namespace(pid: int) -> str:
    return os.fspath(Path(f"/proc/{pid}/ns/pid").readlink())


def _foreign_namespace(pid: int) -> str | None:
    """The PID namespace of a process; None if it is ours."""
    with contextlib.suppress(OSError):
        namespace = _pid_namespace(pid)
        return None if namespace == _pid_namespace(os.getpid()) else namespace
    return None


def proportional_bytes(pid: int) -> int:
    """The memory of a process; pages that n processes share count as one n-th.

    Pages of files do not count: the kernel takes them back when memory is short.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)}
        if "Pss_Anon" in sizes:
            return sizes["Pss_Anon"] + sizes.get("Pss_Shmem", 0)
        return sizes.get("Pss", 0)
    return 0


def child_pids() -> set[int]:
    """The children of this process, zombies included."""
    children: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            children |= set(map(int, (task / "children").read_text().split()))
    return children


def is_marked(pid: int) -> bool:
    """Whether a process has the mark of a container; a zombie has no environment."""
    with contextlib.suppress(OSError):
        return _owner(Path(f"/proc/{pid}")) is not None
    return False


def pod_processes(pod_uid: str) -> list[int]:
    variable = f"{POD_UID}={pod_uid}".encode()
    pids = []
    for process in _processes():
        if int(process.name) != os.getpid():
            with contextlib.suppress(OSError):
                if variable in (process / "environ").read_bytes().split(b"\0"):
                    pids.append(int(process.name))
    return pids


def kill_pod_processes(pod_uid: str) -> int:
    """Kill all processes of a pod; return how many there were."""
    pids = pod_processes(pod_uid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


@dataclass(slots=True)
class ProcessUsage:
    cpu_ns: int = 0
    memory_bytes: int = 0


def measure_usage() -> dict[Owner, ProcessUsage]:
    """CPU time and memory of the processes that still run, by container."""
    usage: dict[Owner, ProcessUsage] = {}
    for process in _processes():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if (owner := _owner(process)) is not None:
                _add_usage(usage.setdefault(owner, ProcessUsage()), process)
    return usage


def _owner(process: Path) -> Owner | None:
    variables = dict(
        variable.partition(b"=")[::2]
        for variable in (process / "environ").read_bytes().split(b"\0")
        if variable.startswith((POD_UID.encode(), CONTAINER.encode()))
    )
    uid = variables.get(POD_UID.encode())
    return None if uid is None else (uid.decode(), variables.get(CONTAINER.encode(), b"").decode())


def _add_usage(usage: ProcessUsage, process: Path) -> None:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    usage.cpu_ns += (int(fields[11]) + int(fields[12])) * _TICK_NS
    usage.memory_bytes += int(fields[21]) * _PAGE_BYTES


def cpu_rate_nano(before: ProcessUsage | None, after: ProcessUsage, elapsed_ns: int) -> int:
    """Billionths of a CPU between two measurements."""
    used = after.cpu_ns - (before.cpu_ns if before is not None else 0)
    return max(0, used) * 10**9 // max(1, elapsed_ns)
