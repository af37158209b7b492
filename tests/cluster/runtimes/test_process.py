"""Real processes: output, exit codes, signals, and finding them again."""

import os
import sys
from pathlib import Path

import pytest
from tests.cluster.waiting import eventually

from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import launch, linux_processes, process
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import ContainerRequest, StartError


def request(*command, uid="u1", attempt=0, annotations=None, **fields):
    metadata = {"name": "p", "namespace": "default", "uid": uid, "annotations": annotations or {}}
    container = {"name": "main", "image": "busybox"} | fields.pop("container", {})
    return ContainerRequest(
        pod={"metadata": metadata, "spec": {"containers": [container]}},
        container=container,
        attempt=attempt,
        command=command,
        **fields,
    )


@pytest.fixture
def runtime(tmp_path):
    return ProcessRuntime(tmp_path)


def shell(script, **fields):
    return request("sh", "-c", script, **fields)


def log_of(runtime, container_request):
    return runtime.log(container_request.pod, "main", container_request.attempt).read_text()


async def until(path):
    await eventually(path.exists)


async def test_output_and_success(runtime):
    container_request = shell("echo out; echo err >&2")
    assert await (await runtime.start(container_request)).wait() == Exit(code=0)
    assert log_of(runtime, container_request) == "out\nerr\n"


async def test_exit_code(runtime):
    assert await (await runtime.start(shell("exit 42"))).wait() == Exit(code=42)


async def test_death_by_signal(runtime):
    assert (await (await runtime.start(shell("kill -SEGV $$"))).wait()).code == 139


