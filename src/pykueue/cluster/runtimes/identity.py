"""Who a process is, beyond a number that the kernel reuses: pid, start time and boot; and waiting for its end."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


def boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    pid: int
    started: int
    """Clock ticks since boot."""
    is_this_boot: bool = True

    @classmethod
    def parse(cls, stat: str, *, is_this_boot: bool) -> "ProcessIdentity":
        """From a line of /proc/PID/stat; the name in parentheses may hold anything."""
        pid, _, rest = stat.partition(" (")
        fields = rest.rpartition(")")[2].split()
        return cls(pid=int(pid), started=int(fields[19]), is_this_boot=is_this_boot)

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        return cls.parse(Path(f"/proc/{pid}/stat").read_text(), is_this_boot=True)

    def is_alive(self) -> bool:
        if not self.is_this_boot:
            return False
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(f"/proc/{self.pid}/stat").read_text()
            is_zombie = stat.rpartition(")")[2].split()[0] in "ZX"
            return not is_zombie and ProcessIdentity.parse(stat, is_this_boot=True) == self
        return False

    async def ended(self) -> None:
        """Returns when the process has ended, be it our child or not."""
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

    def reap(self) -> int | None:
        """The exit code if it was our child (128 + signal if killed)."""
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        return None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
