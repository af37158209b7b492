"""The filter of system calls: what it denies on each machine, and that ordinary work goes on."""

import errno
import json
import struct
import sys
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_process import log_of, request

from pykueue.cluster.runtimes import seccomp
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.sandbox import ContainerSecurity

ALLOWED = 0
X86_64, AARCH64 = 0xC000003E, 0xC00000B7
CLONE_NEWUSER, CLONE_NEWTIME, CLONE_FILES = 0x10000000, 0x80, 0x400
THREAD = 0x3D0F00
"""The flags with which the C library starts a thread."""


def verdict(machine, number, argument=0, *, audit=None):
    """Run the filter as the kernel does; the error number, or 0 if the call is allowed."""
    arch = audit or {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    data = struct.pack("=IIQ6Q", number, arch, 0, argument, 0, 0, 0, 0, 0)
    instructions = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    word = position = 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        if code == 0x20:
            (word,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
        else:
            holds = {0x15: word == value, 0x25: word > value, 0x35: word >= value, 0x45: bool(word & value)}[code]
            position += if_true if holds else if_false


ORDINARY = {
    "x86_64": {"read": 0, "mmap": 9, "ioctl": 16, "fork": 57, "execve": 59, "ptrace": 101, "futex": 202, "openat": 257},
    "aarch64": {"ioctl": 29, "openat": 56, "read": 63, "futex": 98, "ptrace": 117, "execve": 221, "mmap": 222},
}
FORBIDDEN = {
    "x86_64": {"mount": 165, "bpf": 321, "keyctl": 250, "add_key": 248, "kexec_load": 246, "setns": 308, "iopl": 172},
    "aarch64": {"mount": 40, "bpf": 280, "keyctl": 219, "add_key": 217, "kexec_load": 104, "setns": 268},
}
ARGUMENTS = {"x86_64": (56, 272, 135, 41), "aarch64": (220, 97, 92, 198)}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_the_filter_denies(machine):
    assert {verdict(machine, number) for number in ORDINARY[machine].values()} == {ALLOWED}
    assert {verdict(machine, number) for number in FORBIDDEN[machine].values()} == {errno.EPERM}
    assert verdict(machine, 435) == verdict(machine, 467) == errno.ENOSYS
    assert verdict(machine, 0x40000000) == verdict(machine, 0, audit=0x40000003) == errno.EPERM
    clone, unshare, personality, socket = ARGUMENTS[machine]
    assert verdict(machine, clone, THREAD) == verdict(machine, clone, 17) == ALLOWED
    assert verdict(machine, clone, CLONE_NEWUSER | 17) == errno.EPERM
    assert verdict(machine, unshare, CLONE_FILES) == ALLOWED
    assert verdict(machine, unshare, CLONE_NEWUSER) == verdict(machine, unshare, CLONE_NEWTIME) == errno.EPERM
    assert verdict(machine, personality, 0xFFFFFFFF) == ALLOWED
    assert verdict(machine, personality, 0x0040000) == errno.EPERM
    assert verdict(machine, socket, 2) == ALLOWED
    assert verdict(machine, socket, 40) == errno.EPERM


needs_seccomp = pytest.mark.skipif(not seccomp.is_available(), reason="this kernel filters no system calls")
FILTERED = ContainerSecurity(has_seccomp_filter=True, no_new_privileges=True)


async def output(tmp_path, script):
    runtime = ProcessRuntime(tmp_path)
    container_request = request(sys.executable, "-c", script, uid=str(uuid.uuid4()), security=FILTERED)
    container = await runtime.start(container_request)
    assert (await container.wait()).code == 0, log_of(runtime, container_request)
    return log_of(runtime, container_request)


CALLS = """
import ctypes, json, platform, sys
from pykueue.cluster.runtimes import seccomp
libc = ctypes.CDLL(None, use_errno=True)
column = 0 if platform.machine() == "x86_64" else 1
answers = {}
for name, numbers in seccomp._DENIED.items():
    if numbers[column] is not None:
        result = libc.syscall(ctypes.c_long(numbers[column]), *[ctypes.c_long(-1)] * 6)
        answers[name] = (result, ctypes.get_errno())
for name, flags in (("user", 0x10000000), ("net", 0x40000000), ("mount", 0x20000), ("time", 0x80)):
    answers[name] = (libc.unshare(flags), ctypes.get_errno())
print(json.dumps(answers))
"""


@needs_seccomp
async def test_a_forbidden_system_call_fails(tmp_path):
    answers = json.loads(await output(tmp_path, CALLS))
    assert len(answers) > 40
    assert {name: answer for name, answer in answers.items() if answer != [-1, errno.EPERM]} == {}


WORK = """
import asyncio, hashlib, mmap, multiprocessing, os, signal, socket, sqlite3, subprocess, tempfile, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory

def square(number): return number * number

async def talk():
    server = await asyncio.start_server(lambda reader, writer: (writer.write(b"hello"), writer.close()), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    answer = await reader.read()
    child = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
    return answer, await child.wait()

if True:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(square, range(100))) == 328350
    for method in ("fork", "forkserver"):
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            assert list(pool.map(abs, [-1, -2])) == [1, 2]
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[:5] = b"model"
    block.close(); block.unlink()
    pages = mmap.mmap(-1, 1 << 22); pages[:3] = b"abc"
    assert asyncio.run(talk()) == (b"hello", 3)
    database = sqlite3.connect(tempfile.mkdtemp() + "/data"); database.execute("create table t (a)"); database.commit()
    os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)
    signal.setitimer(signal.ITIMER_REAL, 0); os.getrandom(8); os.memfd_create("model")
    left, right = socket.socketpair(); left.send(b"x"); assert right.recv(1) == b"x"
    assert subprocess.run(["sh", "-c", "echo $(uname) | wc -l"], capture_output=True).stdout.strip() == b"1"
    print("done")
"""


@needs_seccomp
async def test_ordinary_work_goes_on(tmp_path):
    assert await output(tmp_path, WORK) == "done\n"


def own_status():
    return Path("/proc/self/status").read_text()


@needs_seccomp
async def test_the_server_is_not_filtered(tmp_path):
    assert "Seccomp:\t2" in await output(tmp_path, "print(open('/proc/self/status').read())")
    assert "Seccomp:\t0" in own_status()
