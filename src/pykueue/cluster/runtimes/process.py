"""The process runtime: each container is a process of this machine, with its output in a file.

`ProcessRuntime.start` starts a shell script, which waits for a line on a pipe, runs the command of
the container and writes its exit code to a file. The line comes when the identity of the process
is in another file. So a pykueue that restarts after a crash finds each attempt, running or with
its exit code, and no attempt starts twice: a script whose pykueue ended before the line ends, too.

`sandbox` gives the script, and so the command, the rights that the kubelet has decided.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import paths
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import (
    device_files,
    executions,
    handlers,
    launch,
    linux_processes,
    listening_sockets,
    port_mapping,
    sandbox,
    stop_signals,
)
from pykueue.cluster.runtimes.cgroups import CgroupLimits, Cgroups, ContainerCgroup
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity, ProcessTable
from pykueue.cluster.runtimes.monitor import OOM_FILE, ContainerLimits, ContainerMonitor, MonitoredContainer
from pykueue.cluster.runtimes.orphans import OrphanTracker
from pykueue.cluster.runtimes.protocol import Connection, ContainerRequest, Execution, StartError
from pykueue.cluster.runtimes.sandbox import FileView

log = logging.getLogger(__name__)

_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_LONGEST_EXIT_TEXT = 8
_LARGEST_EXIT_CODE = 255
PODS = "pods"
_STOP_SIGNAL_FILE = "stop-signal"
"""Beside the log of a container with `lifecycle.stopSignal`: the number of the signal."""
_POD_FILE = "pod.json"
"""The `PodDescription` of a pod."""
ENVIRONMENT_FILES = "*.env"
"""Files in the directory of a pod whose containers run with `podman`."""
LOST = Exit(
    code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)
LOST_BY_RESTART = Exit(
    code=137, reason="ContainerStatusUnknown", message="The machine was restarted while the container ran"
)
OUT_OF_MEMORY = Exit(code=137, reason="OOMKilled")


class ProcessRuntime:
    name = "process"
    has_files = True

    def __init__(self, root: Path, limits: ContainerLimits | None = None, cgroups: Cgroups | None = None) -> None:
        self._directory = root
        self._root = root / PODS
        self._root.mkdir(parents=True, exist_ok=True)
        self._ports = port_mapping.PortMappings(root / "ports")
        self._cgroups = cgroups
        self._orphans = OrphanTracker()
        self._monitor = ContainerMonitor(limits or ContainerLimits(), self._orphans)

    async def start(self, request: ContainerRequest) -> "ProcessContainer":
        environment, command = self._environment_and_command(request)
        directory = paths.inside(self._attempts(request), f"{request.attempt}-{secrets.token_hex(4)}")
        directory.mkdir(parents=True)
        (directory / "boot").write_text(linux_processes.boot_id())
        self._describe(request)
        work = self._working_directory(request)
        target = self._target(request)
        view = FileView()
        if target is None and (request.security.user is not None or request.security.read_only_root):
            view = await asyncio.to_thread(self._file_view, request, directory)
        if not request.security.has_pid_namespace:
            self._orphans.container_started(objects.uid(request.pod))
        script = launch.StartScript(
            directory,
            work,
            environment,
            command,
            cgroup=self._cgroup(request, directory),
            target=target,
            console=_console(request),
        )
        if (name := objects.nested(request.container, "lifecycle").get("stopSignal")) is not None:
            (directory / _STOP_SIGNAL_FILE).write_text(str(stop_signals.number(name)))
        process = await launch.launch(request, view, script)
        self._orphans.add_child(process.pid)
        return self._follow(request, directory, process)

    def _target(self, request: ContainerRequest) -> int | None:
        """The process of the container whose namespaces an ephemeral container shares."""
        directory = self._target_directory(request)
        process = _started_process(directory) if directory is not None else None
        return process.pid if process is not None else None

    def _target_directory(self, request: ContainerRequest) -> Path | None:
        name = request.container.get("targetContainerName")
        if not name:
            return None
        for directory in paths.inside(self._pod_directory(request), "containers", str(name)).glob("*-*"):
            process = _started_process(directory)
            if process is not None and process.is_alive():
                return directory
        raise StartError(f"the target container {name} is not running")

    def _cgroup(self, request: ContainerRequest, directory: Path) -> ContainerCgroup | None:
        """A new cgroup, whose path is written down; None if this machine has none for us.

        An ephemeral container with a target is in the cgroup of its target, and ends with it.
        """
        if self._cgroups is None:
            return None
        if (target := self._target_directory(request)) is not None:
            return _cgroup_of(target)
        cgroup_limits = CgroupLimits(
            memory_bytes=launch.memory_bytes(request),
            cpu_milli=launch.limit_milli(request, "cpu"),
            processes=launch.PROCESS_LIMIT,
        )
        try:
            cgroup = self._cgroups.create(f"{objects.uid(request.pod)}-{directory.name}", cgroup_limits)
        except OSError as error:
            log.warning("no cgroup for %s: %s", objects.name(request.pod), error)
            return None
        (directory / "cgroup").write_text(str(cgroup))
        return cgroup

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
        pod_uid, cgroup = objects.uid(request.pod), _cgroup_of(directory)
        self._monitor.add(
            MonitoredContainer(
                directory=directory,
                process=process,
                owner=(pod_uid, str(request.container["name"])),
                memory_bytes=launch.memory_bytes(request),
                cgroup=None if cgroup is None or cgroup.ends_as_a_whole else cgroup,
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
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, _visible_gpus(request)))
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
            shared_memory_bytes=launch.memory_bytes(request),
            hidden=self._directory,
            volumes=(*pod_volumes, *mounted),
            gpu_files=device_files.gpu_files(request.gpu_indexes),
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
        limits = launch.script_limits(request, has_cgroup=self._cgroups is not None)

        def start() -> executions.StartedCommand:
            return executions.spawn(
                command, environment, work, limits=limits, terminal=terminal, wants_input=wants_input
            )

        if security.is_default:
            return await self._follow_command(start())
        directory, pid = self._running_attempt(request)
        cgroup = _cgroup_of(directory)

        def start_inside() -> executions.StartedCommand:
            if cgroup is not None:
                cgroup.join_thread()
            sandbox.enter_existing(security, pid)
            sandbox.take_rights(security)
            return start()

        command_started = await sandbox.in_thread(start_inside)
        if cgroup is not None:
            with contextlib.suppress(OSError):  # it has ended
                cgroup.add(command_started.process.pid)
        return await self._follow_command(command_started)

    async def _follow_command(self, command: executions.StartedCommand) -> Execution:
        self._orphans.add_child(command.process.pid)
        return await executions.follow(command)

    def _running_attempt(self, request: ContainerRequest) -> tuple[Path, int]:
        """The directory and the pid of the container's process."""
        for directory in self._attempts(request).glob(f"{request.attempt}-*"):
            process = _started_process(directory)
            if process is not None and process.is_alive():
                return directory, process.pid
        raise StartError(f"container {request.container['name']} is not running")

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return await handlers.perform(handler, request, self.execute)

    async def clear(self, pod_uid: str) -> None:
        directory = paths.inside(self._root, pod_uid)
        description = _description(directory / _POD_FILE)
        # A restored copy of the data started none of its pods: their processes belong to another.
        if directory.exists() and (description is None or not description.leaves_nothing):
            self._orphans.pod_ended(pod_uid)
            self._monitor.ensure_running()
            await asyncio.to_thread(linux_processes.kill_pod_processes, pod_uid)

    async def forget(self, pod_uid: str) -> None:
        pod_directory = paths.inside(self._root, pod_uid)
        for directory in pod_directory.glob("containers/*/*-*"):
            process = _started_process(directory)
            if process is not None and process.is_alive():
                await ProcessContainer(directory, process, pod_uid).stop(0)
        await self.clear(pod_uid)
        await asyncio.to_thread(paths.remove_tree, pod_directory)

    async def connect(self, pod: Object, port: int) -> Connection:
        mapped = self._ports.mapping_of(pod).ports.get(str(port), port)
        return await listening_sockets.connect(mapped, lambda: self._processes(objects.uid(pod)))

    def _processes(self, pod_uid: str) -> list[int]:
        """The processes of a pod: its containers', their descendants, and all with its mark."""
        attempts = paths.inside(self._root, pod_uid).glob("containers/*/*-*")
        processes = [process for attempt in attempts if (process := _started_process(attempt)) is not None]
        roots = {process.pid for process in processes if process.is_alive()}
        return ProcessTable.read().descendants(roots | set(linux_processes.pod_processes(pod_uid)))

    def pods(self) -> set[str]:
        return {path.name for path in self._root.iterdir()}

    def log(self, pod: Object, container: str, attempt: int) -> Path | None:
        attempts = paths.inside(self._root, objects.uid(pod), "containers", container)
        logs = [path / "log" for path in attempts.glob(f"{attempt}-*") if (path / "log").exists()]
        return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


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


