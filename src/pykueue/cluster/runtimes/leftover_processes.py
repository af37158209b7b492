"""Processes that left their group (daemons such as Ray's): found by the mark that their pod put in the environment."""

import contextlib
import os
import signal
from pathlib import Path

MARKER = "PYKUEUE_POD_UID"
CONTAINER = "PYKUEUE_CONTAINER"


def find(pod_uid: str) -> list[int]:
    mark = f"{MARKER}={pod_uid}".encode()
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def end(pod_uid: str) -> int:
    """Kills them; returns how many there were."""
    found = find(pod_uid)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)
