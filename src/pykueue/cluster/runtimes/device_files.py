"""A private /dev for isolated containers: the devices that the user may open, without the GPUs of
other pods.

GPUs are files: whoever can open /dev/nvidia1 can use that GPU, whatever CUDA_VISIBLE_DEVICES says.
The private /dev is a new directory, so files that a driver creates later are not in it, either.
Called by `sandbox` in the thread that starts the process.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from pykueue.cluster.runtimes import linux_calls as linux

DIRECTORY = Path("/dev")
_GPU_INFORMATION = Path("/proc/driver/nvidia/gpus")
_GPU_FILE = re.compile(r"nvidia(\d{1,6})", re.ASCII)
_GPU_PARTITIONS = ("nvidia-caps", "nvidia-caps-imex-channels")
"""Files of parts of GPUs; only for containers with GPUs."""
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_TERMINALS, _TERMINAL_DOOR, _SHARED_MEMORY = "pts", "ptmx", "shm"
_REPLACED = frozenset({_TERMINALS, _TERMINAL_DOOR, _SHARED_MEMORY, "mqueue", "kmsg"})
"""The job has its own of these; the messages of the kernel are not for it."""
_TERMINAL_OPTIONS = "newinstance,ptmxmode=0666,mode=0620"
_DIRECTORY_OPTIONS = "mode=0755,size=1m,nr_inodes=4096"


def has_gpu_files() -> bool:
    return any(_GPU_FILE.fullmatch(path.name) for path in DIRECTORY.iterdir())


def gpu_files(indexes: Iterable[int]) -> frozenset[str]:
    """The names of the files of GPUs, by their indexes in the order of the PCI bus."""
    minors = _minors()
    return frozenset(f"nvidia{minors.get(index, index)}" for index in indexes)


def _minors() -> dict[int, int]:
    """The number of each GPU's file by its index; none if the driver does not say it."""
    with contextlib.suppress(OSError):
        texts = [(directory / "information").read_text() for directory in sorted(_GPU_INFORMATION.iterdir())]
        return dict(enumerate(int(match.group(1)) for match in map(_MINOR.search, texts) if match))
    return {}


def mount_private(groups: frozenset[int], gpus: frozenset[str]) -> None:
    """Replace /dev in the mount namespace of the calling thread.

    It has what everybody or one of the groups may open, and of the GPUs only those named.
    """
    with contextlib.ExitStack() as stack:
        links: dict[Path, Path] = {}
        descriptors: dict[Path, int] = {}
        for path in DIRECTORY.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if not _is_visible(path.name, gpus):
                    continue
                if stat.S_ISLNK(status.st_mode):
                    links[path] = path.readlink()
                elif _may_open(status, groups):
                    descriptors[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
                    stack.callback(os.close, descriptors[path])
        flags = linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("tmpfs", DIRECTORY, "tmpfs", flags, options=_DIRECTORY_OPTIONS)
        for path, target in links.items():
            path.symlink_to(target)
        for path, descriptor in descriptors.items():
            _place(path, descriptor)
    _mount_terminals()
    (DIRECTORY / _SHARED_MEMORY).mkdir()


def _is_visible(name: str, gpus: frozenset[str]) -> bool:
    if name in _REPLACED or (name in _GPU_PARTITIONS and not gpus):
        return False
    return name in gpus or _GPU_FILE.fullmatch(name) is None


def _may_open(status: os.stat_result, groups: frozenset[int]) -> bool:
    """Whether others or one of the groups have any right; disks are for nobody."""
    if stat.S_ISBLK(status.st_mode):
        return False
    return bool(status.st_mode & stat.S_IRWXO or (status.st_gid in groups and status.st_mode & stat.S_IRWXG))


def _place(path: Path, descriptor: int) -> None:
    """Mount the file or directory of a descriptor into the new directory."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        path.mkdir()
    else:
        path.touch()
    linux.bind(descriptor, path, recursive=True)


def _mount_terminals() -> None:
    """Terminals of the job's own; those of others are not to be seen."""
    terminals = DIRECTORY / _TERMINALS
    terminals.mkdir()
    linux.mount("devpts", terminals, "devpts", linux.MS_NOSUID, options=_TERMINAL_OPTIONS)
    (DIRECTORY / _TERMINAL_DOOR).symlink_to(f"{_TERMINALS}/{_TERMINAL_DOOR}")
