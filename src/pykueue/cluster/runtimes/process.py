"""The process runtime: each container is a process of this machine, with its output in a file.

`ProcessRuntime.start` starts a shell script, which runs the container's command. The script writes
its process identity to a file before the command starts, and the exit code to another file after
it. So a pykueue that restarts after a crash finds each attempt, running or with its exit code. No
attempt starts twice: `adopt` marks an attempt that has not begun as cancelled, and the script
checks this mark after it has written its identity.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import console, executions, handlers, linux_processes, port_mapping
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.protocol import ContainerRequest, Execution, StartError

_SCRIPT = """\
directory=$1 memory_kib=$2; shift 2
read -r line < /proc/self/stat && printf '%s\\n' "$line" > "$directory/process" || exit 125
[ -e "$directory/cancelled" ] && exit 125
[ "$memory_kib" = 0 ] || ulimit -d "$memory_kib"
trap : TERM INT HUP
"$@"
code=$?
printf '%s' "$code" > "$directory/exit"
exit "$code"
"""
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
_PODS = "pods"
INPUT = "stdin"
"""The FIFO beside the log of a container that has input; see `console`."""
_POD_FILE = "pod.json"
"""Namespace, name and owner of a pod, for `running_pods`."""
LIMITS = "pykueue.dev/memory-limit"
"""Annotation of a pod; with `ignore` its memory limits are not enforced."""
LOST = Exit(
    code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)


class ProcessRuntime:
    name = "process"

    def __init__(self, root: Path) -> None:
        self._root = root / _PODS
        self._root.mkdir(parents=True, exist_ok=True)
        self._ports = port_mapping.PortMappings(root / "ports")

    async def start(self, request: ContainerRequest) -> "ProcessContainer":
        environment, command = self._environment_and_command(request)
        directory = self._attempts(request) / f"{request.attempt}-{secrets.token_hex(4)}"
        directory.mkdir(parents=True)
        (directory / "boot").write_text(linux_processes.boot_id())
        (self._root / objects.uid(request.pod) / _POD_FILE).write_bytes(_description(request.pod))
        work = self._working_directory(request)
        executions.find_executable(command[0], environment, work)
        arguments = [*_memory_limit(request), *_with_console(request, directory, command)]
        pid = self._spawn(directory, work, environment, arguments)
        return ProcessContainer(directory, ProcessIdentity.of(pid), objects.uid(request.pod))

    def _environment_and_command(self, request: ContainerRequest) -> tuple[dict[str, str], list[str]]:
        """Environment and command with the directories, addresses and ports of this machine."""
        if not request.command:
            image = request.container.get("image", "")
            raise StartError(f"the process runtime needs a command: it cannot know the entrypoint of image {image!r}")
        mapping = self._ports.mapping_of(request.pod)
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"HOSTNAME": request.pod["spec"].get("hostname") or objects.name(request.pod)}
        environment |= {
            name: mapping.variable(name, request.mounts.rewrite(value)) for name, value in request.environment.items()
        }
        environment |= {
            linux_processes.POD_UID: objects.uid(request.pod),
            linux_processes.CONTAINER: str(request.container["name"]),
        }
        if request.gpu_indexes:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, request.gpu_indexes))
        return environment, [mapping.text(request.mounts.rewrite(word)) for word in request.command]

    def _working_directory(self, request: ContainerRequest) -> Path:
        path = request.mounts.rewrite(request.container.get("workingDir") or "")
        if path and Path(path).is_dir():
            return Path(path)
        scratch = self._root / objects.uid(request.pod) / "work"
        scratch.mkdir(parents=True, exist_ok=True)
        return scratch

    def _spawn(self, directory: Path, work: Path, environment: dict[str, str], arguments: list[str]) -> int:
        log = str(directory / "log")
        output = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        fifo = directory / INPUT
        source, flags = (str(fifo), os.O_RDWR) if fifo.exists() else (os.devnull, os.O_RDONLY)
        start = f"cd -- '{_quoted(str(work))}' || exit 126\n{_SCRIPT}"
        return os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", start, "sh", str(directory), *arguments],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, source, flags, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, output, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )

    def _attempts(self, request: ContainerRequest) -> Path:
        return self._root / objects.uid(request.pod) / "containers" / str(request.container["name"])

    async def adopt(self, request: ContainerRequest, _container_id: str) -> "ProcessContainer | None":
        for directory in sorted(self._attempts(request).glob(f"{request.attempt}-*")):
            if (directory / "cancelled").exists():
                continue
            if (process := _started_process(directory)) is not None:
                return ProcessContainer(directory, process, objects.uid(request.pod))
        return None

    async def execute(
        self, request: ContainerRequest, *, terminal: bool = False, wants_input: bool = False
    ) -> Execution:
        """Run another command with the environment, directories and addresses of the container."""
        environment, command = self._environment_and_command(request)
        work = self._working_directory(request)
        return await executions.start(command, environment, work, terminal=terminal, wants_input=wants_input)

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return await handlers.perform(handler, request, self.execute)

    async def clear(self, pod_uid: str) -> None:
        await asyncio.to_thread(linux_processes.kill_pod_processes, pod_uid)

    async def forget(self, pod_uid: str) -> None:
        pod_directory = self._root / pod_uid
        for directory in pod_directory.glob("containers/*/*-*"):
            process = _started_process(directory)
            if process is not None and process.is_alive():
                await ProcessContainer(directory, process, pod_uid).stop(0)
        await self.clear(pod_uid)
        shutil.rmtree(pod_directory, ignore_errors=True)

    def ports(self, pod: Object) -> dict[int, int]:
        return {int(declared): actual for declared, actual in self._ports.mapping_of(pod).ports.items()}

    def pods(self) -> set[str]:
        return {path.name for path in self._root.iterdir()}

    def log(self, pod: Object, container: str, attempt: int) -> Path | None:
        attempts = self._root / objects.uid(pod) / "containers" / container
        logs = [path / "log" for path in attempts.glob(f"{attempt}-*") if (path / "log").exists()]
        return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


def _description(pod: Object) -> bytes:
    owner = objects.controller_of(pod)
    return msgspec.json.encode(
        {
            "name": f"{objects.namespace(pod)}/{objects.name(pod)}",
            "owner": owner["uid"] if owner is not None else objects.uid(pod),
        }
    )


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")


def _with_console(request: ContainerRequest, directory: Path, command: list[str]) -> list[str]:
    """The command, behind a console if the container has input, and the FIFO of its input."""
    container = request.container
    if not container.get("stdin") and not container.get("tty"):
        return command
    os.mkfifo(directory / INPUT, 0o600)
    return [sys.executable, "-I", console.__file__, "tty" if container.get("tty") else "plain", *command]


def _memory_limit(request: ContainerRequest) -> list[str]:
    """The memory limit in KiB as an argument of the script; 0 for none."""
    limits = resource_lists.parse(objects.nested(request.container, "resources").get("limits"))
    if "memory" not in limits or objects.annotations(request.pod).get(LIMITS) == "ignore":
        return ["0"]
    return [str(max(1, limits["memory"].units() // 1024))]


def _started_process(directory: Path) -> ProcessIdentity | None:
    """The process of this attempt. An attempt that has not begun is cancelled: None."""
    if not (directory / "process").exists():
        (directory / "cancelled").touch()
    with contextlib.suppress(OSError, ValueError):
        is_this_boot = (directory / "boot").read_text() == linux_processes.boot_id()
        return ProcessIdentity.parse((directory / "process").read_text(), is_this_boot=is_this_boot)
    return None


class ProcessContainer:
    def __init__(self, directory: Path, process: ProcessIdentity, pod_uid: str) -> None:
        self.id = f"process://{process.pid}-{directory.name}"
        self._directory = directory
        self._process = process
        self._pod_uid = pod_uid

    async def wait(self) -> Exit:
        await self._process.ended()
        status = self._process.reap()
        self._signal(signal.SIGKILL)
        text = ""
        with contextlib.suppress(OSError):
            text = (self._directory / "exit").read_text()
        if text.isdecimal():
            return Exit(code=int(text))
        return LOST if status is None else Exit(code=status)

    async def stop(self, grace_seconds: float) -> None:
        if grace_seconds > 0:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.ended(), grace_seconds)
        self._signal(signal.SIGKILL)
        await self._process.ended()

    def _signal(self, number: int) -> None:
        """Send a signal to the process group. It may outlive its leader."""
        if self._process.is_this_boot:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


# Without a kubelet


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod with a process that runs, read from the files of the runtime."""

    uid: str
    name: str
    """Namespace and name; the uid if a pykueue that wrote no such file started the pod."""
    owner: str
    """The uid of the pod's controller, else of the pod."""
    containers: tuple[ProcessContainer, ...]


def running_pods(root: Path) -> list[RunningPod]:
    """The pods that a `ProcessRuntime` with this root started and that still run.

    `pykueue up` leaves them running when it stops, and the next one adopts them.
    """
    running = []
    for directory in sorted((root / _PODS).glob("*")):
        uid = directory.name
        description = {"name": uid, "owner": uid}
        with contextlib.suppress(OSError, msgspec.DecodeError):
            description |= msgspec.json.decode((directory / _POD_FILE).read_bytes())
        attempts = [path.parent for path in directory.glob("containers/*/*-*/process")]
        containers = tuple(
            ProcessContainer(attempt, process, uid)
            for attempt in attempts
            if (process := _started_process(attempt)) is not None and process.is_alive()
        )
        if containers:
            running.append(RunningPod(uid=uid, containers=containers, **description))
    return running


async def stop_pods(pods: Sequence[RunningPod], grace_seconds: float) -> None:
    """Send SIGTERM to all containers, and SIGKILL to what still runs after the grace period.

    The exit codes are in files, which the next kubelet reads.
    """
    await asyncio.gather(*(container.stop(grace_seconds) for pod in pods for container in pod.containers))
    for pod in pods:
        await asyncio.to_thread(linux_processes.kill_pod_processes, pod.uid)
