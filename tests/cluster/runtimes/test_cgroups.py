"""Cgroups: what is written, and on the hierarchies of this machine that limits hold."""

import errno
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import msgspec
import pytest
from tests.cluster.runtimes.test_process import log_of, request, shell

from pykueue.cluster.runtimes import cgroups, launch, process
from pykueue.cluster.runtimes.cgroups import CgroupLimits, Cgroups, ContainerCgroup
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import StartError

REAL = Cgroups.detect() if os.geteuid() == 0 else None
NAMES = ("pids.max", "memory.max", "memory.swap.max", "memory.oom.group", "cpu.max")


@pytest.fixture
def files(tmp_path):
    """Files as in a hierarchy whose controllers a parent has enabled."""
    for directory in (tmp_path, tmp_path / "pykueue"):
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (directory / "cgroup.subtree_control").write_text("memory pids cpu\n")
    return tmp_path


def test_limits_are_written_where_the_kernel_has_the_file(files):
    detected = Cgroups.detect(files)
    leaf = files / "pykueue" / "pod-0"
    leaf.mkdir()
    for name in NAMES[:4]:
        (leaf / name).touch()
    detected.create("pod-0", CgroupLimits(memory_bytes=64 << 20, cpu_milli=500, processes=100))
    assert [(leaf / name).read_text() for name in NAMES[:4]] == ["100", str(64 << 20), "0", "1"]
    assert not (leaf / "cpu.max").exists()
    (leaf / "cpu.max").touch()
    detected.create("pod-0", CgroupLimits(cpu_milli=1500, processes=100))
    assert (leaf / "cpu.max").read_text() == "150000 100000"


