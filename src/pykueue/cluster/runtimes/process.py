"""The process runtime: each container is a process of this machine, with its output in a file.

`ProcessRuntime.start` starts a shell script, which waits for a line on a pipe, runs the command of
the container and writes its exit code to a file. The line comes when the identity of the process
is in another file. So a pykueue that restarts after a crash finds each attempt, running or with
its exit code, and no attempt starts twice: a script whose pykueue ended before the line ends, too.

`sandbox` gives the script, and so the command, the rights that the kubelet has decided.
"""

import asyncio
import contextlib
import fcntl
import os
import resource
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
from pykueue.cluster import paths
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import executions, handlers, linux_processes, port_mapping, sandbox
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.monitor import OOM_FILE, ContainerLimits, ContainerMonitor, MonitoredContainer
from pykueue.cluster.runtimes.protocol import ContainerRequest, Execution, StartError
from pykueue.cluster.runtimes.sandbox import FileView

_SCRIPT = """\
read -r _ <&3 || { printf never >&4; exit 125; }
exec 3<&-
cd -- "$1" || { printf 126 >&4; exit 126; }
[ "$2" = 0 ] || ulimit -d "$2"
[ "$3" = 0 ] || ulimit -u "$3" 2>/dev/null || ulimit -p "$3"
shift 3
umask 022
trap : TERM INT HUP
"$@" 4>&-
code=$?
printf '%s' "$code" >&4
exit "$code"
"""
_NEVER_RAN = "never"
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
_PODS = "pods"
_POD_FILE = "pod.json"
"""The `PodDescription` of a pod."""
PROCESS_LIMIT = 16384
"""Processes and threads of all pods of one Unix user that is not ours."""
_FIRST_DESCRIPTOR = 10
"""Descriptors for the script are above those that it gets."""
LOST = Exit(
    code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)
OUT_OF_MEMORY = Exit(code=137, reason="OOMKilled")


