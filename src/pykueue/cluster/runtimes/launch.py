"""Starts the script that runs a container's command; `process` describes the protocol.

Called by the process runtime.
"""

import contextlib
import fcntl
import inspect
import os
import resource
import shlex
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pykueue.api import objects, resource_lists
from pykueue.cluster import pods
from pykueue.cluster.runtimes import console, executions, linux_calls, linux_processes, sandbox
from pykueue.cluster.runtimes.cgroups import ContainerCgroup
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.protocol import ContainerRequest, StartError
from pykueue.cluster.runtimes.sandbox import FileView

_BEGIN = (
    """\
read -r _ <&3 || { printf never >&4; exit 125; }
exec 3<&-
umask 022
cd -- "$1" || { printf 126 >&4; exit 126; }
shift
"""
    + executions.LIMITS_SCRIPT
)
_TAKE_VARIABLES = """\
eval "$(cat <&5)"
exec 5<&-
"""
"""Puts `env -i NAME=VALUE …` before the command. A container with a cgroup gets its variables only
when it is in there: the loader runs code that LD_PRELOAD names before the script waits."""
_RUN = """\
trap : TERM INT HUP QUIT USR1 USR2 ALRM VTALRM WINCH URG
"$@" 4>&-
code=$?
printf '%s' "$code" >&4
exit "$code"
"""
NEVER_RAN = b"never"
INPUT = "stdin"
"""The FIFO beside the log of a container that has input; see `console`."""
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
PROCESS_LIMIT = 16384
"""Processes and threads of all pods of one Unix user that is not ours."""
_FIRST_DESCRIPTOR = 10
"""Descriptors for the script are above those that it gets."""


@dataclass(frozen=True, slots=True)
class StartScript:
    directory: Path
    work: Path
    environment: dict[str, str]
    command: list[str]
    cgroup: ContainerCgroup | None = None
    target: int | None = None
    """The process whose namespaces the container shares; None: it has its own."""
    console: str = ""
    """The mode of the `console` that gives the container input; "" if it has no input."""

    @property
    def arguments(self) -> list[str]:
        """The command, behind a console if the container has input.

        The console's text is an argument, because a user that is not ours may not read its file.
        """
        if not self.console:
            return self.command
        return [sys.executable, "-I", "-c", inspect.getsource(console), self.console, *self.command]

    def open_input(self) -> int:
        if not self.console:
            return os.open(os.devnull, os.O_RDONLY)
        fifo = self.directory / INPUT
        os.mkfifo(fifo, 0o600)
        return os.open(fifo, os.O_RDWR)


async def launch(request: ContainerRequest, view: FileView, script: StartScript) -> ProcessIdentity:
    """Start the script, write the identity of its process, and let it begin."""
    security, directory = request.security, script.directory
    with contextlib.ExitStack() as stack:
        gate, opener = (_raised(descriptor, stack) for descriptor in os.pipe())
        source = _raised(script.open_input(), stack)
        output = _raised(os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stack)
        exit_file = _raised(os.open(directory / "exit", os.O_WRONLY | os.O_CREAT, 0o600), stack)
        if (user := security.user) is not None:
            os.fchown(output, user.uid, user.gid)  # programs open /dev/stdout, which is this file
        limits = script_limits(request, has_cgroup=script.cgroup is not None)
        variables = _raised(_variables_file(script), stack)

        def spawn_script() -> int:
            return spawn(script, limits, {0: source, 1: output, 2: output, 3: gate, 4: exit_file, 5: variables})

        def spawn_isolated() -> int:
            if script.target is None:
                sandbox.enter_new(security, view)
            else:
                sandbox.enter_existing(security, script.target)
            sandbox.take_rights(security)
            executions.change_directory(script.work)
            return spawn_script()

        try:
            pid = spawn_script() if security.is_default else await sandbox.in_thread(spawn_isolated)
            if security.has_pid_namespace and script.target is None:
                await sandbox.in_thread(lambda: sandbox.mount_proc(pid))
            if script.cgroup is not None:
                script.cgroup.add(pid)
        except OSError as error:
            raise StartError(f"the process cannot be started: {error.filename}: {error.strerror}") from None
        identity = linux_processes.stat_line(pid)
        (directory / "process").write_text(identity)
        os.write(opener, b"\n")
    return ProcessIdentity.parse(identity, is_this_boot=True)


def _variables_file(script: StartScript) -> int:
    """A file without a name from which the script takes its variables."""
    words = " ".join(shlex.quote(f"{name}={value}") for name, value in script.environment.items())
    with tempfile.TemporaryFile() as file:
        if script.cgroup is not None:
            file.write(os.fsencode(f'set -- env -i {words} "$@"'))
            file.seek(0)
        return os.dup(file.fileno())


def _raised(descriptor: int, stack: contextlib.ExitStack) -> int:
    """The same file with a number that no descriptor of the script has."""
    raised = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    stack.callback(os.close, raised)
    return raised


def spawn(script: StartScript, limits: list[str], descriptors: dict[int, int]) -> int:
    executions.find_executable(script.command[0], script.environment, script.work)
    linux_calls.inherit_no_descriptors()
    text, environment = f"{_BEGIN}exec 5<&-\n{_RUN}", script.environment
    if script.cgroup is not None:
        marks = {name: script.environment[name] for name in linux_processes.MARKS if name in script.environment}
        text, environment = f"{_BEGIN}{_TAKE_VARIABLES}{_RUN}", {"PATH": os.defpath, **marks}
    return os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", text, "sh", str(script.work), *limits, *script.arguments],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for target, source in descriptors.items()],
        setsid=True,
        setsigmask=(),
        setsigdef=_RESET_SIGNALS,
    )


def script_limits(request: ContainerRequest, *, has_cgroup: bool) -> list[str]:
    """Arguments of `executions.LIMITS_SCRIPT`: memory of a process in KiB, and processes.

    0 is no limit.
    """
    memory = None if has_cgroup else memory_bytes(request)
    processes = 0
    if request.security.user is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        processes = PROCESS_LIMIT if hard == resource.RLIM_INFINITY else min(PROCESS_LIMIT, hard)
    return ["0" if memory is None else str(max(1, memory // 1024)), str(processes)]


def limit_milli(request: ContainerRequest, resource_name: str) -> int | None:
    """The limit of a resource in thousandths.

    An ephemeral container cannot have limits of its own. It has those of its pod's containers
    together, if all of them have one.
    """
    spec = request.pod["spec"]
    if request.container["name"] in [container["name"] for container in pods.ephemeral_containers(spec)]:
        limited = spec.get("containers") or []
    else:
        limited = [request.container]
    lists = [resource_lists.parse(objects.nested(container, "resources").get("limits")) for container in limited]
    if not all(resource_name in limits for limits in lists):
        return None
    return sum(limits[resource_name].milli() for limits in lists)


def memory_bytes(request: ContainerRequest) -> int | None:
    milli = None if request.ignores_memory_limit else limit_milli(request, "memory")
    return None if milli is None else milli // 1000
