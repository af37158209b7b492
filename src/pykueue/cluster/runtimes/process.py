"""Containers as processes of this machine, each in its own session, its output in a file.

A small shell script stands between us and the command. It notes who it is before the command starts and how it ended
after, so that a pykueue that comes back after a crash finds each attempt again, alive or with its exit code, and never
starts one twice: an attempt that had not begun is cancelled, and the script looks for that before it begins.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from pathlib import Path

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import (
    executions,
    handlers,
    identity,
    leftover_processes,
    port_mapping,
)
from pykueue.cluster.runtimes.identity import ProcessIdentity
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
LIMITS = "pykueue.dev/memory-limit"
"""Annotation; `ignore` leaves a pod's memory unbounded."""
LOST = Exit(
    code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)


class ProcessRuntime:
    name = "process"

    def __init__(self, root: Path) -> None:
        self._root = root / "pods"
        self._root.mkdir(parents=True, exist_ok=True)
        self._ports = port_mapping.Ports(root / "ports")

    async def start(self, request: ContainerRequest) -> "ProcessContainer":
        environment, command = self._told(request)
        directory = self._attempts(request) / f"{request.attempt}-{secrets.token_hex(4)}"
        directory.mkdir(parents=True)
        (directory / "boot").write_text(identity.boot_id())
        work = self._working_directory(request)
        executions.find(command[0], environment, work)
        pid = self._spawn(directory, work, environment, [*_bounds(request), *command])
        return ProcessContainer(directory, ProcessIdentity.of(pid), objects.uid(request.pod))

    def _told(self, request: ContainerRequest) -> tuple[dict[str, str], list[str]]:
        """Environment and command as they hold on this machine: real directories, addresses and ports."""
        if not request.command:
            image = request.container.get("image", "")
            raise StartError(f"the process runtime needs a command: it cannot know the entrypoint of image {image!r}")
        local = self._ports.locate(request.pod)
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"HOSTNAME": request.pod["spec"].get("hostname") or objects.name(request.pod)}
        environment |= {
            name: local.variable(name, request.mounts.rewrite(value)) for name, value in request.environment.items()
        }
        environment |= {
            leftover_processes.MARKER: objects.uid(request.pod),
            leftover_processes.CONTAINER: str(request.container["name"]),
        }
        if request.gpu_indexes:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, request.gpu_indexes))
        return environment, [local.text(request.mounts.rewrite(word)) for word in request.command]

    def _working_directory(self, request: ContainerRequest) -> Path:
        stated = request.mounts.rewrite(request.container.get("workingDir") or "")
        if stated and Path(stated).is_dir():
            return Path(stated)
        scratch = self._root / objects.uid(request.pod) / "work"
        scratch.mkdir(parents=True, exist_ok=True)
        return scratch

    def _spawn(self, directory: Path, work: Path, environment: dict[str, str], words: list[str]) -> int:
        log = str(directory / "log")
        output = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        start = f"cd -- '{_quoted(str(work))}' || exit 126\n{_SCRIPT}"
        return os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", start, "sh", str(directory), *words],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
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
            if (found := _begun(directory)) is not None:
                return ProcessContainer(directory, found, objects.uid(request.pod))
        return None

    async def execute(
        self, request: ContainerRequest, *, terminal: bool = False, wants_input: bool = False
    ) -> Execution:
        """Runs another command as the container's own would run: its environment, directories and addresses."""
        environment, command = self._told(request)
        work = self._working_directory(request)
        return await executions.begin(command, environment, work, terminal=terminal, wants_input=wants_input)

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return await handlers.carry_out(handler, request, self.execute)

    async def clear(self, pod_uid: str) -> None:
        await asyncio.to_thread(leftover_processes.end, pod_uid)

    async def forget(self, pod_uid: str) -> None:
        home = self._root / pod_uid
        for directory in home.glob("containers/*/*-*"):
            found = _begun(directory)
            if found is not None and found.is_alive():
                await ProcessContainer(directory, found, pod_uid).stop(0)
        await self.clear(pod_uid)
        shutil.rmtree(home, ignore_errors=True)

    def ports(self, pod: Object) -> dict[int, int]:
        return {int(stated): actual for stated, actual in self._ports.locate(pod).ports.items()}

    def pods(self) -> set[str]:
        return {path.name for path in self._root.iterdir()}

    def log(self, pod: Object, container: str, attempt: int) -> Path | None:
        attempts = self._root / objects.uid(pod) / "containers" / container
        logs = [path / "log" for path in attempts.glob(f"{attempt}-*") if (path / "log").exists()]
        return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")


def _bounds(request: ContainerRequest) -> list[str]:
    """The memory limit in KiB, 0 for none."""
    limits = resource_lists.parse((request.container.get("resources") or {}).get("limits"))
    if "memory" not in limits or objects.annotations(request.pod).get(LIMITS) == "ignore":
        return ["0"]
    return [str(max(1, limits["memory"].units() // 1024))]


def _begun(directory: Path) -> ProcessIdentity | None:
    """Who runs or ran this attempt; an attempt that has not begun is cancelled first, so that it never will."""
    if not (directory / "process").exists():
        (directory / "cancelled").touch()
    with contextlib.suppress(OSError, ValueError):
        is_this_boot = (directory / "boot").read_text() == identity.boot_id()
        return ProcessIdentity.parse((directory / "process").read_text(), is_this_boot=is_this_boot)
    return None


class ProcessContainer:
    def __init__(self, directory: Path, who: ProcessIdentity, pod_uid: str) -> None:
        self.id = f"process://{who.pid}-{directory.name}"
        self._directory = directory
        self._who = who
        self._pod_uid = pod_uid

    async def wait(self) -> Exit:
        await self._who.ended()
        status = self._who.reap()
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
                await asyncio.wait_for(self._who.ended(), grace_seconds)
        self._signal(signal.SIGKILL)
        await self._who.ended()

    def _signal(self, number: int) -> None:
        """To the whole group: it may outlive its leader."""
        if self._who.is_this_boot:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._who.pid, number)
