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
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
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
        mode_of_parent = parent.stat().st_mode
        if mode_of_parent & stat.S_IWOTH and not mode_of_parent & stat.S_ISVTX:
            raise UnsafeDirectoryError(
                f"{path} could be replaced by other users, because everybody may write to {parent}: "
                f"choose another directory, or run chmod o-w {parent}"
            )
    if mode & _OPEN_TO_OTHERS:
        path.chmod(0o700)
    return path
