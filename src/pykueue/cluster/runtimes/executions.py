"""Commands that run beside a container's main process: probes, hooks, `kubectl exec`.

Used by the process runtime.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pykueue.cluster import paths
from pykueue.cluster.runtimes.linux_processes import ProcessIdentity
from pykueue.cluster.runtimes.protocol import StartError

_CHUNK_BYTES = 64 * 1024
LIMITS_SCRIPT = """\
[ "$1" = 0 ] || ulimit -d "$1"
[ "$2" = 0 ] || ulimit -u "$2" 2>/dev/null || ulimit -p "$2"
shift 2
"""
"""Sets the limits of a process, in the shell that becomes it."""


def find_executable(word: str, environment: Mapping[str, str], work: Path) -> str:
    path = shutil.which(word, path=environment.get("PATH")) if "/" not in word else word
    if path is None or not os.access(paths.of_command(work, path), os.X_OK):
        raise StartError(f'exec: "{word}": executable file not found in $PATH')
    return path


def change_directory(work: Path) -> None:
    try:
        os.chdir(work)
    except OSError as error:
        raise _no_entry(work, error) from None


def _no_entry(work: Path, error: OSError) -> StartError:
    remedy = (
        "let this user enter it, name another one (workingDir, --workdir), "
        "or run the namespace's jobs as its owner (pykueue up --run-as NAMESPACE=USER)"
    )
    private = next((str(path) for path in paths.TEMPORARY if work.is_relative_to(path)), "")
    if private and isinstance(error, FileNotFoundError):
        remedy = f"the container has a {private} of its own, so name a workingDir outside {private}"
    return StartError(
        f"user {os.geteuid()} of the container cannot enter the working directory {work}: {error.strerror}; {remedy}"
    )


@dataclass(frozen=True, slots=True)
class StartedCommand:
    process: subprocess.Popen[bytes]
    terminal: int | None = None
    """Our end of the terminal."""


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    work: Path,
    *,
    limits: Sequence[str],
    terminal: bool,
    wants_input: bool,
) -> StartedCommand:
    """Start a command with the rights of the calling thread, and the limits of a container."""
    words = [find_executable(command[0], environment, work), *command[1:]]
    if set(limits) != {"0"}:
        words = ["/bin/sh", "-c", f'{LIMITS_SCRIPT}exec "$@"', "sh", *limits, *words]
    controller, device = os.openpty() if terminal else (None, None)
    pipe = subprocess.PIPE if device is None else device
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command, with the user's rights
            words if device is None else ["setsid", "-c", *words],
            stdin=pipe if wants_input or device is not None else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            cwd=work,
            env=dict(environment) if device is None else {"TERM": "xterm", **environment},
            start_new_session=True,
            umask=0o022,
        )
    except OSError as error:
        if controller is not None:
            os.close(controller)
        raise _no_entry(work, error) if str(error.filename) == str(work) else StartError(str(error)) from None
    finally:
        if device is not None:
            os.close(device)
    return StartedCommand(process, controller)


async def follow(command: StartedCommand) -> "CommandExecution":
    execution = CommandExecution(command)
    await execution.connect()
    return execution


class CommandExecution:
    """A running command. `output` and `errors` return b"" at the end."""

    def __init__(self, command: StartedCommand) -> None:
        self._process = command.process
        self._terminal = command.terminal
        self._output = asyncio.StreamReader()
        self._errors = asyncio.StreamReader()
        self._input: asyncio.StreamWriter | None = None
        self._end = asyncio.ensure_future(self._reap())

    async def connect(self) -> None:
        process = self._process
        if self._terminal is not None:
            await _connect_reader(self._output, os.fdopen(os.dup(self._terminal), "rb", 0))
            return
        assert process.stdout is not None
        assert process.stderr is not None
        await _connect_reader(self._output, process.stdout)
        await _connect_reader(self._errors, process.stderr)
        if process.stdin is not None:
            loop = asyncio.get_running_loop()
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await loop.connect_write_pipe(lambda: protocol, process.stdin)
            self._input = asyncio.StreamWriter(transport, protocol, None, loop)

    async def _reap(self) -> int:
        """Wait for the end, also if nobody asks for the exit code: otherwise a zombie stays."""
        with contextlib.suppress(FileNotFoundError):
            await ProcessIdentity.of(self._process.pid).ended()
        return self._process.wait()

    async def output(self) -> bytes:
        """The next chunk of stdout, b"" at the end; on a terminal, of stdout and stderr."""
        try:
            return await self._output.read(_CHUNK_BYTES)
        except OSError:  # the last process on the terminal has ended
            return b""

    async def errors(self) -> bytes:
        return b"" if self._terminal is not None else await self._errors.read(_CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(os.write, self._terminal, data)
        elif self._input is not None:
            with contextlib.suppress(ConnectionError):
                self._input.write(data)
                await self._input.drain()

    def close_input(self) -> None:
        if self._input is not None:
            self._input.close()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        """The exit code; 128 + the signal if it was killed."""
        code = await asyncio.shield(self._end)
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """Kill the command and every process in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.close_input()
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                os.close(self._terminal)
            self._terminal = None


async def _connect_reader(reader: asyncio.StreamReader, file: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
