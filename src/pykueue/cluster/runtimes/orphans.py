"""Processes that outlived their parents, of containers without a PID namespace.

A daemon leaves its parent and its process group, and `env -i` removes the mark by which it would
be found. This process is a subreaper: an orphan of its containers becomes its child. Which pod it
belongs to is not written anywhere, so it may belong to any pod that ran when it was first seen,
and is killed when the last of them has ended. Orphans from before a restart are not found.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

from pykueue.cluster.runtimes import linux_calls, linux_processes
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity

_NEW_SECONDS = 2.0
"""A younger child may be one of ours that is just being started, and has no mark yet."""


@dataclass(slots=True)
class _Orphan:
    pods: set[str]
    """The pods that it may belong to."""
    first_seen: float

    @property
    def is_new(self) -> bool:
        return time.monotonic() - self.first_seen < _NEW_SECONDS


class OrphanTracker:
    def __init__(self) -> None:
        self._orphans: dict[ProcessIdentity, _Orphan] = {}
        self._own: set[int] = set()
        self._running: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there are orphans to look after."""
        return bool(self._orphans)

    def container_started(self, pod_uid: str) -> None:
        if not self._running:
            linux_calls.become_subreaper()
        self._running.add(pod_uid)

    def add_child(self, pid: int) -> None:
        """A process that was started here: whoever started it reaps it."""
        self._own.add(pid)

    def pod_ended(self, pod_uid: str) -> None:
        if pod_uid in self._running:
            self._find()
            self._running.discard(pod_uid)
            for orphan in self._orphans.values():
                orphan.pods.discard(pod_uid)
            self.look()

    def look(self) -> None:
        """Find new orphans, reap those that have ended, and kill those whose pods have ended."""
        self._find()
        for process, orphan in list(self._orphans.items()):
            if not self._is_orphan(process.pid):
                del self._orphans[process]
            elif not orphan.is_new:
                self._end(process, orphan)

    def _find(self) -> None:
        children = linux_processes.child_pids()
        self._own &= children
        for pid in filter(self._is_orphan, children):
            with contextlib.suppress(OSError, ValueError, IndexError):
                self._orphans.setdefault(ProcessIdentity.of(pid), _Orphan(set(self._running), time.monotonic()))

    def _is_orphan(self, pid: int) -> bool:
        return pid not in self._own and not linux_processes.is_marked(pid)

    def _end(self, process: ProcessIdentity, orphan: _Orphan) -> None:
        if not process.is_alive():
            del self._orphans[process]
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        elif not orphan.pods:
            for pid in (process.pid, *_descendants(process.pid)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterable[int]:
    return linux_processes.ProcessTable.read().descendants([pid])