class ProcessRuntime:
    name = "process"
    has_files = True

    def __init__(self, root: Path, limits: ContainerLimits | None = None) -> None:
        self._directory = root
        self._root = root / _PODS
        self._root.mkdir(parents=True, exist_ok=True)
        self._ports = port_mapping.PortMappings(root / "ports")
        self._monitor = ContainerMonitor(limits or ContainerLimits())

    async def start(self, request: ContainerRequest) -> "ProcessContainer":
        environment, command = self._environment_and_command(request)
        directory = paths.inside(self._attempts(request), f"{request.attempt}-{secrets.token_hex(4)}")
        directory.mkdir(parents=True)
        (directory / "boot").write_text(linux_processes.boot_id())
        self._describe(request)
        work = self._working_directory(request)
        view = await asyncio.to_thread(self._file_view, request, directory)
        process = await _launch(request, view, _Script(directory, work, environment, command))
        return self._follow(request, directory, process)

    def _describe(self, request: ContainerRequest) -> None:
        path = self._pod_directory(request) / _POD_FILE
        previous = _description(path)
        owner = objects.controller_of(request.pod)
        description = PodDescription(
            name=f"{objects.namespace(request.pod)}/{objects.name(request.pod)}",
            owner=owner["uid"] if owner is not None else objects.uid(request.pod),
            leaves_nothing=request.security.has_pid_namespace and (previous is None or previous.leaves_nothing),
        )
        if description != previous:
            path.write_bytes(msgspec.json.encode(description))

    def _follow(self, request: ContainerRequest, directory: Path, process: ProcessIdentity) -> "ProcessContainer":
        pod_uid, limit = objects.uid(request.pod), _memory_bytes(request)
        self._monitor.add(
            MonitoredContainer(
                directory=directory,
                process=process,
                owner=(pod_uid, str(request.container["name"])),
                memory_bytes=limit,
            )
        )
        return ProcessContainer(directory, process, pod_uid)

    def _environment_and_command(self, request: ContainerRequest) -> tuple[dict[str, str], list[str]]:
        """Environment and command with the directories, addresses and ports of this machine."""
        if not request.command:
            image = request.container.get("image", "")
            raise StartError(f"the process runtime needs a command: it cannot know the entrypoint of image {image!r}")
        mapping = self._ports.mapping_of(request.pod)
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"HOSTNAME": request.pod["spec"].get("hostname") or objects.name(request.pod)}
        if (user := request.security.user) is not None:
            home = user.home or str(self._scratch(request))
            environment |= {"HOME": home, "USER": user.name, "LOGNAME": user.name, "TMPDIR": "/tmp"}  # noqa: S108
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
        if path.startswith("/") and (directory := paths.of_host(path)).is_dir():
            return directory
        return self._scratch(request)

    def _scratch(self, request: ContainerRequest) -> Path:
        """The working directory of a pod whose containers name none; it belongs to their user."""
        scratch = self._pod_directory(request) / "work"
        if not scratch.is_dir():
            scratch.mkdir(parents=True)
            if (user := request.security.user) is not None:
                os.chown(scratch, user.uid, user.gid)
        return scratch

    def _file_view(self, request: ContainerRequest, directory: Path) -> FileView:
        """The file system for a user that is not ours, or with a read-only root."""
        security, volumes = request.security, paths.inside(self._directory, "volumes", objects.uid(request.pod))
        pod_volumes = (volumes,) if volumes.is_dir() else ()
        mounted = tuple(path for path in request.mounts.directories.values() if not path.is_relative_to(volumes))
        if security.user is None:
            return FileView(volumes=(*pod_volumes, *mounted))
        for path in pod_volumes:
            paths.give(path, security.user.uid, security.user.gid)
        temporary = (directory / "tmp", directory / "var-tmp")
        for path in temporary:
            path.mkdir()
            path.chmod(0o1777)
        return FileView(
            writable=(self._scratch(request), *pod_volumes),
            read_only=tuple({paths.of_host(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}),
            temporary=temporary,
            shared_memory_bytes=_memory_bytes(request),
            hidden=self._directory,
            volumes=(*pod_volumes, *mounted),
        )

    def _pod_directory(self, request: ContainerRequest) -> Path:
        return paths.inside(self._root, objects.uid(request.pod))

    def _attempts(self, request: ContainerRequest) -> Path:
        return paths.inside(self._pod_directory(request), "containers", str(request.container["name"]))

    async def adopt(self, request: ContainerRequest, _container_id: str) -> "ProcessContainer | None":
        for directory in sorted(self._attempts(request).glob(f"{request.attempt}-*")):
            if (process := _started_process(directory)) is not None:
                return self._follow(request, directory, process)
        return None

    async def execute(
        self, request: ContainerRequest, *, terminal: bool = False, wants_input: bool = False
    ) -> Execution:
        """Run another command with the rights, variables and directories of the container."""
        environment, command = self._environment_and_command(request)
        work, security = self._working_directory(request), request.security

        def start() -> executions.StartedCommand:
            return executions.spawn(command, environment, work, terminal=terminal, wants_input=wants_input)

        if security.is_default:
            return await executions.follow(start())
        processes = map(_started_process, self._attempts(request).glob(f"{request.attempt}-*"))
        pid = next((process.pid for process in processes if process is not None and process.is_alive()), None)
        if pid is None:
            raise StartError(f"container {request.container['name']} is not running")

        def start_inside() -> executions.StartedCommand:
            sandbox.enter_existing(security, pid)
            sandbox.take_rights(security)
            return start()

        return await executions.follow(await sandbox.in_thread(start_inside))

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return await handlers.perform(handler, request, self.execute)

    async def clear(self, pod_uid: str) -> None:
        description = _description(paths.inside(self._root, pod_uid) / _POD_FILE)
        if description is None or not description.leaves_nothing:
            await asyncio.to_thread(linux_processes.kill_pod_processes, pod_uid)

    async def forget(self, pod_uid: str) -> None:
        pod_directory = paths.inside(self._root, pod_uid)
        for directory in pod_directory.glob("containers/*/*-*"):
            process = _started_process(directory)
            if process is not None and process.is_alive():
                await ProcessContainer(directory, process, pod_uid).stop(0)
        await self.clear(pod_uid)
        await asyncio.to_thread(shutil.rmtree, pod_directory, ignore_errors=True)

    def ports(self, pod: Object) -> dict[int, int]:
        return {int(declared): actual for declared, actual in self._ports.mapping_of(pod).ports.items()}

    def pods(self) -> set[str]:
        return {path.name for path in self._root.iterdir()}

    def log(self, pod: Object, container: str, attempt: int) -> Path | None:
        attempts = paths.inside(self._root, objects.uid(pod), "containers", container)
        logs = [path / "log" for path in attempts.glob(f"{attempt}-*") if (path / "log").exists()]
        return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


# Starting a process


@dataclass(frozen=True, slots=True)
class _Script:
    directory: Path
    work: Path
    environment: dict[str, str]
    command: list[str]


async def _launch(request: ContainerRequest, view: FileView, script: _Script) -> ProcessIdentity:
    """Start the script, write the identity of its process, and let it begin."""
    security, directory = request.security, script.directory
    with contextlib.ExitStack() as stack:
        gate, opener = (_raised(descriptor, stack) for descriptor in os.pipe())
        output = _raised(os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stack)
        exit_file = _raised(os.open(directory / "exit", os.O_WRONLY | os.O_CREAT, 0o600), stack)
        limits = _script_limits(request)

        def spawn() -> int:
            return _spawn(script, limits, {1: output, 2: output, 3: gate, 4: exit_file})

        def spawn_isolated() -> int:
            sandbox.enter_new(security, view)
            sandbox.take_rights(security)
            executions.change_directory(script.work)
            return spawn()

        try:
            pid = spawn() if security.is_default else await sandbox.in_thread(spawn_isolated)
            if security.has_pid_namespace:
                await sandbox.in_thread(lambda: sandbox.mount_proc(pid))
        except OSError as error:
            raise StartError(f"the process cannot be started: {error.filename}: {error.strerror}") from None
        identity = linux_processes.stat_line(pid)
        (directory / "process").write_text(identity)
        os.write(opener, b"\n")
    return ProcessIdentity.parse(identity, is_this_boot=True)


def _raised(descriptor: int, stack: contextlib.ExitStack) -> int:
    """The same file with a number that no descriptor of the script has."""
    raised = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    stack.callback(os.close, raised)
    return raised


def _spawn(script: _Script, limits: list[str], descriptors: dict[int, int]) -> int:
    executions.find_executable(script.command[0], script.environment, script.work)
    return os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", _SCRIPT, "sh", str(script.work), *limits, *script.command],
        script.environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, source, target) for target, source in descriptors.items()),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_RESET_SIGNALS,
    )


