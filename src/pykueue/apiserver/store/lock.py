"""The lock of a data directory. Only one process may use the directory at a time."""

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

LOCK = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    pid: int
    host: str
    since: str


def holder(directory: Path) -> LockHolder | None:
    """The process that uses the directory; None if there is none."""
    try:
        file = (directory / LOCK).open(encoding="utf-8")
    except OSError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            with contextlib.suppress(ValueError, TypeError):
                return LockHolder(**json.loads(file.read()))
    return None


class DirectoryLock:
    """Held from construction until `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / LOCK).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            from pykueue.apiserver.store.log import StoreInUseError

            self._file.seek(0)
            holder = self._file.read().strip()
            self._file.close()
            raise StoreInUseError(f"{directory} is in use by {_describe(holder)}. Stop it first.") from error
        self._file.truncate(0)
        facts = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


def _describe(holder: str) -> str:
    try:
        facts = json.loads(holder)
        return f"process {facts['pid']} on {facts['host']} since {facts['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