async def test_environment_has_only_the_variables_of_the_container(runtime, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    container_request = shell("env", environment={"COLOR": "blue"}, gpu_indexes=(2, 3))
    await (await runtime.start(container_request)).wait()
    lines = log_of(runtime, container_request).splitlines()
    assert {"COLOR=blue", "CUDA_VISIBLE_DEVICES=2,3", "HOSTNAME=p"} <= set(lines)
    assert not [line for line in lines if "SECRET" in line]


async def test_working_directory(runtime, tmp_path):
    container_request = shell("pwd", container={"workingDir": str(tmp_path)})
    await (await runtime.start(container_request)).wait()
    assert log_of(runtime, container_request).strip() == str(tmp_path)


async def test_a_command_that_does_not_exist(runtime):
    with pytest.raises(StartError, match='exec: "no-such-command": executable file not found'):
        await runtime.start(request("no-such-command"))


async def test_a_container_without_command(runtime):
    with pytest.raises(StartError, match="needs a command"):
        await runtime.start(request())


async def test_stop_lets_the_process_finish_its_work(runtime, tmp_path):
    ready = tmp_path / "ready"
    container_request = shell(f"trap 'echo saved; exit 7' TERM; touch {ready}; while :; do sleep 0.05; done")
    container = await runtime.start(container_request)
    await until(ready)
    await container.stop(20)
    assert await container.wait() == Exit(code=7)
    assert log_of(runtime, container_request).endswith("saved\n")


async def test_stop_without_a_handler_is_143(runtime, tmp_path):
    container = await runtime.start(shell(f"touch {tmp_path / 'ready'}; sleep 60"))
    await until(tmp_path / "ready")
    await container.stop(20)
    assert (await container.wait()).code == 143


async def test_stop_insists_after_the_grace_period(runtime, tmp_path):
    ready = tmp_path / "ready"
    container = await runtime.start(shell(f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"))
    await until(ready)
    await container.stop(0.2)
    assert (await container.wait()).code == 137


async def test_background_processes_do_not_outlive_the_container(runtime, tmp_path):
    pid = tmp_path / "pid"
    await (await runtime.start(shell(f"sleep 60 & echo $! > {pid}"))).wait()
    await eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


async def test_a_daemon_is_found_by_its_environment_and_killed(runtime, tmp_path):
    pid = tmp_path / "pid"
    script = (
        "import os, sys, time\n"
        "if os.fork():\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "    os._exit(0)\n"
        "os.setsid()\n"
        "open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(60)\n"
    )
    await (await runtime.start(request(sys.executable, "-c", script, str(pid)))).wait()
    await until(pid)
    assert linux_processes.pod_processes("u1") == [int(pid.read_text())]
    await runtime.forget("u1")
    await eventually(lambda: not linux_processes.pod_processes("u1"))
    assert runtime.pods() == set()


async def test_a_running_container_is_adopted(runtime, tmp_path):
    container_request = shell(
        f"touch {tmp_path / 'ready'}; while [ ! -e {tmp_path / 'go'} ]; do sleep 0.05; done; exit 5"
    )
    first = await runtime.start(container_request)
    await until(tmp_path / "ready")
    adopted = await ProcessRuntime(tmp_path).adopt(container_request, first.id)
    (tmp_path / "go").touch()
    assert await adopted.wait() == Exit(code=5)


async def test_a_container_that_ended_during_a_restart_has_its_exit_code(runtime, tmp_path):
    container_request = shell("exit 3")
    first = await runtime.start(container_request)
    await first.wait()
    assert await (await ProcessRuntime(tmp_path).adopt(container_request, "")).wait() == Exit(code=3)


async def test_a_container_killed_during_a_restart_is_lost(runtime, tmp_path):
    container_request = shell(f"touch {tmp_path / 'ready'}; sleep 60")
    first = await runtime.start(container_request)
    await until(tmp_path / "ready")
    os.killpg(first._process.pid, 9)
    await first.wait()
    assert await (await ProcessRuntime(tmp_path).adopt(container_request, "")).wait() == process.LOST


async def test_an_attempt_whose_pykueue_ended_before_its_start_never_runs(runtime, tmp_path):
    container_request = shell("echo must not run")
    attempt = tmp_path / "pods/u1/containers/main/0-dead"
    attempt.mkdir(parents=True)
    assert await runtime.adopt(container_request, "") is None
    gate, opener = os.pipe()
    log, exit_file = (os.open(attempt / name, os.O_WRONLY | os.O_CREAT) for name in ("log", "exit"))
    command = ["touch", str(tmp_path / "ran")]
    script = launch.StartScript(attempt, tmp_path, {"PATH": os.environ["PATH"]}, command)
    pid = launch.spawn(script, ["0", "0"], {1: log, 2: log, 4: exit_file, 3: gate})
    (attempt / "process").write_text(linux_processes.stat_line(pid))
    (attempt / "boot").write_text(linux_processes.boot_id())
    for descriptor in (gate, opener, log, exit_file):
        os.close(descriptor)
    await eventually(lambda: not ProcessIdentity.of(pid).is_alive())
    assert ProcessIdentity.of(pid).reap() == 125
    assert not (tmp_path / "ran").exists()
    assert await runtime.adopt(container_request, "") is None


async def test_another_attempt_is_another_container(runtime):
    assert await runtime.adopt(shell("true", attempt=1), "") is None


async def test_memory_is_bounded(runtime):
    limits = {"resources": {"limits": {"memory": "50Mi"}}}
    container_request = request(sys.executable, "-c", "x = bytearray(200_000_000)", container=limits)
    assert (await (await runtime.start(container_request)).wait()).code == 1
    assert "MemoryError" in log_of(runtime, container_request)


async def test_each_group_has_its_own_ports(runtime):
    marks = {
        "pykueue.dev/local-names": "train-master-0",
        "pykueue.dev/local-ports": "23456",
    }
    logs = []
    for group, uid in (("g1", "a"), ("g1", "b"), ("g2", "c")):
        container_request = shell(
            "echo $MASTER_ADDR $MASTER_PORT train-master-0:23456",
            uid=uid,
            annotations=marks | {"pykueue.dev/group": group},
            environment={"MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456"},
        )
        await (await runtime.start(container_request)).wait()
        logs.append(log_of(runtime, container_request).split())
    address, port, url = logs[0]
    assert (address, url) == ("127.0.0.1", f"127.0.0.1:{port}")
    assert logs[0] == logs[1]
    assert logs[2][1] not in (port, "23456")
