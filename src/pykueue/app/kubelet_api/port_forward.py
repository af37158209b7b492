"""`kubectl port-forward`: the subresource `pods/portforward` of `pykueue up`, for process pods.

kubectl tunnels SPDY through a WebSocket. Each connection has two streams: one for data, one for
errors. The runtime connects only to ports on which a process of the pod listens.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from pykueue.api import errors, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http import pod_subresources as pod_resources
from pykueue.apiserver.http import spdy
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, MessageStream, Upgrade
from pykueue.cluster.local_cluster import LocalCluster
from pykueue.cluster.runtimes.port_mapping import ADDRESS
from pykueue.cluster.runtimes.protocol import Connection

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_CHUNK_BYTES = 64 * 1024
_MOST_CHUNKS = 4
_MOST_CONNECTIONS = 256
"""At once, of one session."""
_ALL_CONNECTIONS = 512
"""Of all sessions; a user alone has at most half of them, so that descriptors are left."""
_FRAMES_PER_TURN = 64


def register(api: EmbeddedApi, cluster: LocalCluster) -> None:
    client = api.client()
    connections = PodConnections(cluster.connect)

    async def forward(call: HttpRequest) -> HttpResponse:
        pod = await client.get(resources.POD, call.route.name, call.route.namespace)
        if objects.status(pod).get("phase") != "Running":
            raise errors.bad_request(f"unable to forward port because pod is not running: {call.route.name}")

        async def serve(messages: MessageStream) -> None:
            await PortForwardSession(messages, functools.partial(connections.open, call.user.name, pod)).run()

        return HttpResponse(body=Upgrade(protocols=(PROTOCOL,), serve=serve))

    api.hooks.add_subresource("", pod_resources.PORT_FORWARD, forward)


class PodConnections:
    """The connections of all sessions to pods.

    Before a connection is made, a thread looks for the processes of the pod. One user's thousand
    connections are made one after the other, and those of other users in between.
    """

    def __init__(self, connect: Callable[[Object, int], Awaitable[Connection]]) -> None:
        self._connect_pod = connect
        self._seats = FairQueue(_ALL_CONNECTIONS, 0)
        self._lookups = FairQueue(1, None)

    @contextlib.asynccontextmanager
    async def open(self, user: str, pod: Object, port: int) -> AsyncIterator[Connection]:
        try:
            await self._seats.enter(user)
        except ApiError:
            raise ConnectionRefusedError(0, "too many connections of this user to pods") from None
        try:
            reader, writer = await self._connect(user, pod, port)
            try:
                yield reader, writer
            finally:
                writer.close()
        finally:
            self._seats.leave(user)

    async def _connect(self, user: str, pod: Object, port: int) -> Connection:
        """The look-up ends, and the next one begins, also if nobody waits for it any more."""
        await self._lookups.enter(user)
        connecting = asyncio.ensure_future(self._connect_pod(pod, port))
        connecting.add_done_callback(lambda _: self._lookups.leave(user))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_unused)
            raise


def _close_unused(connecting: asyncio.Future[Connection]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result()[1].close()


class PortForwardSession:
    """All connections of one `kubectl port-forward`."""

    def __init__(
        self, messages: MessageStream, connect: Callable[[int], AbstractAsyncContextManager[Connection]]
    ) -> None:
        self._messages = messages
        self._connect_pod = connect
        self._writer = spdy.SpdyEncoder()
        self._errors: dict[str, int] = {}
        """Error streams by request ID."""
        self._inputs: dict[int, asyncio.Queue[bytes | None]] = {}
        """What the client sent, by data stream; None at the end of its data."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._last_stream = 0

    async def run(self) -> None:
        reader = spdy.SpdyDecoder()
        try:
            while (message := await self._messages.receive()) is not None:
                for number, frame in enumerate(reader.feed(message), 1):
                    await self._handle(frame)
                    if number % _FRAMES_PER_TURN == 0:
                        await asyncio.sleep(0)
        except spdy.FrameError:
            return
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _handle(self, frame: spdy.SpdyFrame) -> None:
        match frame:
            case spdy.Opened():
                await self._messages.send(self._writer.accepted(frame.stream))
                self._open(frame)
            case spdy.Data() if frame.stream in self._inputs:
                if frame.data:
                    await self._put(frame.stream, frame.data)
                if frame.is_last:
                    await self._put(frame.stream, None)
            case spdy.Reset() if frame.stream in self._tasks:
                self._tasks[frame.stream].cancel()
            case spdy.Ping():
                await self._messages.send(self._writer.pong(frame.number))

    async def _put(self, stream: int, data: bytes | None) -> None:
        """Wait while the pod reads slowly, so that no more than a few chunks are in memory."""
        putting = asyncio.ensure_future(self._inputs[stream].put(data))
        try:
            await asyncio.wait({putting, self._tasks[stream]}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    def _open(self, opened: spdy.Opened) -> None:
        self._tasks = {stream: task for stream, task in self._tasks.items() if not task.done()}
        if len(self._tasks) >= _MOST_CONNECTIONS or len(self._errors) >= _MOST_CONNECTIONS:
            raise spdy.FrameError("too many connections")
        if opened.stream <= self._last_stream:
            raise spdy.FrameError("a stream is opened twice")
        self._last_stream = opened.stream
        request = opened.headers.get("requestid", "")
        if opened.headers.get("streamtype") == "error":
            self._errors[request] = opened.stream
            return
        self._inputs[opened.stream] = asyncio.Queue(_MOST_CHUNKS)
        connecting = self._connect(opened.stream, request, opened.headers.get("port", ""))
        self._tasks[opened.stream] = asyncio.ensure_future(connecting)

    async def _connect(self, stream: int, request: str, port: str) -> None:
        fault = ""
        try:
            pod_port = int(port) if port.isdecimal() and len(port) <= 5 else 0
            async with self._connect_pod(pod_port) as (reader, writer):
                await self._exchange(stream, reader, writer)
        except OSError as error:
            fault = f"failed to connect to {ADDRESS}:{port} inside the pod: {error.strerror or error}"
        finally:
            self._inputs.pop(stream, None)
        await self._send(stream, b"", is_last=True)
        if request in self._errors:
            await self._send(self._errors.pop(request), fault.encode(), is_last=True)

    async def _exchange(self, stream: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy in both directions until the pod closes its side of the connection."""
        sending = asyncio.ensure_future(self._send_to_pod(stream, writer))
        try:
            with contextlib.suppress(ConnectionError):
                while chunk := await reader.read(_CHUNK_BYTES):
                    await self._send(stream, chunk)
        finally:
            sending.cancel()

    async def _send_to_pod(self, stream: int, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while (chunk := await self._inputs[stream].get()) is not None:
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()

    async def _send(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        for frame in self._writer.data(stream, data, is_last=is_last):
            await self._messages.send(frame)