def _script_limits(request: ContainerRequest) -> list[str]:
    """Arguments of the script: memory of a process in KiB, and processes; 0 for no limit."""
    memory = _memory_bytes(request)
    processes = 0
    if request.security.user is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        processes = PROCESS_LIMIT if hard == resource.RLIM_INFINITY else min(PROCESS_LIMIT, hard)
    return ["0" if memory is None else str(max(1, memory // 1024)), str(processes)]


def _memory_bytes(request: ContainerRequest) -> int | None:
    limits = resource_lists.parse(objects.nested(request.container, "resources").get("limits"))
    if "memory" not in limits or request.ignores_memory_limit:
        return None
    return limits["memory"].units()


class PodDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime writes down about a pod."""

    name: str
    """Namespace and name."""
    owner: str
    """The uid of the pod's controller, else of the pod."""
    leaves_nothing: bool = False
    """Whether all containers have PID namespaces, which end with all their processes."""


def _description(path: Path) -> PodDescription | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=PodDescription)
    return None


def _started_process(directory: Path) -> ProcessIdentity | None:
    """The process of this attempt; None if its command never began."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if (directory / "exit").read_text() == _NEVER_RAN:
            return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        is_this_boot = (directory / "boot").read_text() == linux_processes.boot_id()
        return ProcessIdentity.parse((directory / "process").read_text(), is_this_boot=is_this_boot)
    return None


class ProcessContainer:
    def __init__(self, directory: Path, process: ProcessIdentity, pod_uid: str) -> None:
        self.id = f"process://{process.pid}-{directory.name}"
        self._directory = directory
        self._process = process
        self._pod_uid = pod_uid
        self._cleanup: asyncio.Future[None] | None = None

    async def wait(self) -> Exit:
        await self._process.ended()
        status = self._process.reap()
        self._signal(signal.SIGKILL)
        self._cleanup = asyncio.ensure_future(asyncio.to_thread(self._remove_temporary_files))
        if (self._directory / OOM_FILE).exists():
            return OUT_OF_MEMORY
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

    def _remove_temporary_files(self) -> None:
        for path in (self._directory / "tmp", self._directory / "var-tmp"):
            shutil.rmtree(path, ignore_errors=True)

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
        description = _description(directory / _POD_FILE) or PodDescription(name=uid, owner=uid)
        attempts = [path.parent for path in directory.glob("containers/*/*-*/process")]
        containers = tuple(
            ProcessContainer(attempt, process, uid)
            for attempt in attempts
            if (process := _started_process(attempt)) is not None and process.is_alive()
        )
        if containers:
            running.append(RunningPod(uid=uid, name=description.name, owner=description.owner, containers=containers))
    return running


async def stop_pods(pods: Sequence[RunningPod], grace_seconds: float) -> None:
    """Send SIGTERM to all containers, and SIGKILL to what still runs after the grace period.

    The exit codes are in files, which the next kubelet reads.
    """
    await asyncio.gather(*(container.stop(grace_seconds) for pod in pods for container in pod.containers))
    for pod in pods:
        await asyncio.to_thread(linux_processes.kill_pod_processes, pod.uid)
