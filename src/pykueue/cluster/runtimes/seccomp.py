"""The seccomp filter of isolated containers: what `RuntimeDefault` means for the process runtime.

Container runtimes deny the same system calls to containers without capabilities: those that mount,
load code into the kernel, make namespaces, set clocks, read keyrings or reach other processes'
files. Most need capabilities that a job does not have, so the filter is a second wall: a fault in
that part of the kernel cannot be reached from a job.

`program` builds the filter as an array of BPF instructions, without a compiler. The kernel works
out once for each system call number whether the filter always allows it, and then runs no
instruction for it. `install` is called by `sandbox` in the thread that starts the process.
"""

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pykueue.cluster.runtimes import linux_calls

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")

_DENIED = {
    # name: number on x86_64, number on aarch64 (None: the machine has no such call)
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "_sysctl": (156, None),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
_LAST = 466
"""The last system call that was looked at (removexattrat); later ones answer ENOSYS."""
_CLONE3 = 435
_X32 = 0x40000000
"""The numbers of the x32 calls of x86_64 begin here: other numbers for the same calls."""
_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""Those that container runtimes allow; others turn protections of memory off."""
_NAMESPACES = 0x7E020000 | 0x80
"""CLONE_NEW* of all namespaces: mount, cgroup, uts, ipc, user, pid, net, and time."""
_CLONE_NAMESPACES = 0x7E020000
"""For `clone`, whose lowest byte is a signal, so that it cannot make a time namespace."""

# Instructions of classic BPF, and the layout of the data that the kernel gives to a filter.
_LOAD, _RETURN = 0x20, 0x06
_JUMP_EQUAL, _JUMP_GREATER, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x15, 0x25, 0x35, 0x45
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_DENY = _ERROR | errno.EPERM
_ABSENT = _ERROR | errno.ENOSYS

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    column: int
    """The column of `_DENIED`."""
    audit: int
    """The kernel's AUDIT_ARCH number."""
    clone: int
    unshare: int
    personality: int
    socket: int


_MACHINES = {
    "x86_64": _Machine(column=0, audit=0xC000003E, clone=56, unshare=272, personality=135, socket=41),
    "aarch64": _Machine(column=1, audit=0xC00000B7, clone=220, unshare=97, personality=92, socket=198),
}


def is_available() -> bool:
    """Whether this kernel filters system calls, and the numbers of this machine are listed."""
    return linux_calls.is_supported_machine() and _ACTIONS.exists()


def install() -> None:
    """Filter the system calls of the calling thread and of all that it starts, for good.

    Needs `no_new_privileges` or root.
    """
    instructions = program(platform.machine())
    size = len(instructions) // 8
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    header = _Program(size=size, instructions=ctypes.cast(buffer, ctypes.c_void_p))
    linux_calls.process_control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header), what="seccomp")


class _Program(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def program(machine: str) -> bytes:
    """The filter for a machine, as the kernel reads it."""
    return b"".join(_instructions(_MACHINES[machine]))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    yield _instruction(_LOAD, _MACHINE)
    yield from _unless(_JUMP_EQUAL, machine.audit, _DENY)
    yield _instruction(_LOAD, _NUMBER)
    yield from _when(_JUMP_AT_LEAST, _X32, _DENY)
    yield from _when(_JUMP_GREATER, _LAST, _ABSENT)
    # The flags of clone3 lie in memory, where no filter can read them. The C library uses clone
    # if there is no clone3.
    yield from _when(_JUMP_EQUAL, _CLONE3, _ABSENT)
    for numbers in _DENIED.values():
        number = numbers[machine.column]
        if number is not None:
            yield from _when(_JUMP_EQUAL, number, _DENY)
    yield from _argument(machine.clone, list(_when(_JUMP_ANY_BIT, _CLONE_NAMESPACES, _DENY)))
    yield from _argument(machine.unshare, list(_when(_JUMP_ANY_BIT, _NAMESPACES, _DENY)))
    yield from _argument(machine.socket, list(_when(_JUMP_EQUAL, socket.AF_VSOCK, _DENY)))
    allowed = [word for value in _PERSONALITIES for word in _when(_JUMP_EQUAL, value, _ALLOW)]
    yield from _argument(machine.personality, [*allowed, _instruction(_RETURN, _DENY)])
    yield _instruction(_RETURN, _ALLOW)


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _when(jump: int, value: int, action: int) -> Iterator[bytes]:
    """End with the action if the condition holds for the loaded word."""
    yield _instruction(jump, value, if_false=1)
    yield _instruction(_RETURN, action)


def _unless(jump: int, value: int, action: int) -> Iterator[bytes]:
    yield _instruction(jump, value, if_true=1)
    yield _instruction(_RETURN, action)


def _argument(number: int, checks: list[bytes]) -> Iterator[bytes]:
    """Check the first argument of a system call; the loaded word is its number again after it."""
    yield _instruction(_JUMP_EQUAL, number, if_false=len(checks) + 2)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield from checks
    yield _instruction(_RETURN, _ALLOW)
