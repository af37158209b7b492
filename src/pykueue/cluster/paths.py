"""Variable strings as paths: the only module of the cluster that joins one to a path.

Names of volumes, keys of ConfigMaps and annotations come from users, and a process may leave links
where it may write. So a name is checked to be one plain component (`inside`), any other text is
hashed (`key`), and files of volumes are opened from one directory descriptor to the next, where no
link is followed. `tests/tidy/test_paths.py` finds every other join.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - a container of another user has its own
_LONGEST_NAME_BYTES = 255
_LONGEST_PATH = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EXISTING_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePathError(Exception):
    """A name or path would lead out of its directory, or cannot be a file name."""


def inside(root: Path, *names: str) -> Path:
    """`root` joined with names, each of which is one component: neither `..` nor `a/b`."""
    for name in names:
        _check_name(name)
    return root.joinpath(*names)


def key(*texts: str) -> str:
    """A file name for any texts: the same for the same texts, and never a path."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


def components(relative: str) -> tuple[str, ...]:
    """The components of a relative path; UnsafePathError if it is absolute or contains `..`."""
    if relative.startswith("/"):
        raise UnsafePathError(f"invalid path {relative!r:.80}: must be a relative path")
    if len(relative) > _LONGEST_PATH:
        raise UnsafePathError(f"invalid path {relative!r:.80}: is longer than {_LONGEST_PATH} characters")
    names = tuple(name for name in relative.split("/") if name not in ("", "."))
    for name in names:
        _check_name(name)
    return names


def of_host(text: str) -> Path:
    """A path of this machine that a pod names on purpose: `hostPath` and `workingDir`."""
    if not text.startswith("/") or "\0" in text or ".." in text.split("/"):
        raise UnsafePathError(f"invalid path {text!r:.80}: must be an absolute path without '..'")
    return Path(text)


def of_command(working_directory: Path, word: str) -> Path:
    """The file that a process with this working directory starts as its command."""
    return working_directory / word


def make_directory(root: Path, *names: str) -> Path:
    """Create a directory beneath `root`, which must exist; UnsafePathError at a link."""
    with _opened(root, names, create=True):
        return inside(root, *names)


def beneath(root: Path, relative: str, *, create: bool) -> Path:
    """The file or directory at a relative path; UnsafePathError if a link is on the way.

    With `create`, a missing directory is created.
    """
    names = components(relative)
    if not names:
        return root
    with _opened(root, names[:-1], create=create, follows=not create) as descriptor:
        try:
            mode = os.stat(names[-1], dir_fd=descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            if not create:
                raise UnsafePathError(f"path {relative!r:.80} does not exist") from None
            os.mkdir(names[-1], 0o700, dir_fd=descriptor)
        else:
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise UnsafePathError(f"path {relative!r:.80} is neither a directory nor a plain file")
    return inside(root, *names)


def write_file(root: Path, relative: str, content: bytes, mode: int) -> None:
    """Write a file beneath `root`. It replaces whatever is there, also a link, in one step."""
    names = components(relative)
    if not names:
        raise UnsafePathError(f"invalid path {relative!r:.80}: must name a file")
    with _opened(root, names[:-1], create=True) as directory:
        if _has_content(directory, names[-1], content, mode):
            return
        temporary = f".{secrets.token_hex(8)}"
        descriptor = os.open(temporary, _NEW_FILE, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.rename(temporary, names[-1], src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            os.unlink(temporary, dir_fd=directory)
            if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
                raise UnsafePathError(f"path {relative!r:.80} is a directory") from error
            raise


def give(root: Path, uid: int, gid: int) -> None:
    """Give what this process has created beneath `root` to another user.

    `root` stays ours, so that the user cannot put a link in the place of a directory in it. The
    user's processes may run already: no link is followed, and a file that has another name
    somewhere else, perhaps a hard link of the user's, stays as it is.
    """
    root.chmod(0o711)
    for _, directories, files, descriptor in os.fwalk(root, follow_symlinks=False):
        for name in (*directories, *files):
            with contextlib.suppress(OSError):
                _give_entry(descriptor, name, uid, gid)


def remove_tree(root: Path) -> None:
    """Remove a directory that a hostile process has filled. What cannot be removed stays.

    Directories are moved up before they are removed, so that their depth costs neither stack nor
    descriptors. No link is followed.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(root, _DIRECTORY)
        try:
            while names := _remove_files(descriptor):
                if sum(_flatten(descriptor, name) for name in names) == 0:
                    break
        finally:
            os.close(descriptor)
        root.rmdir()


def _remove_files(directory: int) -> list[str]:
    """Remove all entries but directories; return the names of these."""
    directories = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=directory)
    return directories


def _flatten(parent: int, name: str) -> bool:
    """Move the directories in a directory up to its parent, and remove it; False if it stays."""
    try:
        child = _open_fully(parent, name)
        try:
            for inner in _remove_files(child):
                os.close(_open_fully(child, inner))
                os.rename(inner, f".{secrets.token_hex(8)}", src_dir_fd=child, dst_dir_fd=parent)
        finally:
            os.close(child)
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True


def _open_fully(parent: int, name: str) -> int:
    """Open a directory, and give its owner all rights to it if it has not."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(path).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{path}").chmod(stat.S_IRWXU)
        return os.open(".", _DIRECTORY, dir_fd=path)
    finally:
        os.close(path)


def _give_entry(directory: int, name: str, uid: int, gid: int) -> None:
    descriptor = os.open(name, _EXISTING_FILE, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        is_plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
        if is_plain and status.st_uid == os.geteuid():
            os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)


def _check_name(name: str) -> None:
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= _LONGEST_NAME_BYTES or name in (".", "..") or "/" in name or "\0" in name:
        raise UnsafePathError(f"invalid file name {name!r:.80}: must be one name of at most 255 bytes, not a path")


@contextlib.contextmanager
def _opened(root: Path, names: Sequence[str], *, create: bool, follows: bool = False) -> Iterator[int]:
    """The descriptor of a directory beneath `root`; no link below `root` is followed.

    `root` itself may be a link only with `follows`.
    """
    descriptor = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW if follows else _DIRECTORY)
    try:
        for name in names:
            child = _open_child(descriptor, name, create=create)
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def _open_child(directory: int, name: str, *, create: bool) -> int:
    _check_name(name)
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=directory)
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
            raise UnsafePathError(f"{name!r:.80} is not a directory: a link or a file, or it is absent") from error
        raise


def _has_content(directory: int, name: str, content: bytes, mode: int) -> bool:
    """Whether a plain file with this content and mode is there; never waits for a pipe."""
    try:
        descriptor = os.open(name, _EXISTING_FILE, dir_fd=directory)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (status.st_size, stat.S_IMODE(status.st_mode)) != (len(content), mode):
            return False
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read() == content
    finally:
        os.close(descriptor)
