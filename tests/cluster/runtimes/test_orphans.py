"""Daemons without a PID namespace: nothing of a pod outlives it, and no other pod loses a process."""

import asyncio
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
    pid = tmp_path / "pid"
    daemon = f"env -i setsid sh -c 'echo $$ > {pid}; sleep 0.1'"
    container = await runtime.start(shell(f"{daemon} & until [ -s {pid} ]; do sleep 0.01; done", uid="u1"))
    await container.wait()

    def is_reaped():
        runtime._orphans.look()
        return not Path(f"/proc/{int(pid.read_text())}").exists()

    await eventually(is_reaped)


async def test_commands_that_are_being_started_are_not_orphans(runtime):
    """A child has no mark before `execve`, and helpers never have one."""
    container = await runtime.start(shell("sleep 1000", uid="u1"))
    child = await asyncio.create_subprocess_exec("sleep", "1000", env={})
    runtime._orphans.look()
    await container.stop(0)
    await container.wait()
    await runtime.clear("u1")
    assert child.returncode is None
    child.kill()
    assert await child.wait() == -9