def _console(request: ContainerRequest) -> str:
    if request.container.get("tty"):
        return "tty"
    return "plain" if request.container.get("stdin") else ""


def _visible_gpus(request: ContainerRequest) -> Sequence[int | str]:
    """MIG instances, else the indexes of GPUs as CUDA counts them: from 0 if others are hidden."""
    if request.gpu_uuids:
        return request.gpu_uuids
    if request.security.user is not None and device_files.has_gpu_files():
        return range(len(request.gpu_indexes))
    return request.gpu_indexes


def _exit_text(directory: Path) -> bytes:
    """What the script has written; a user's process may have written anything instead."""
    with contextlib.suppress(OSError), (directory / "exit").open("rb") as file:
        return file.read(_LONGEST_EXIT_TEXT)
    return b""


def _cgroup_of(directory: Path) -> ContainerCgroup | None:
    with contextlib.suppress(OSError):
        return ContainerCgroup.parse((directory / "cgroup").read_text())
    return None


def _started_process(directory: Path) -> ProcessIdentity | None:
    """The process of this attempt; None if its command never began."""
    if _exit_text(directory) == launch.NEVER_RAN:
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
        self._was_out_of_memory = False
        self._cleanup: asyncio.Future[None] | None = None

    async def wait(self) -> Exit:
        await self._process.ended()
        status = self._process.reap()
        self._signal(signal.SIGKILL)
        await self._process.group_ended()
        if (cgroup := _cgroup_of(self._directory)) is not None:
            await asyncio.to_thread(cgroup.kill)
            self._was_out_of_memory |= cgroup.was_out_of_memory()
        self._was_out_of_memory |= (self._directory / OOM_FILE).exists()
        self._cleanup = asyncio.ensure_future(asyncio.to_thread(self._remove_temporary_files))
        if self._was_out_of_memory:
            return OUT_OF_MEMORY
        text = _exit_text(self._directory)
        if text.isdigit() and int(text) <= _LARGEST_EXIT_CODE:
            return Exit(code=int(text))
        if status is not None:
            return Exit(code=status)
        return LOST if self._process.is_this_boot else LOST_BY_RESTART

    async def ended(self) -> None:
        await self._process.ended()

    async def stop(self, grace_seconds: float) -> None:
        if grace_seconds > 0:
            self._ask_to_stop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.ended(), grace_seconds)
        self._signal(signal.SIGKILL)
        await self._process.ended()

    def _ask_to_stop(self) -> None:
        """Send SIGTERM to all processes, or the container's stop signal to its command.

        Another signal than SIGTERM asks a program for something: its children do not expect it.
        """
        try:
            number = int((self._directory / _STOP_SIGNAL_FILE).read_text())
        except (OSError, ValueError):
            self._signal(signal.SIGTERM)
            return
        for pid in ProcessTable.read().children(self._process.pid) if self._process.is_this_boot else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _remove_temporary_files(self) -> None:
        for path in (self._directory / "tmp", self._directory / "var-tmp"):
            paths.remove_tree(path)
        if (cgroup := _cgroup_of(self._directory)) is not None:
            cgroup.remove()

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
    has_podman: bool = False
    """Whether its processes are clients of podman."""


def running_pods(root: Path) -> list[RunningPod]:
    """The pods that a `ProcessRuntime` with this root started and that still run.

    `pykueue up` leaves them running when it stops, and the next one adopts them.
    """
    running = []
    for directory in sorted((root / PODS).glob("*")):
        uid = directory.name
        description = _description(directory / _POD_FILE) or PodDescription(name=uid, owner=uid)
        attempts = [path.parent for path in directory.glob("containers/*/*-*/process")]
        containers = tuple(
            ProcessContainer(attempt, process, uid)
            for attempt in attempts
            if (process := _started_process(attempt)) is not None and process.is_alive()
        )
        if containers:
            pod = RunningPod(
                uid=uid,
                name=description.name,
                owner=description.owner,
                containers=containers,
                has_podman=any(directory.glob(ENVIRONMENT_FILES)),
            )
            running.append(pod)
    return running


async def stop_pods(pods: Sequence[RunningPod], grace_seconds: float) -> None:
    """Send SIGTERM, and SIGKILL after the grace period. The next kubelet reads the exit codes."""
    await asyncio.gather(*(container.stop(grace_seconds) for pod in pods for container in pod.containers))
    for pod in pods:
        await asyncio.to_thread(linux_processes.kill_pod_processes, pod.uid)
