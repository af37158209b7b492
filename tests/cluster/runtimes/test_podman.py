"""Containers of podman: its arguments, and where it is installed, real containers."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_process import log_of, request
from tests.cluster.waiting import eventually

from pykueue.cluster.kubelet.security_context import RefusedFieldError
from pykueue.cluster.kubelet.volumes import Mounts
from pykueue.cluster.runtimes import podman, podman_arguments, process
from pykueue.cluster.runtimes.podman import PodmanRuntime

FILE = Path("/run/env")


def words(*command, pod=None, has_limits=True, **fields):
    container = {"command": list(command[:1]), "args": list(command[1:])} if command else {}
    container_request = request(*command, container=container | fields.pop("container", {}), **fields)
    container_request.pod["spec"].update(pod or {})
    return podman_arguments.run(container_request, FILE, has_limits=has_limits)


def options(*arguments, **fields):
    """The options before `--` as pairs; flags that have no value are pairs with themselves."""
    listed = words(*arguments, **fields)
    return " ".join(listed[: listed.index("--")])


def test_the_arguments_of_a_container():
    listed = words("sh", "-c", "exit 3", uid="u1", attempt=2, container={"image": "example.com/a:1"})
    assert listed[:3] == ["run", "--name", "pykueue-u1-main-2"]
    assert listed[listed.index("--entrypoint") + 1] == '["sh"]'
    assert listed[listed.index("--") :] == ["--", "example.com/a:1", "-c", "exit 3"]
    assert words()[-2:] == ["--", "busybox"]
    assert words(container={"image": "--privileged"})[-2:] == ["--", "--privileged"]


def test_limits_are_kept_or_refused():
    container = {"resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}}
    text = options("true", container=container)
    assert "--memory 67108864b --memory-swap 67108864b --cpus 1.500" in text
    with pytest.raises(RefusedFieldError, match=r"resources\.limits\.memory"):
        words("true", container=container, has_limits=False)


def test_volumes_are_mounted(tmp_path):
    container = {"volumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": True}]}
    text = options("true", container=container, mounts=Mounts({"/a": tmp_path, "/b": tmp_path / "b"}))
    assert f"--mount type=bind,src={tmp_path},dst=/a,ro --mount type=bind,src={tmp_path}/b,dst=/b" in text
    for path in ("/a,src=/", '/a"', "/a\n"):
        with pytest.raises(RefusedFieldError, match="mountPath"):
            words("true", mounts=Mounts({path: tmp_path}))


def test_fields_that_are_kept():
    security = {"runAsUser": 7, "runAsGroup": 8, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["all"]}}
    text = options("true", container={"securityContext": security}, pod={"securityContext": {"fsGroup": 9}})
    assert "--cap-drop ALL --security-opt no-new-privileges --read-only --user 7:8 --group-add 9" in text


@pytest.mark.parametrize(
    "fields",
    [
        {"container": {"securityContext": {"privileged": True}}},
        {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
        {"container": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
        {"container": {"securityContext": {"runAsNonRoot": True}}},
        {"pod": {"hostPID": True}},
        {"pod": {"hostIPC": True}},
        {"pod": {"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}},
        {"pod": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
    ],
)
def test_fields_that_are_refused(fields):
    with pytest.raises(RefusedFieldError):
        words("true", **fields)


def test_variables_are_in_a_file_one_in_a_line():
    assert podman_arguments.environment_text({"A": "1", "B": "x y=z"}) == "A=1\nB=x y=z\n"
    for variables in ({"A": "1\nLD_PRELOAD=x"}, {"A": "1\rB"}, {"A\nB": "1"}):
        with pytest.raises(RefusedFieldError, match="line breaks"):
            podman_arguments.environment_text(variables)


def test_limits_need_the_controllers():
    host = '{"host": {"cgroupVersion": "%s", "cgroupControllers": [%s]}}'
    assert podman._has_limits(host % ("v2", '"cpu", "memory", "pids"'))
    assert not podman._has_limits(host % ("v2", '"memory", "pids"'))
    assert not podman._has_limits(host % ("v1", '"cpu", "memory", "pids"'))


# Real containers

OBSTACLE = podman.obstacle()
BUSYBOX = shutil.which("busybox")
if not OBSTACLE and BUSYBOX is None:
    OBSTACLE = "the test image needs busybox (a static one)"
with_podman = pytest.mark.skipif(bool(OBSTACLE), reason=f"no containers of podman: {OBSTACLE}")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(BUSYBOX, "bin/busybox")
        for name in ("sh", "sleep", "cat", "id", "echo", "env", "touch", "setsid", "nc", "true", "test"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name in ("tmp", "etc", "proc", "dev", "sys"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(directory)
    name = f"localhost/pykueue-test-{uuid.uuid4().hex}"
    subprocess.run(["podman", "import", str(archive), name], check=True, capture_output=True)
    yield name
    subprocess.run(["podman", "rmi", "--force", name], check=True, capture_output=True)


@pytest.fixture
def runtime(tmp_path):
    return PodmanRuntime(tmp_path)


def shell(image, script, **fields):
    container = {"image": image, "command": ["sh"], "args": ["-c", script], "imagePullPolicy": "Never"}
    container |= fields.pop("container", {})
    return request("sh", "-c", script, container=container, **{"uid": str(uuid.uuid4())} | fields)


def containers(container_request):
    label = f"label={podman_arguments.POD_LABEL}={container_request.pod['metadata']['uid']}"
    return subprocess.check_output(["podman", "ps", "--all", "--quiet", "--filter", label], text=True).split()


def processes():
    return subprocess.check_output(["ps", "-eo", "args"], text=True)


async def started(runtime, container_request):
    container = await runtime.start(container_request)
    await eventually(lambda: "\n" in log_of(runtime, container_request))
    return container


@with_podman
async def test_the_image_runs_with_variables_and_volumes(runtime, image, tmp_path):
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "key").write_text("value\n")
    script = 'echo $MODE; cat /data/key; echo new > /data/new; [ -e /usr ] || echo "own files"; echo err >&2; exit 3'
    container_request = shell(image, script, environment={"MODE": "a b"}, mounts=Mounts({"/data": volume}))
    container = await runtime.start(container_request)
    assert (await container.wait()).code == 3
    assert sorted(log_of(runtime, container_request).splitlines()) == ["a b", "err", "own files", "value"]
    assert (volume / "new").read_text() == "new\n"
    assert containers(container_request) == []


@with_podman
async def test_stop_sends_sigterm_then_kills(runtime, image):
    polite = shell(image, "trap 'echo saved; exit 4' TERM; echo up; while :; do sleep 0.05; done")
    container = await started(runtime, polite)
    exit_status, _ = await asyncio.gather(container.wait(), container.stop(20))
    assert (exit_status.code, log_of(runtime, polite)) == (4, "up\nsaved\n")
    stubborn = shell(image, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    container = await started(runtime, stubborn)
    exit_status, _ = await asyncio.gather(container.wait(), container.stop(0.2))
    assert exit_status.code == 137
    assert containers(stubborn) == []


@with_podman
async def test_the_next_runtime_adopts_a_container(runtime, image, tmp_path):
    container_request = shell(image, "echo up; while [ ! -e /data/go ]; do sleep 0.05; done; exit 5")
    volume = tmp_path / "volume"
    volume.mkdir()
    container_request = shell(image, container_request.command[2], mounts=Mounts({"/data": volume}))
    await started(runtime, container_request)
    adopted = await PodmanRuntime(tmp_path).adopt(container_request, "")
    (volume / "go").touch()
    assert (await adopted.wait()).code == 5
    assert await PodmanRuntime(tmp_path).adopt(shell(image, "true"), "") is None


@with_podman
async def test_commands_and_probes_run_inside(runtime, image):
    container_request = shell(image, "echo up; echo here > /tmp/file; sleep 60")
    container = await started(runtime, container_request)
    uid = container_request.pod["metadata"]["uid"]
    execution = await runtime.execute(shell(image, "cat /tmp/file; exit 3", uid=uid))
    assert await execution.output() == b"here\n"
    assert await execution.wait() == 3
    assert await runtime.handle(container_request, {"exec": {"command": ["test", "-e", "/tmp/file"]}}) == ""
    assert await runtime.handle(container_request, {"exec": {"command": ["test", "-e", "/absent"]}}) != ""
    await container.stop(0)


@with_podman
async def test_nothing_survives_the_pod(runtime, image):
    seconds = f"1000.{uuid.uuid4().int % 10**9}"
    container_request = shell(image, f"setsid sleep {seconds} & echo up; sleep {seconds}")
    container = await started(runtime, container_request)
    os.killpg(container._client._process.pid, 9)  # the client of podman ends; the container goes on
    await runtime.forget(container_request.pod["metadata"]["uid"])
    assert containers(container_request) == []
    assert seconds not in processes()


@with_podman
async def test_an_image_that_is_absent_says_so(runtime):
    container = await runtime.start(shell("localhost/pykueue-absent", "true"))
    exit_status = await container.wait()
    assert (exit_status.code, exit_status.reason) == (128, "StartError")
    assert "pykueue-absent" in exit_status.message


@with_podman
async def test_secrets_are_no_arguments(runtime, image):
    container_request = shell(image, "echo up; sleep 60", environment={"PASSWORD": "hunter2"})
    container = await started(runtime, container_request)
    assert "hunter2" not in processes()
    (file,) = runtime._pods.glob("*/*.env")
    assert file.stat().st_mode & 0o777 == 0o600
    await container.stop(0)
    await runtime.forget(container_request.pod["metadata"]["uid"])
    assert not file.exists()


@with_podman
async def test_connections_reach_the_container_and_no_other_port(runtime, image):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as other:
            free = other.getsockname()[1]
        container_request = shell(image, f"echo up; echo hello | nc -l -p {free}; sleep 60")
        container = await started(runtime, container_request)

        async def answer():
            try:
                reader, writer = await runtime.connect(container_request.pod, free)
            except ConnectionRefusedError:
                return b""
            with contextlib.closing(writer):
                return await reader.readline()

        for _ in range(100):
            if text := await answer():
                break
            await asyncio.sleep(0.05)
        assert text == b"hello\n"
        with pytest.raises(ConnectionRefusedError):
            await runtime.connect(container_request.pod, port)
        await container.stop(0)


@with_podman
async def test_containers_are_stopped_without_a_kubelet(runtime, image, tmp_path):
    container_request = shell(image, "trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done")
    container = await started(runtime, container_request)
    (pod,) = process.running_pods(tmp_path)
    assert pod.has_podman
    await podman.stop_containers([pod.uid], 20)
    assert containers(container_request) == []
    assert (await container.wait()).code == 4
