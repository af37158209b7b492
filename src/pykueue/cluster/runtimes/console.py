"""Gives a container with `stdin` or `tty` its input. Runs as a process of its own.

The process runtime starts `python -I -c TEXT plain|tty COMMAND…` in place of the command, where
TEXT is the text of this file, with a FIFO as standard input. `kubectl attach` writes frames into
the FIFO: one byte for the kind, two for the length, then the data. So an attached client may come
and go, and the container outlives pykueue. This file imports nothing but the standard library.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios

DATA, END, SIZE = 0, 1, 2
LARGEST_DATA = 2048
"""Frames of this size are written to a FIFO in one piece."""
_HEAD = struct.Struct(">BH")
_SIZE = struct.Struct(">HH")
_CHUNK = 1 << 16
_END_OF_INPUT = b"\x04"


def data_frames(data: bytes) -> list[bytes]:
    pieces = [data[start : start + LARGEST_DATA] for start in range(0, len(data), LARGEST_DATA)]
    return [_HEAD.pack(DATA, len(piece)) + piece for piece in pieces]


def end_frame() -> bytes:
    return _HEAD.pack(END, 0)


def size_frame(columns: int, rows: int) -> bytes:
    return _HEAD.pack(SIZE, _SIZE.size) + _SIZE.pack(columns, rows)


class _Input:
    """The input of the command: a pipe, or the controlling side of its terminal."""

    def __init__(self, descriptor: int, *, is_terminal: bool) -> None:
        self._descriptor = descriptor
        self._is_terminal = is_terminal
        self._is_open = True
        self._buffer = b""

    def receive(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._buffer)
            if len(self._buffer) < _HEAD.size + length:
                return
            content = self._buffer[_HEAD.size : _HEAD.size + length]
            self._buffer = self._buffer[_HEAD.size + length :]
            self._handle(kind, content)

    def _handle(self, kind: int, content: bytes) -> None:
        if kind == SIZE and self._is_terminal:
            columns, rows = _SIZE.unpack(content)
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif kind == DATA:
            self._write(content)
        elif kind == END and self._is_terminal:
            self._write(_END_OF_INPUT)
        elif kind == END and self._is_open:
            os.close(self._descriptor)
            self._is_open = False

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data and self._is_open:
                data = data[os.write(self._descriptor, data) :]


def main(mode: str, command: list[str]) -> int:
    is_terminal = mode == "tty"
    pid, descriptor = _on_terminal(command) if is_terminal else _with_pipe(command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: _forward(pid, number) if is_terminal else None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    command_input = _Input(descriptor, is_terminal=is_terminal)
    ended = os.pidfd_open(pid)
    sources = [0, ended, descriptor] if is_terminal else [0, ended]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if descriptor in ready and is_terminal and not _copy_output(descriptor):
            sources.remove(descriptor)
        if 0 in ready:
            command_input.receive(os.read(0, _CHUNK))
        if ended in ready:
            while is_terminal and select.select([descriptor], [], [], 0)[0] and _copy_output(descriptor):
                pass
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            return code if code >= 0 else 128 - code


def _on_terminal(command: list[str]) -> tuple[int, int]:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.environ.setdefault("TERM", "xterm")
        _run(command)
    return pid, descriptor


def _with_pipe(command: list[str]) -> tuple[int, int]:
    source, descriptor = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(source, 0)
        os.close(descriptor)
        _run(command)
    os.close(source)
    return pid, descriptor


def _run(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command of the container
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _forward(pid: int, number: int) -> None:
    """The command on a terminal has a session of its own, which signals to our group miss."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _copy_output(descriptor: int) -> bool:
    try:
        data = os.read(descriptor, _CHUNK)
    except OSError:  # the last process on the terminal has ended
        return False
    os.write(1, data)
    return bool(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
