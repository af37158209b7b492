"""Cgroups of version 2: what is written, and on a real hierarchy that all processes end."""

import os
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_process import request, shell
from tests.cluster.waiting import eventually

from pykueue.cluster.runtimes import process
from pykueue.cluster.runtimes.cgroups import CgroupLimits, Cgroups
from pykueue.cluster.runtimes.process import ProcessRuntime

MOUNTS = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
HIERARCHY = next((Path(fields[1]) for fields in MOUNTS if fields[2] == "cgroup2"), None)
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
    cgroups = Cgroups.detect(files)
    leaf = files / "pykueue" / "pod-0"
    leaf.mkdir()
    for name in NAMES[:4]:
        (leaf / name).touch()
    cgroups.create("pod-0", CgroupLimits(memory_bytes=64 << 20, cpu_milli=500, processes=100))
    assert [(leaf / name).read_text() for name in NAMES[:4]] == ["100", str(64 << 20), "0", "1"]
    assert not (leaf / "cpu.max").exists()
    (leaf / "cpu.max").touch()
    cgroups.create("pod-0", CgroupLimits(cpu_milli=1500, processes=100))
    assert (leaf / "cpu.max").read_text() == "150000 100000"


def test_an_oom_kill_is_seen(files):
    cgroup = Cgroups.detect(files).create("pod-0", CgroupLimits(processes=1))
    assert not cgroup.was_out_of_memory()
    (cgroup.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    assert cgroup.was_out_of_memory()


@pytest.mark.parametrize("text", ["", "cpuset cpu io"])
def test_a_hierarchy_without_the_memory_controller_is_not_used(files, text):
    (files / "cgroup.controllers").write_text(text)
    assert Cgroups.detect(files) is None
    assert Cgroups.detect(files / "absent") is None


@pytest.fixture
def real_directory():
    """A cgroup of a mounted hierarchy; it need not have controllers."""
    if HIERARCHY is None or os.geteuid() != 0:
        pytest.skip("needs root and a mounted cgroup2 hierarchy")
    directory = HIERARCHY / f"pykueue-test-{uuid.uuid4().hex}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be created: {error}")
    yield directory
    for child in (*(path for path in directory.iterdir() if path.is_dir()), directory):
        child.rmdir()


async def test_everything_in_the_cgroup_ends_with_the_container(real_directory, tmp_path):
    runtime = ProcessRuntime(tmp_path, cgroups=Cgroups(real_directory))
    script = (
        f"env -i setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & until [ -e {tmp_path}/pid ]; do :; done"
    )
    container = await runtime.start(shell(script))
    assert (await container.wait()).code == 0
    await eventually(lambda: not is_running(int((tmp_path / "pid").read_text())))
    await container._cleanup


def is_running(pid):
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(REAL is None, reason="needs root and a cgroup2 hierarchy with the memory controller")
async def test_a_container_that_exceeds_its_memory_is_killed(tmp_path):
    runtime = ProcessRuntime(tmp_path, cgroups=REAL)
    limits = {"resources": {"limits": {"memory": "50Mi"}}}
    container = await runtime.start(request("sh", "-c", "head -c 200M /dev/zero | tail", container=limits))
    assert await container.wait() == process.OUT_OF_MEMORY
