"""Private files and directories: written atomically, and readable only by their owner."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class UnsafeDirectoryError(Exception):
    """Another user owns the directory, or could have changed what is in it."""


def write_private(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time read, change and write a file. The lock is a file beside it."""
    with open(path.with_name(f".{path.name}.lock"), "a", opener=_open_private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def private_directory(path: Path) -> Path:
    """Create the directory, or check that nobody else could have changed it, as ssh does.

    A directory of ours that others may only read is closed to them.
    """
    try:
        _make(path)
        status = path.stat()
    except OSError as error:
        raise UnsafeDirectoryError(f"{path} cannot be used: {error.strerror}; choose another directory") from error
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        raise UnsafeDirectoryError(
            f"{path} belongs to another user (uid {status.st_uid}): start as that user, or choose another directory"
        )
    if mode & _WRITABLE_BY_OTHERS:
        raise UnsafeDirectoryError(
            f"{path} is writable by other users (mode {mode:04o}): choose another directory, or, if nobody has "
            f"changed it, run chmod 700 {path}"
        )
    for parent in path.resolve().parents:
        _check_parent(path, parent, parent.stat())
    if mode & _OPEN_TO_OTHERS:
        path.chmod(0o700)
    return path


def _make(path: Path) -> None:
    """Create the directory and those above it, closed to others whatever the umask is."""
    if path.exists():
        return
    _make(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _check_parent(path: Path, parent: Path, status: os.stat_result) -> None:
    replaceable = f"{path} could be replaced by other users"
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise UnsafeDirectoryError(
            f"{replaceable}, because everybody may write to {parent}: choose another directory, or run "
            f"chmod o-w {parent}"
        )
    if status.st_uid not in (0, os.geteuid(), _overflow_uid()):
        raise UnsafeDirectoryError(
            f"{replaceable}, because {parent} belongs to uid {status.st_uid}: start as that user, or choose "
            "another directory"
        )


def _overflow_uid() -> int:
    """The uid that owners outside of a container have inside; -1 outside of containers."""
    try:
        if Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]:
            return -1
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return -1
