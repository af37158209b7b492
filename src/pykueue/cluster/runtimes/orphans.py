"""Processes that outlived their parents, of containers without a PID namespace.

A daemon leaves its parent and its process group, and `env -i` removes the mark by which it would
be found. This process is a subreaper: an orphan of its containers becomes its child. Which pod it
belongs to is not written anywhere, so it may belong to any pod that ran when it was first seen,
and is killed when the last of them has ended. Orphans from before a restart are not found.
"""

import contextlib
import os
import signal
from collections.abc import Iterable

from pykueue.cluster.runtimes import linux_calls, linux_processes
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity

_LOOKS_BEFORE_REAPING = 2


class OrphanTracker:
    def __init__(self) -> None:
        self._pods: dict[ProcessIdentity, set[str]] = {}
        """The pods that each orphan may belong to."""
        self._looks: dict[ProcessIdentity, int] = {}
        """How often a zombie was seen."""
        self._running: set[str] = set()

    def container_started(self, pod_uid: str) -> None:
        if not self._running:
            linux_calls.become_subreaper()
        self._running.add(pod_uid)

    def look(self) -> None:
        """Remember new orphans, and reap those that have ended."""
        for process in linux_processes.unmarked_children():
            if not process.is_alive():
                self._reap(process)
            elif process not in self._pods:
                self._pods[process] = set(self._running)
                if not self._running:
                    self._kill(process)

    def _reap(self, process: ProcessIdentity) -> None:
        """Reap an orphan. Whoever started a child of ours reaps it before the third look."""
        self._looks[process] = self._looks.get(process, 0) + 1
        if process in self._pods or self._looks[process] > _LOOKS_BEFORE_REAPING:
            self._pods.pop(process, None)
            self._looks.pop(process)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)

    def pod_ended(self, pod_uid: str) -> None:
        """Kill the orphans that can only belong to this pod or to pods that ended before."""
        if pod_uid not in self._running:
            return
        self.look()
        self._running.discard(pod_uid)
        for process, pods in list(self._pods.items()):
            pods.discard(pod_uid)
            if not pods:
                self._kill(process)

    def _kill(self, process: ProcessIdentity) -> None:
        self._pods.pop(process)
        for pid in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterable[int]:
    return linux_processes.ProcessTable.read().descendants([pid])
