"""Daemons without a PID namespace: nothing of a pod outlives it, and no other pod loses a process."""

import os
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_process import shell
from tests.cluster.waiting import eventually

from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.process import ProcessRuntime

DAEMON = "env -i setsid sh -c 'echo $$ > {pid}; exec sleep 1000' <&- >&- 2>&- &"


@pytest.fixture
def runtime(tmp_path):
    return ProcessRuntime(tmp_path)


async def daemon_of(runtime, path, uid, *, seconds):
    """A container that started a daemon, and the identity of the daemon."""
    container = await runtime.start(shell(f"{DAEMON.format(pid=path)} sleep {seconds}", uid=uid))
    await eventually(lambda: path.exists() and path.read_text().strip())
    return container, ProcessIdentity.of(int(path.read_text()))


@pytest.mark.parametrize("seconds", [0, 1000], ids=["completed", "deleted"])
async def test_a_daemon_without_mark_ends_with_its_pod(runtime, tmp_path, seconds):
    container, daemon = await daemon_of(runtime, tmp_path / "pid", "u1", seconds=seconds)
    if seconds:
        await container.stop(0)
    await container.wait()
    assert daemon.is_alive()
    await runtime.clear("u1")
    await eventually(lambda: not daemon.is_alive())


async def test_a_daemon_that_may_belong_to_a_running_pod_stays_until_that_ends(runtime, tmp_path):
    container, daemon = await daemon_of(runtime, tmp_path / "pid", "mine", seconds=1000)
    other = await runtime.start(shell("exit 0", uid="other"))
    await other.wait()
    await runtime.clear("other")
    assert daemon.is_alive()
    await container.stop(0)
    await container.wait()
    await runtime.clear("mine")
    await eventually(lambda: not daemon.is_alive())


async def test_orphans_that_end_leave_no_zombies(runtime, tmp_path):
    runtime._orphans.container_started("u1")
    container = await runtime.start(shell(f"env -i setsid sh -c 'echo $$ > {tmp_path}/pid' & sleep 0", uid="u1"))
    await container.wait()
    await eventually((tmp_path / "pid").exists)

    def is_reaped():
        runtime._orphans.look()
        return not Path(f"/proc/{int((tmp_path / 'pid').read_text() or os.getpid())}").exists()

    await eventually(is_reaped)
