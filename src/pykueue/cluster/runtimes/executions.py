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
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykueue.cluster import paths
from pykueue.cluster.runtimes.protocol import StartError

_CHUNK_BYTES = 64 * 1024


def find_executable(word: str, environment: Mapping[str, str], work: Path) -> str:
    path = shutil.which(word, path=environment.get("PATH")) if "/" not in word else word
    if path is None or not os.access(paths.of_command(work, path), os.X_OK):
        raise StartError(f'exec: "{word}": executable file not found in $PATH')
    return path


class CommandExecution:
    """A running command. `output` and `errors` return b"" at the end."""

    def __init__(
        self, process: asyncio.subprocess.Process, terminal: int | None, reader: asyncio.StreamReader | None
    ) -> None:
        self._process = process
        self._terminal = terminal
        self._reader = reader

    async def output(self) -> bytes:
        """The next chunk of stdout, b"" at the end; on a terminal, of stdout and stderr."""
        source = self._reader if self._reader is not None else self._process.stdout
        assert source is not None
        try:
            return await source.read(_CHUNK_BYTES)
        except OSError:  # the last process on the terminal has ended
            return b""

    async def errors(self) -> bytes:
        return await self._process.stderr.read(_CHUNK_BYTES) if self._process.stderr is not None else b""

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(os.write, self._terminal, data)
        elif self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        """The exit code; 128 + the signal if it was killed."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """Kill the command and every process in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                os.close(self._terminal)
            self._terminal = None


async def start(
    command: Sequence[str], environment: Mapping[str, str], work: Path, *, terminal: bool, wants_input: bool
) -> CommandExecution:
    words = [find_executable(command[0], environment, work), *command[1:]]
    if terminal:
        return await _on_terminal(words, environment, work)
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE if wants_input else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=work,
        env=dict(environment),
        start_new_session=True,
    )
    return CommandExecution(process, None, None)


async def _on_terminal(words: Sequence[str], environment: Mapping[str, str], work: Path) -> CommandExecution:
    controller, terminal = os.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            "setsid",
            "-c",
            *words,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=work,
            env={"TERM": "xterm", **environment},
            start_new_session=True,
        )
    finally:
        os.close(terminal)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(controller), "rb", 0))
    return CommandExecution(process, controller, reader)
