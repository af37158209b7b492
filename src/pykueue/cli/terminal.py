"""Connects the terminal of this process with a container, as `kubectl attach -it` does.

The first byte of a WebSocket message is its channel: stdin, stdout, stderr, the final status, or
the size of the terminal.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp

    from pykueue.api.scheme import Object
    from pykueue.kube.http_client import HttpClient

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _RESIZE, _CLOSE = 0, 1, 2, 4, 255
_CHUNK_BYTES = 4096


async def attach(client: "HttpClient", pod: "Object") -> None:
    """Copy in both directions until the container ends. A terminal passes every key on."""
    from pykueue.api import objects
    from pykueue.api.resources import POD

    container = objects.spec(pod)["containers"][0]
    options = {"stdin": container.get("stdin"), "tty": container.get("tty"), "stdout": True}
    options["stderr"] = not container.get("tty")
    query = [("container", container["name"]), *((name, "true") for name, is_on in options.items() if is_on)]
    path = POD.path(objects.namespace(pod), objects.name(pod), "attach")
    async with client.connect(path, query, _PROTOCOLS) as connection:
        with _raw_terminal() if container.get("tty") else contextlib.nullcontext(), _resizes(connection):
            tasks = [asyncio.ensure_future(_print(connection))]
            if container.get("stdin"):
                tasks.append(asyncio.ensure_future(_send_input(connection)))
            try:
                await tasks[0]
            finally:
                for task in tasks:
                    task.cancel()


async def _print(connection: "aiohttp.ClientWebSocketResponse") -> None:
    async for message in connection:
        if isinstance(message.data, bytes) and message.data[:1] in (bytes([_STDOUT]), bytes([_STDERR])):
            stream = sys.stdout if message.data[0] == _STDOUT else sys.stderr
            stream.buffer.write(message.data[1:])
            stream.buffer.flush()


async def _send_input(connection: "aiohttp.ClientWebSocketResponse") -> None:
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        """A thread, because a regular file cannot be waited for; it ends with the process."""
        chunk = b"first"
        while chunk:
            chunk = os.read(0, _CHUNK_BYTES)
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, daemon=True).start()
    while chunk := await chunks.get():
        await connection.send_bytes(bytes([_STDIN]) + chunk)
    await connection.send_bytes(bytes([_CLOSE, _STDIN]))


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Let the container see every key, also Ctrl-C; restore the terminal afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    settings = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed while the job waited is kept
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, settings)


@contextlib.contextmanager
def _resizes(connection: "aiohttp.ClientWebSocketResponse") -> Iterator[None]:
    """Send the size of the terminal now and whenever it changes."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def send() -> None:
        columns, rows = shutil.get_terminal_size()
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        task = loop.create_task(connection.send_bytes(bytes([_RESIZE]) + size))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if not sys.stdout.isatty():
        yield
        return
    send()
    loop.add_signal_handler(signal.SIGWINCH, send)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
