"""HTTP/2: the streams of a connection as exchanges."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict, MultiMapping

from pykueue.apiserver.http.connections import Connections
from pykueue.apiserver.http.exchanges import SEND_SECONDS, ByteStream
from pykueue.apiserver.http.http1 import websocket_needed
from pykueue.apiserver.http.messages import Upgrade
from pykueue.apiserver.http2.connection import Http2Connection
from pykueue.apiserver.http2.hpack import Field
from pykueue.apiserver.http2.streams import Stream
from pykueue.apiserver.http2.turns import Turns
from pykueue.kube import server_header


class Http2Server:
    """Makes the protocol of each connection, and calls `handle` with an exchange."""

    def __init__(self, handle: Callable[["Http2Exchange"], Awaitable[None]], connections: Connections) -> None:
        self._answer = handle
        self._registry = connections
        self._connections: set[Http2Connection] = set()
        self._turns = Turns()

    def connect(self, transport: asyncio.Transport) -> None:
        """Serve a connection whose client has chosen HTTP/2."""
        peer = transport.get_extra_info("peername")
        remote = str(peer[0]) if isinstance(peer, tuple) else ""

        def handle(stream: Stream) -> Awaitable[None]:
            return self._answer(Http2Exchange(stream, remote))

        connection = Http2Connection(handle, self._lost, self._turns, self._registry.owner)
        self._connections.add(connection)
        transport.set_protocol(connection)
        self._registry.opened(connection, transport, connection.retire)
        connection.connection_made(transport)

    def _lost(self, connection: Http2Connection) -> None:
        self._connections.discard(connection)
        self._registry.closed(connection)

    async def stop(self, seconds: float) -> None:
        """End all streams, let requests end, and disconnect."""
        connections = list(self._connections)
        for connection in connections:
            connection.end_streams()
        waits = [connection.wait_idle() for connection in connections if not connection.is_idle]
        if waits:
            await asyncio.wait([asyncio.ensure_future(wait) for wait in waits], timeout=seconds)
        for connection in connections:
            connection.close() if connection.is_idle else connection.cancel()


class Http2Exchange:
    def __init__(self, stream: Stream, remote: str) -> None:
        self._stream = stream
        self.connection: object = stream.connection
        self.method = stream.head.method
        self.target = stream.head.target
        self.headers: MultiMapping[str] = stream.head.headers
        self.remote = remote
        self.has_body = stream.has_body
        self.content_length = stream.head.content_length

    def arrived_body(self) -> bytes | None:
        return self._stream.arrived_body()

    def expect_body(self, limit: int) -> None:
        self._stream.open_window(limit)

    async def read(self) -> bytes:
        return await self._stream.read()

    @property
    def has_started(self) -> bool:
        return self._stream.has_started

    async def respond(self, status: int, headers: CIMultiDict[str], data: bytes) -> None:
        fields = _fields(headers)
        if status >= 200 and status not in (204, 304):
            fields.append(("content-length", str(len(data))))
        stream = self._stream
        stream.respond(status, fields, b"" if self.method == "HEAD" else data)
        await self._drain()

    async def _drain(self) -> None:
        """Wait for the client to read everything; it is disconnected if that takes too long."""
        if not self._stream.pending_bytes:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._stream.drain()
        except TimeoutError:
            self._stream.abort()
            raise ConnectionResetError("the client does not read the response") from None

    async def start(self, status: int, headers: CIMultiDict[str]) -> ByteStream:
        if self._stream.is_closed:
            raise ConnectionResetError("the client is gone")
        self._stream.start(status, _fields(headers))
        return StreamedBody(self._stream)

    async def end(self) -> None:
        self._stream.end()
        await self._drain()

    async def upgrade(self, _upgrade: Upgrade) -> None:
        """WebSockets use HTTP/1.1; clients that want one negotiate it."""
        raise websocket_needed()

    def is_closed(self) -> bool:
        return self._stream.is_closed

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        if self._stream.is_closed:
            callback()
        else:
            self._stream.on_close = callback

    def cancel(self) -> None:
        if self._stream.task is not None:
            self._stream.task.cancel()

    def abort(self) -> None:
        self._stream.abort()


class StreamedBody:
    """A body that is sent as far as the client's windows allow."""

    __slots__ = ("_stream", "drain", "write")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.write = stream.write
        self.drain = stream.drain

    def get_write_buffer_size(self) -> int:
        return self._stream.pending_bytes

    def is_closing(self) -> bool:
        return self._stream.is_closed

    def abort(self) -> None:
        self._stream.abort()


def _fields(headers: CIMultiDict[str]) -> list[Field]:
    fields = [(name.lower(), value) for name, value in headers.items()]
    fields += (("date", rfc822_formatted_time()), ("server", server_header.NAME))
    return fields
