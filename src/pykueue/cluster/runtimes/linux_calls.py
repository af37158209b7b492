"""System calls that Python 3.11 has no function for: namespaces, mounts, credentials.

Credentials, namespaces and `no_new_privileges` belong to a thread in Linux, not to a process. The
functions here change only the calling thread (the C library's `setuid` would change all threads),
so `sandbox` calls them in a thread that starts one process and ends.
"""

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

CLONE_FS = 0x200
CLONE_NEWNS = 0x20000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000

MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 4096, 16384, 1 << 19

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_PR_SET_CHILD_SUBREAPER = 36
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KEEP_SIZE, _PUNCH_HOLE = 1, 2

_NUMBERS = {
    "x86_64": {"setgroups": 116, "setresuid": 117, "setresgid": 119, "keyctl": 250},
    "aarch64": {"setgroups": 159, "setresuid": 147, "setresgid": 149, "keyctl": 219},
}
_MOUNT_SETATTR = 442
_CLOSE_RANGE, _CLOSE_RANGE_CLOEXEC = 436, 4

CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""Names of capabilities without CAP_; the index is the number."""

_libc = ctypes.CDLL(None, use_errno=True)


def is_supported_machine() -> bool:
    return platform.system() == "Linux" and platform.machine() in _NUMBERS


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _call(name: str, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(_NUMBERS[platform.machine()][name]), *arguments), name)


# Namespaces


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def enter_namespaces(pid: int, flags: int) -> None:
    """Enter namespaces of a process; the PID namespace is that of the thread's next children."""
    descriptor = os.pidfd_open(pid)
    try:
        _check(_libc.setns(descriptor, flags), f"setns {pid}")
    finally:
        os.close(descriptor)


# Mounts


def mount(source: str | None, target: Path, file_system: str | None, flags: int, *, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, file_system, options or None)]
    result = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(result, f"mount {target}")


def bind(descriptor: int, target: Path, *, read_only: bool = False, recursive: bool = False) -> None:
    """Mount the file or directory of a descriptor at another path."""
    mount(f"/proc/self/fd/{descriptor}", target, None, MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def set_read_only(path: Path, *, read_only: bool, recursive: bool = False) -> None:
    """Change a mount, and with `recursive` all mounts below it. Needs Linux 5.12."""
    attributes = _MountAttributes(
        attr_set=_MOUNT_ATTR_RDONLY if read_only else 0, attr_clr=0 if read_only else _MOUNT_ATTR_RDONLY
    )
    result = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE if recursive else 0,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"mount_setattr {path}")


# Credentials of the calling thread


def set_groups(groups: Iterable[int]) -> None:
    numbers = tuple(groups)
    _call("setgroups", ctypes.c_size_t(len(numbers)), (ctypes.c_uint32 * len(numbers))(*numbers))


def set_group(gid: int) -> None:
    _call("setresgid", *[ctypes.c_uint32(gid)] * 3)


def set_user(uid: int) -> None:
    _call("setresuid", *[ctypes.c_uint32(uid)] * 3)


def join_new_keyring() -> None:
    """Leave the session keyring of this process, whose keys a child could read otherwise."""
    with contextlib.suppress(OSError):  # a kernel without keyrings
        _call("keyctl", ctypes.c_int(_KEYCTL_JOIN_SESSION_KEYRING), None)


def process_control(option: int, *arguments: int, what: str) -> int:
    """`prctl`: the options of the calling thread or process."""
    numbers = (*arguments, 0, 0, 0, 0)[:4]
    return _check(_libc.prctl(ctypes.c_int(option), *map(ctypes.c_ulong, numbers)), f"prctl {what}")


def set_no_new_privileges() -> None:
    process_control(_PR_SET_NO_NEW_PRIVS, 1, what="no_new_privs")


def drop_capabilities(numbers: Iterable[int]) -> None:
    """Drop capabilities from the bounding set, so that `execve` does not give them to root."""
    for number in numbers:
        if _libc.prctl(_PR_CAPBSET_READ, *map(ctypes.c_ulong, (number, 0, 0, 0))) == 1:
            process_control(_PR_CAPBSET_DROP, number, what=f"drop {CAPABILITIES[number]}")


def become_subreaper() -> None:
    """Make this process the parent of its descendants' orphans."""
    process_control(_PR_SET_CHILD_SUBREAPER, 1, what="child_subreaper")


# Files


def inherit_no_descriptors() -> None:
    """Close all descriptors but the standard ones in programs that this process starts.

    Python's own are closed then, but not those that this process was started with.
    """
    arguments = (ctypes.c_uint(3), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(_CLOSE_RANGE_CLOEXEC))
    if _libc.syscall(ctypes.c_long(_CLOSE_RANGE), *arguments) < 0:  # before Linux 5.11
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are numbers
            with contextlib.suppress(OSError):
                if int(name) > 2:
                    os.set_inheritable(int(name), False)  # noqa: FBT003 - positional only


def punch_hole(descriptor: int, length: int) -> None:
    """Give the first bytes of a file back to the file system; its size and offsets stay."""
    arguments = (ctypes.c_int(_PUNCH_HOLE | _KEEP_SIZE), ctypes.c_int64(0), ctypes.c_int64(length))
    _check(_libc.fallocate(ctypes.c_int(descriptor), *arguments), "fallocate")
