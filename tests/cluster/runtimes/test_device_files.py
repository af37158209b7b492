"""The private /dev of isolated containers: a job opens its own GPUs, and no others."""

import os
import shutil
import stat
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_isolation import OBSTACLE, all_output, output, running, shell

from pykueue.cluster.runtimes import device_files
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.process import ProcessRuntime

needs_isolation = pytest.mark.skipif(bool(OBSTACLE), reason=f"isolation is not possible here: {OBSTACLE}")
NULL = os.makedev(1, 3)


@pytest.fixture
def runtime(tmp_path):
    return ProcessRuntime(tmp_path / "room", ContainerLimits(interval_seconds=0.05))


@pytest.fixture
def devices(monkeypatch):
    """A directory with four GPUs beside other devices, in place of /dev."""
    directory = Path("/dev") / f"pykueue-test-{uuid.uuid4().hex}"
    directory.mkdir(mode=0o755)
    try:
        try:
            for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "null"):
                os.mknod(directory / name, 0o666 | stat.S_IFCHR, NULL)
                (directory / name).chmod(0o666)
            os.mknod(directory / "disk", 0o666 | stat.S_IFBLK, os.makedev(7, 0))
            (directory / "disk").chmod(0o666)
            os.mknod(directory / "private", 0o600 | stat.S_IFCHR, NULL)
        except PermissionError:
            pytest.skip("this machine does not let root create device files")
        (directory / "stdin").symlink_to("/proc/self/fd/0")
        (directory / "nvidia-caps").mkdir(mode=0o755)
        monkeypatch.setattr(device_files, "DIRECTORY", directory)
        monkeypatch.setattr(device_files, "_GPU_INFORMATION", directory / "absent")
        yield directory
    finally:
        shutil.rmtree(directory)


def opens(directory):
    return (
        f"for name in $(ls {directory}); do [ -d {directory}/$name ] && continue; "
        f"(: <> {directory}/$name) 2>/dev/null && echo $name; done; echo visible=$CUDA_VISIBLE_DEVICES"
    )


@needs_isolation
async def test_a_job_opens_its_own_gpus_and_no_others(runtime, devices):
    text = await output(runtime, shell(opens(devices), gpu_indexes=(1, 2)))
    assert set(text.split()) - {"stdin", "ptmx"} == {"nvidia1", "nvidia2", "nvidiactl", "null", "visible=0,1"}
    text = await output(runtime, shell(opens(devices)))
    assert set(text.split()) - {"stdin", "ptmx"} == {"nvidiactl", "null", "visible="}


@needs_isolation
async def test_a_gpu_that_appears_later_is_hidden(runtime, devices):
    script = f"echo up; while [ ! -e go ]; do sleep 0.02; done; (: <> {devices}/nvidia7) && echo opened"
    container_request = shell(script, uid="later")
    container = await running(runtime, container_request)
    os.mknod(devices / "nvidia7", 0o666 | stat.S_IFCHR, NULL)
    (runtime._root / "later" / "work" / "go").touch()
    assert (await container.wait()).code != 0


@needs_isolation
async def test_commands_beside_the_container_see_the_same_devices(runtime, devices):
    container_request = shell("echo up; exec sleep 60", gpu_indexes=(3,))
    container = await running(runtime, container_request)
    uid = container_request.pod["metadata"]["uid"]
    text = await all_output(await runtime.execute(shell(opens(devices), uid=uid, gpu_indexes=(3,))))
    assert set(text.split()) - {"stdin", "ptmx"} == {"nvidia3", "nvidiactl", "null", "visible=0"}
    await container.stop(0)


@needs_isolation
async def test_the_real_directory_serves_ordinary_programs(runtime):
    script = """
    echo out >> /dev/stdout; echo err >> /dev/stderr; head -c 4 /dev/urandom | wc -c; echo x > /dev/null
    head -c 2 /dev/zero | wc -c; echo shared > /dev/shm/file; cat /dev/shm/file; ls /dev/pts
    script -qec 'tty' /dev/null; [ -e /dev/kmsg ] || echo no messages; find /dev -type b
    """
    lines = (await output(runtime, shell(script))).split("\n")
    assert [line.strip() for line in lines if line] == [
        *("out", "err", "4", "2", "shared", "ptmx", "/dev/pts/0", "no messages")
    ]


def test_indexes_follow_the_order_of_the_bus(tmp_path, monkeypatch):
    monkeypatch.setattr(device_files, "_GPU_INFORMATION", tmp_path)
    for address, minor in (("0000:17:00.0", 1), ("0000:b1:00.0", 0)):
        (tmp_path / address).mkdir()
        (tmp_path / address / "information").write_text(f"Model: \t A\nDevice Minor: \t {minor}\n")
    assert device_files.gpu_files([0]) == {"nvidia1"}
    assert device_files.gpu_files([0, 1, 5]) == {"nvidia0", "nvidia1", "nvidia5"}
