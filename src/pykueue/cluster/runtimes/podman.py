"""The podman runtime: each container runs its image with podman, as the user who runs pykueue.

The process that the process runtime starts is `podman run`. So the output, the exit code, that an
attempt starts at most once, and that the next pykueue adopts it, are as there; this module makes
the arguments, and removes containers whose client has ended.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import paths
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.kubelet.volumes import Mounts
from pykueue.cluster.runtimes import handlers, listening_sockets, podman_arguments, port_mapping
from pykueue.cluster.runtimes.linux_processes import ProcessTable
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.podman_arguments import POD_LABEL
from pykueue.cluster.runtimes.process import OUT_OF_MEMORY, PODS, ProcessContainer, ProcessRuntime
from pykueue.cluster.runtimes.protocol import Connection, ContainerRequest, Execution, StartError
from pykueue.cluster.runtimes.sandbox import ContainerSecurity

_PROGRAM = "podman"
_FAILURE = 125
"""The exit code of podman for its own failures, such as an image that cannot be pulled."""
_INHERITED = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_LONGEST_MESSAGE = 1024
_CLIENT_SECONDS = 5.0
"""How long the client may take to report the exit code of a container that was removed."""


def obstacle() -> str:
    """Why containers cannot run with podman here; empty if they can."""
    if os.geteuid() == 0:
        return "it runs containers without root: start pykueue as an ordinary user"
    if shutil.which(_PROGRAM) is None:
        return "podman is not installed"
    done = _run(["info", "--format", "json"])
    return "" if done.returncode == 0 else f"`podman info` fails: {done.stderr.strip()[:_LONGEST_MESSAGE]}"


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([_PROGRAM, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - with our own arguments


class _Host(msgspec.Struct):
    cgroup_version: str = msgspec.field(default="", name="cgroupVersion")
    cgroup_controllers: list[str] = msgspec.field(default_factory=list, name="cgroupControllers")


class _Info(msgspec.Struct):
    host: _Host


def _has_limits(text: str) -> bool:
    """Whether podman can limit containers here, from `podman info`."""
    host = msgspec.json.decode(text, type=_Info).host
    return host.cgroup_version == "v2" and {"memory", "cpu", "pids"} <= set(host.cgroup_controllers)


class PodmanRuntime:
    name = "podman"
    has_files = True

    def __init__(self, root: Path, limits: ContainerLimits | None = None) -> None:
        self._clients = ProcessRuntime(root, limits)
        self._pods = root / PODS
        self._ports = port_mapping.PortMappings(root / "ports")
        self._has_limits = _has_limits(_run(["info", "--format", "json"]).stdout)

    async def start(self, request: ContainerRequest) -> "PodmanContainer":
        mapping = self._ports.mapping_of(request.pod)
        variables = {name: mapping.variable(name, value) for name, value in request.environment.items()}
        request = msgspec.structs.replace(request, command=tuple(map(mapping.text, request.command)))
        environment, name = podman_arguments.environment_text(variables), _name(request)
        directory = paths.make_directory(self._pods, objects.uid(request.pod))
        file = paths.inside(directory, f"{name}.env")
        words = podman_arguments.run(request, file, has_limits=self._has_limits)
        paths.write_file(directory, file.name, environment.encode(), 0o600)
        return PodmanContainer(await self._clients.start(_client(request, words)), name, self, request)

    async def adopt(self, request: ContainerRequest, container_id: str) -> "PodmanContainer | None":
        client = await self._clients.adopt(_client(request, []), container_id)
        return None if client is None else PodmanContainer(client, _name(request), self, request)

    async def execute(
        self, request: ContainerRequest, *, terminal: bool = False, wants_input: bool = False
    ) -> Execution:
        flags = ["--tty"] if terminal else []
        flags += ["--interactive"] if wants_input or terminal else []
        client = _client(request, ["exec", *flags, _name(request), *request.command])
        return await self._clients.execute(client, terminal=terminal, wants_input=wants_input)

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return await handlers.perform(handler, request, self.execute)

    async def clear(self, pod_uid: str) -> None:
        if not paths.inside(self._pods, pod_uid).exists():
            return  # a restored copy of the data started none of its pods
        listed = await asyncio.to_thread(_run, ["ps", "--all", "--quiet", *_of_pod(pod_uid)])
        if names := listed.stdout.split():
            await self.remove(*names)
        await self._clients.clear(pod_uid)

    async def forget(self, pod_uid: str) -> None:
        await self.clear(pod_uid)
        await self._clients.forget(pod_uid)

    async def remove(self, *names: str) -> None:
        """Kill containers and remove them."""
        await asyncio.to_thread(_run, ["rm", "--force", "--ignore", "--time", "0", *names])

    async def connect(self, pod: Object, port: int) -> Connection:
        mapped = self._ports.mapping_of(pod).ports.get(str(port), port)
        return await listening_sockets.connect(mapped, lambda: _processes(objects.uid(pod)))

    def pods(self) -> set[str]:
        return self._clients.pods()

    def log(self, pod: Object, container: str, attempt: int) -> Path | None:
        return self._clients.log(pod, container, attempt)


async def stop_containers(pod_uids: Sequence[str], grace_seconds: float) -> None:
    """Stop and remove the containers of pods, without a kubelet."""
    for pod_uid in pod_uids:
        listed = await asyncio.to_thread(_run, ["ps", "--all", "--quiet", *_of_pod(pod_uid)])
        if names := listed.stdout.split():
            await asyncio.to_thread(_run, ["stop", "--ignore", "--time", str(int(grace_seconds)), *names])
            await asyncio.to_thread(_run, ["rm", "--force", "--ignore", *names])


def _of_pod(pod_uid: str) -> list[str]:
    return ["--filter", f"label={POD_LABEL}={pod_uid}"]


def _processes(pod_uid: str) -> list[int]:
    """The processes in the containers of a pod."""
    listed = _run(["ps", "--format", "{{.Pid}}", *_of_pod(pod_uid)]).stdout.split()
    return ProcessTable.read().descendants({int(pid) for pid in listed if pid.isdecimal()})


def _name(request: ContainerRequest) -> str:
    return podman_arguments.container_name(objects.uid(request.pod), str(request.container["name"]), request.attempt)


def _client(request: ContainerRequest, words: Sequence[str]) -> ContainerRequest:
    """The request for the process of podman. Nothing of the pod is in its own environment."""
    fields = {field: request.container[field] for field in ("name", "stdin", "tty") if field in request.container}
    return msgspec.structs.replace(
        request,
        container=fields,
        command=(_PROGRAM, *words),
        environment={name: os.environ[name] for name in _INHERITED if name in os.environ},
        mounts=Mounts(),
        gpu_indexes=(),
        security=ContainerSecurity(),
    )


class PodmanContainer:
    def __init__(self, client: ProcessContainer, name: str, runtime: PodmanRuntime, request: ContainerRequest) -> None:
        self.id = f"podman://{name}"
        self._client = client
        self._name = name
        self._runtime = runtime
        self._request = request

    async def wait(self) -> Exit:
        """The exit of the container. If the client was killed, the container is killed, too."""
        ended = await self._client.wait()
        state = await asyncio.to_thread(_run, ["inspect", "--format", "{{.State.OOMKilled}}", self._name])
        await self._runtime.remove(self._name)
        if state.stdout.strip() == "true":
            return OUT_OF_MEMORY
        return self._failure() if ended.code == _FAILURE else ended

    def _failure(self) -> Exit:
        """What podman said about its failure is the end of the log."""
        log = self._runtime.log(self._request.pod, str(self._request.container["name"]), self._request.attempt)
        lines = log.read_text(errors="replace").strip().splitlines() if log is not None else []
        return StartError("\n".join(lines[-3:])[:_LONGEST_MESSAGE] or "podman failed").exit

    async def stop(self, grace_seconds: float) -> None:
        if grace_seconds > 0:
            stop_signal = objects.nested(self._request.container, "lifecycle").get("stopSignal", "SIGTERM")
            done = await asyncio.to_thread(_run, ["kill", "--signal", stop_signal, self._name])
            if done.returncode == 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._client.ended(), grace_seconds)
        await self._runtime.remove(self._name)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._client.ended(), _CLIENT_SECONDS)
        await self._client.stop(0)
