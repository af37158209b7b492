"""Starts processes with namespaces, mounts and credentials of their own.

A thread takes on what the process shall have, starts it and ends; the process inherits namespaces,
credentials and working directory of the thread. No program runs as root in between, so nothing
that a user chooses (variables, files, paths) is read with more rights than the user has.
docs/decisions/0014-threads-start-isolated-processes.md compares this with unshare and bubblewrap.
"""

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from pykueue.cluster.paths import TEMPORARY
from pykueue.cluster.runtimes import device_files, seccomp
from pykueue.cluster.runtimes import linux_calls as linux

T = TypeVar("T")

_MOUNT_PROGRAM = "/bin/mount"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_ROOT = Path("/")
_PROC = Path("/proc")
_EMPTY_DIRECTORY = "mode=0755,size=1m,nr_inodes=4096"


class UnixUser(msgspec.Struct, frozen=True, kw_only=True):
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = ""
    """Empty: the working directory of the pod."""


class ContainerSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of a container's processes. The default is those of this process."""

    user: UnixUser | None = None
    """Another user than ours. It has no capabilities, and a private view of the file system."""
    has_pid_namespace: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    dropped_capabilities: tuple[int, ...] = ()
    has_seccomp_filter: bool = False
    """Whether it has the filter of `seccomp`."""

    @property
    def is_default(self) -> bool:
        return self == ContainerSecurity()

    @property
    def namespaces(self) -> int:
        flags = linux.CLONE_NEWPID if self.has_pid_namespace else 0
        if self.user is not None:
            flags |= linux.CLONE_NEWIPC
        if flags or self.read_only_root:
            flags |= linux.CLONE_NEWNS
        return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """What a container with another user sees of the file system; other files stay as they are.

    A directory that only its owner may enter is replaced by an empty one, in which nothing but the
    paths of this view exist.
    """

    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    temporary: tuple[Path, Path] | None = None
    """Become /tmp and /var/tmp. They must be new: a user's links in them would be followed."""
    shared_memory_bytes: int | None = None
    hidden: Path | None = None
    """A directory that is replaced whoever may enter it."""
    volumes: tuple[Path, ...] = ()
    """Stay writable if the root is read-only."""
    gpu_files: frozenset[str] = frozenset()
    """The files in /dev of the GPUs that the container may use."""


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a new thread that ends with it: what it changes in the thread is gone."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as caught:  # noqa: BLE001 - it is raised in the waiting task
            error = caught
        loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="sandbox", daemon=True).start()
    return await future


def enter_new(security: ContainerSecurity, view: FileView) -> None:
    """Give the calling thread new namespaces and the file view. The next child is process 1."""
    flags = security.namespaces
    linux.unshare(flags | linux.CLONE_FS)
    os.umask(0o022)
    if flags & linux.CLONE_NEWNS:
        linux.mount(None, _ROOT, None, linux.MS_REC | linux.MS_SLAVE)
    if (user := security.user) is not None:
        device_files.mount_private(frozenset({user.gid, *user.groups}), view.gpu_files)
        _mount_view(view)
    if security.read_only_root:
        _make_read_only(view)
    if security.user is not None and security.has_pid_namespace:
        linux.mount("tmpfs", _PROC, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options=_EMPTY_DIRECTORY)


def enter_existing(security: ContainerSecurity, pid: int) -> None:
    """Move the calling thread into the namespaces of a container."""
    linux.unshare(linux.CLONE_FS)
    os.umask(0o022)
    if security.namespaces:
        linux.enter_namespaces(pid, security.namespaces)


def take_rights(security: ContainerSecurity) -> None:
    """Give the calling thread the rights of the container, for good."""
    user = security.user
    linux.drop_capabilities(security.dropped_capabilities)
    if user is not None:
        linux.join_new_keyring()
        linux.set_groups(user.groups)
        linux.set_group(user.gid)
        linux.set_user(user.uid)
    if user is not None or security.no_new_privileges:
        linux.set_no_new_privileges()
    if security.has_seccomp_filter:
        seccomp.install()


def mount_proc(pid: int) -> None:
    """Mount /proc of the PID namespace of a process. Only a process inside can do that."""
    linux.unshare(linux.CLONE_FS)
    linux.enter_namespaces(pid, linux.CLONE_NEWNS | linux.CLONE_NEWPID)
    words = ["mount", "-n", "-i", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", "/proc"]
    helper = os.posix_spawn(_MOUNT_PROGRAM, words, {})
    _, status = os.waitpid(helper, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise OSError(0, f"exit code {code}", "mount /proc")


# The file view


def private_ancestor(path: Path) -> Path | None:
    """The topmost directory on the way to a path that not everybody may enter."""
    for directory in (*reversed(path.parents), path):
        if not directory.stat().st_mode & stat.S_IXOTH:
            return directory
    return None


def _mount_view(view: FileView) -> None:
    paths = dict.fromkeys(view.writable, False) | dict.fromkeys(view.read_only, True)
    covers = {path: _cover(path, view) for path in paths}
    sources = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path, cover in covers.items() if cover is not None}
    temporary = view.temporary or ()
    temporary_sources = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW) for path in temporary]
    try:
        for descriptor, target in zip(temporary_sources, TEMPORARY, strict=False):
            linux.bind(descriptor, target)
        for directory in sorted({cover for cover in covers.values() if cover is not None and cover not in TEMPORARY}):
            linux.mount("tmpfs", directory, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options=_EMPTY_DIRECTORY)
        for path in sorted(sources):
            path.mkdir(parents=True, exist_ok=True)
            linux.bind(sources[path], path, read_only=paths[path])
    finally:
        for descriptor in (*sources.values(), *temporary_sources):
            os.close(descriptor)
    if _SHARED_MEMORY.is_dir():
        size = "" if view.shared_memory_bytes is None else f",size={view.shared_memory_bytes}"
        linux.mount("tmpfs", _SHARED_MEMORY, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options=f"mode=1777{size}")


def _cover(path: Path, view: FileView) -> Path | None:
    """The directory that hides a path from the container's user; None if the user can reach it."""
    for directory in TEMPORARY:
        if path.is_relative_to(directory):
            return directory
    ancestor = private_ancestor(path)
    if view.hidden is not None and path.is_relative_to(view.hidden):
        return min(filter(None, (ancestor, view.hidden)), key=lambda directory: len(directory.parts))
    return ancestor


def _make_read_only(view: FileView) -> None:
    """Make all mounts read-only, but volumes and shared memory."""
    for path in view.volumes:
        descriptor = os.open(path, os.O_PATH)
        try:
            linux.bind(descriptor, Path(f"/proc/self/fd/{descriptor}"))
        finally:
            os.close(descriptor)
    linux.set_read_only(_ROOT, read_only=True, recursive=True)
    for path in view.volumes:
        linux.set_read_only(path, read_only=False)
    if _SHARED_MEMORY.is_mount():
        linux.set_read_only(_SHARED_MEMORY, read_only=False)
