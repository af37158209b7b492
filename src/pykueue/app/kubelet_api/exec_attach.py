"""`kubectl exec` and `attach`: the subresources `pods/exec` and `pods/attach` of `pykueue up`.

The first byte of a WebSocket message is its channel: stdin, stdout, stderr, the final status, or
the size of the terminal.
"""

import asyncio
import contextlib
import json
import os
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from pykueue.api import errors, objects, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http import pod_subresources as pod_resources
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, MessageStream, Upgrade
from pykueue.apiserver.http.routes import is_set
from pykueue.cluster.kubelet import logs
from pykueue.cluster.local_cluster import LocalCluster
from pykueue.cluster.runtimes import console
from pykueue.cluster.runtimes.launch import INPUT
from pykueue.cluster.runtimes.protocol import Execution, StartError

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_FULL_SECONDS = 0.01
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def register(api: EmbeddedApi, cluster: LocalCluster) -> None:
    client = api.client()

    async def execute(call: HttpRequest) -> HttpResponse:
        options = PodExecOptions.of(call)
        if not options.command:
            raise errors.bad_request("you must specify at least 1 command for the container")
        pod = await client.get(resources.POD, call.route.name, call.route.namespace)
        assert cluster.kubelet is not None
        try:
            execution = await cluster.kubelet.execute(
                objects.uid(pod),
                _container(pod, options.container),
                options.command,
                terminal=options.terminal,
                wants_input=options.wants_input,
            )
        except StartError as error:
            raise errors.bad_request(str(error)) from None
        return HttpResponse(body=Upgrade(protocols=PROTOCOLS, serve=lambda line: _serve_exec(line, execution)))

    async def attach(call: HttpRequest) -> HttpResponse:
        pod = await client.get(resources.POD, call.route.name, call.route.namespace)
        options = PodExecOptions.of(call)
        query = logs.Query.parse({"container": _container(pod, options.container), "follow": "true"})
        log = logs.find(pod, query, cluster.log_of)
        stream = logs.stream(log, query, lambda: cluster.is_running(objects.uid(pod), query.container))
        container = next(item for item in _containers(pod) if item["name"] == query.container)
        fifo = log.parent / INPUT if isinstance(log, Path) and options.wants_input else None
        attached = AttachedConsole(fifo, ends_with_client=bool(container.get("stdinOnce")))
        return HttpResponse(body=Upgrade(protocols=PROTOCOLS, serve=lambda line: _serve_attach(line, stream, attached)))

    api.hooks.add_subresource("", pod_resources.EXEC, execute)
    api.hooks.add_subresource("", pod_resources.ATTACH, attach)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExecOptions:
    """The query of a request, as Kubernetes' PodExecOptions and PodAttachOptions have it."""

    command: tuple[str, ...]
    container: str
    terminal: bool
    wants_input: bool

    @classmethod
    def of(cls, call: HttpRequest) -> "PodExecOptions":
        query = urllib.parse.parse_qs(call.target.partition("?")[2], keep_blank_values=True)
        return cls(
            command=tuple(query.get("command") or ()),
            container=call.query.get("container", ""),
            terminal=is_set(call.query, "tty"),
            wants_input=is_set(call.query, "stdin"),
        )


def _containers(pod: Object) -> list[Object]:
    fields = ("containers", "initContainers", "ephemeralContainers")
    return [container for field in fields for container in objects.nested_list(pod, "spec", field)]


def _container(pod: Object, name: str) -> str:
    default = objects.annotations(pod).get(_DEFAULT_CONTAINER)
    names = [container["name"] for container in _containers(pod)]
    chosen = name or default or names[0]
    if chosen not in names:
        raise errors.bad_request(f"container {chosen} is not valid for pod {objects.name(pod)}")
    return str(chosen)


async def _serve_exec(line: MessageStream, execution: Execution) -> None:
    """Copy in both directions until the command ends or the client disconnects."""
    receiving = asyncio.ensure_future(_receive_input(line, execution))
    sending = asyncio.ensure_future(_send_output(line, execution))
    try:
        await asyncio.wait([receiving, sending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        execution.close()
        for task in (receiving, sending):
            task.cancel()
        await asyncio.gather(receiving, sending, return_exceptions=True)


async def _receive_input(line: MessageStream, execution: Execution) -> None:
    """Return when the client disconnects."""
    while (message := await line.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == _STDIN:
            await execution.write(data)
        elif channel == _RESIZE:
            _resize(execution, data)
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
            execution.close_input()


class _TerminalSize(msgspec.Struct, rename="pascal"):
    width: Annotated[int, msgspec.Meta(ge=0, lt=2**16)]
    height: Annotated[int, msgspec.Meta(ge=0, lt=2**16)]


_SIZE = msgspec.json.Decoder(_TerminalSize)


def _size(data: bytes) -> _TerminalSize | None:
    try:
        return _SIZE.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _resize(execution: Execution, data: bytes) -> None:
    if size := _size(data):
        execution.resize(size.width, size.height)


async def _send_output(line: MessageStream, execution: Execution) -> None:
    await asyncio.gather(_copy(line, _STDOUT, execution.output), _copy(line, _STDERR, execution.errors))
    code = await execution.wait()
    await line.send(bytes([_STATUS]) + json.dumps(_exit_status(code)).encode())


async def _copy(line: MessageStream, channel: int, read: Callable[[], Awaitable[bytes]]) -> None:
    while chunk := await read():
        await line.send(bytes([channel]) + chunk)


def _exit_status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class AttachedConsole:
    """Writes what an attached client sends into the FIFO of the container's input."""

    def __init__(self, fifo: Path | None, *, ends_with_client: bool) -> None:
        self._ends_with_client = ends_with_client
        self._fifo: int | None = None
        if fifo is not None:
            with contextlib.suppress(OSError):  # there is no input, or the container has ended
                self._fifo = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)

    async def handle(self, message: bytes) -> None:
        channel, data = message[0], message[1:]
        if channel == _STDIN:
            for frame in console.data_frames(data):
                await self._write(frame)
        elif channel == _RESIZE:
            if size := _size(data):
                await self._write(console.size_frame(size.width, size.height))
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
            await self._write(console.end_frame())

    async def close(self) -> None:
        if self._fifo is None:
            return
        if self._ends_with_client:
            await self._write(console.end_frame())
        os.close(self._fifo)
        self._fifo = None

    async def _write(self, frame: bytes) -> None:
        """Wait while the FIFO is full; a container that has ended reads no more."""
        while self._fifo is not None:
            try:
                os.write(self._fifo, frame)
            except BlockingIOError:
                await asyncio.sleep(_FULL_SECONDS)
            except OSError:
                return
            else:
                return


async def _serve_attach(line: MessageStream, stream: AsyncIterator[bytes], attached: AttachedConsole) -> None:
    """Send the log of the container, and its input, until it ends or the client disconnects."""

    async def disconnected() -> None:
        while (message := await line.receive()) is not None:
            if message:
                await attached.handle(message)

    async def send_log() -> None:
        async for chunk in stream:
            await line.send(bytes([_STDOUT]) + chunk)
        await line.send(bytes([_STATUS]) + json.dumps(_exit_status(0)).encode())

    tasks = [asyncio.ensure_future(disconnected()), asyncio.ensure_future(send_log())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await attached.close()