def test_an_oom_kill_is_seen(files):
    cgroup = Cgroups.detect(files).create("pod-0", CgroupLimits(processes=1))
    assert not cgroup.was_out_of_memory()
    (files / "pykueue" / "pod-0" / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    assert cgroup.was_out_of_memory()


@pytest.mark.parametrize("text", ["", "cpuset cpu io"])
def test_a_hierarchy_without_the_memory_controller_is_not_used(files, text):
    (files / "cgroup.controllers").write_text(text)
    assert Cgroups.detect(files) is None
    assert Cgroups.detect(files / "absent") is None


def test_the_hierarchies_of_version_1(tmp_path):
    """Each controller has its own; in a container the directories above ours are not mounted."""
    for directory in ("memory/service", "pids", "cpu", "freezer"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "cgroup.procs").touch()
    (tmp_path / "self").mkdir()
    own = tmp_path / "self" / "cgroup"
    own.write_text("9:name=systemd:/x\n8:pids:/docker/1234\n4:memory:/service\n2:cpu,cpuacct:/\n0::/\n")
    detected = Cgroups.detect(tmp_path, tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in sorted(detected._directories)] == [
        *("cpu/pykueue", "memory/service/pykueue", "pids/pykueue")
    ]
    leaf = tmp_path / "memory" / "service" / "pykueue" / "pod-0"
    leaf.mkdir(parents=True)
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"):
        (leaf / name).touch()
    cgroup = detected.create("pod-0", CgroupLimits(memory_bytes=64 << 20, processes=100))
    assert (leaf / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert not cgroup.ends_as_a_whole
    assert str(ContainerCgroup.parse(str(cgroup))) == str(cgroup)
    (leaf / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert cgroup.was_out_of_memory()
    own.write_text("8:pids:/\n")
    assert Cgroups.detect(tmp_path, tmp_path) is None


@pytest.mark.skipif(REAL is None, reason="needs root and cgroups with the controllers memory and pids")
def test_two_servers_share_the_hierarchies():
    first, second = Cgroups.detect(), Cgroups.detect()
    cgroup = first.create(f"test-{uuid.uuid4().hex}", CgroupLimits(processes=10))
    try:
        assert Cgroups.detect() is not None
        other = second.create(f"test-{uuid.uuid4().hex}", CgroupLimits(processes=10))
        other.remove()
        assert all(directory.is_dir() for directory in cgroup._directories)
    finally:
        cgroup.remove()


@pytest.fixture
def real():
    """Cgroups of the mounted hierarchies, in directories that nobody else uses."""
    if REAL is None:
        pytest.skip("needs root and cgroups with the controllers memory and pids")
    if (cgroups.ROOT / "cgroup.controllers").exists():
        yield REAL
        return
    name = f"pykueue-test-{uuid.uuid4().hex}"
    directories = [directory.with_name(name) for directory in REAL._directories]
    yield Cgroups(*directories)
    for directory in directories:
        assert not directory.exists()


def limited(script, **limits):
    return request(sys.executable, "-c", script, container={"resources": {"limits": limits}}, uid=str(uuid.uuid4()))


async def ended(container):
    exit_status = await container.wait()
    await container._cleanup
    return exit_status


async def test_everything_in_the_cgroup_ends_with_the_container(real, tmp_path):
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    script = (
        f"env -i setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & until [ -e {tmp_path}/pid ]; do :; done"
    )
    container = await runtime.start(shell(script))
    assert (await ended(container)).code == 0
    assert not is_running(int((tmp_path / "pid").read_text()))


def is_running(pid):
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


ALLOCATE = "data = bytearray(b'x') * (200 << 20); print('allocated')"
IN_A_CHILD = f"""
import os, time
if os.fork() == 0:
    {ALLOCATE}
    time.sleep(60)
time.sleep(60)
"""


@pytest.mark.parametrize("script", [ALLOCATE, IN_A_CHILD], ids=["main", "child"])
async def test_a_container_that_exceeds_its_memory_is_killed(real, tmp_path, script):
    runtime = ProcessRuntime(tmp_path, ContainerLimits(interval_seconds=0.05), cgroups=real)
    container = await runtime.start(limited(script, memory="50Mi"))
    assert await ended(container) == process.OUT_OF_MEMORY


def ephemeral(container_request, script, **fields):
    """An ephemeral container in the pod of another request."""
    container = {"name": "debugger", **fields}
    spec = {**container_request.pod["spec"], "ephemeralContainers": [container]}
    return msgspec.structs.replace(
        container_request,
        pod={**container_request.pod, "spec": spec},
        container=container,
        command=(sys.executable, "-c", script),
    )


@pytest.mark.parametrize("fields", [{}, {"targetContainerName": "main"}], ids=["alone", "with a target"])
async def test_an_ephemeral_container_has_the_limits_of_its_pod(real, tmp_path, fields):
    runtime = ProcessRuntime(tmp_path, ContainerLimits(interval_seconds=0.05), cgroups=real)
    main = limited("import time; time.sleep(60)", memory="50Mi", cpu="200m")
    container = await runtime.start(main)
    debugger = await runtime.start(ephemeral(main, ALLOCATE, **fields))
    assert (await ended(debugger)).code == 137
    busy = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    if not fields:  # the kernel has killed the target, too, or one of both
        again = msgspec.structs.replace(ephemeral(main, busy, **fields), attempt=1)
        assert (await ended(await runtime.start(again))).code == 0
        assert float(runtime.log(again.pod, "debugger", 1).read_text()) < 0.5
    await container.stop(0)
    await ended(container)


BUSY = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


async def test_cpu_time_is_bounded(real, tmp_path):
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    container_request = limited(BUSY, cpu="200m")
    assert (await ended(await runtime.start(container_request))).code == 0
    assert float(log_of(runtime, container_request)) < 0.5


FORKS = """
import os, signal, time
children = []
try:
    for _ in range(40):
        if (pid := os.fork()) == 0:
            time.sleep(60)
        children.append(pid)
except BlockingIOError:
    print("refused", len(children))
"""


async def test_processes_are_bounded(real, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "PROCESS_LIMIT", 20)
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    container_request = limited(FORKS)
    await ended(await runtime.start(container_request))
    assert log_of(runtime, container_request).startswith("refused 1")


async def test_a_container_without_its_cgroup_does_not_start(real, tmp_path, monkeypatch):
    def add(_cgroup, _pid):
        raise OSError(errno.ENOSPC, "no space", "cgroup.procs")

    monkeypatch.setattr(ContainerCgroup, "add", add)
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    with pytest.raises(StartError, match=r"cgroup\.procs: no space"):
        await runtime.start(limited(f"open('{tmp_path}/ran', 'w')", memory="50Mi"))
    for directory in tmp_path.glob("pods/*/containers/*/*/cgroup"):
        ContainerCgroup.parse(directory.read_text()).remove()
    assert not (tmp_path / "ran").exists()


PRELOADED = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void before_main(void) {
    if (fork()) return;
    usleep(500000);
    FILE *own = fopen("/proc/self/cgroup", "r");
    for (int c; (c = fgetc(own)) != EOF;) putchar(c);
    fflush(stdout);
    _exit(0);
}
"""


@pytest.fixture
def library(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "first.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=PRELOADED.encode(), check=True)
    return library


async def test_a_library_that_is_loaded_first_is_in_the_cgroup(real, tmp_path, library):
    """The loader runs it before the shell of the container waits for its cgroup."""
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    container_request = request("sleep", "2", uid=str(uuid.uuid4()), environment={"LD_PRELOAD": str(library)})
    await ended(await runtime.start(container_request))
    memory = [line for line in log_of(runtime, container_request).splitlines() if ":memory:" in line or "0::" in line]
    assert memory
    uid = container_request.pod["metadata"]["uid"]
    assert [line for line in memory if uid not in line and ":memory:" in line] == []


async def test_variables_with_odd_names_and_values_reach_the_command(real, tmp_path):
    values = {"a.b": "1", "UID": "7", "OPTIND": "x", "Q": 'it\'s "$HOME" `id`\n;', "IFS": "|"}
    script = f"import os; print([os.environ[name] for name in {list(values)!r}])"
    runtime = ProcessRuntime(tmp_path, cgroups=real)
    container_request = request(sys.executable, "-c", script, uid=str(uuid.uuid4()), environment=values)
    await ended(await runtime.start(container_request))
    assert log_of(runtime, container_request) == f"{list(values.values())}\n"
