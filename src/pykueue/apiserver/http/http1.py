"""HTTP/1.1: aiohttp's low-level server, and its requests as exchanges.

aiohttp's router and middlewares are not used, because `routes` parses all paths.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import HttpVersion11, WSMsgType, web
from multidict import CIMultiDict, MultiMapping

from pykueue.api import errors
from pykueue.apiserver.http import bodies
from pykueue.apiserver.http.connections import Connections
from pykueue.apiserver.http.exchanges import LARGE_BYTES, SEND_SECONDS, BodyError
from pykueue.apiserver.http.messages import Upgrade

_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.CRITICAL)  # hides malformed requests of clients

_LONGEST_LINE_BYTES = 64 * 1024
_LARGEST_MESSAGE_BYTES = 4 * 1024 * 1024
_LINGERING_SECONDS = 2.0
_WRITE_BUFFER_BYTES = 64 * 1024
"""More than this waits for a client to read; TLS connections have 512 KiB otherwise."""


class Http1Server(web.Server):
    """Makes the protocol of each connection, and calls `handle` with an exchange."""

    def __init__(self, handle: Callable[["Http1Exchange"], Awaitable[None]], connections: Connections) -> None:
        super().__init__(
            self._handle,
            request_factory=_request,
            access_log=None,
            logger=_protocol_log,
            auto_decompress=False,
            max_line_size=_LONGEST_LINE_BYTES,
            max_field_size=_LONGEST_LINE_BYTES,
            keepalive_timeout=connections.limits.idle_seconds,
            lingering_time=_LINGERING_SECONDS,
        )
        self._answer = handle
        self._registry = connections
        self._callbacks: dict[web.RequestHandler, Callable[[], None]] = {}
        """What to call when a connection is lost."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._registry.opened(handler, transport, transport.close)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._registry.closed(handler)
        if callback := self._callbacks.pop(handler, None):
            callback()

    def end_streams(self) -> None:
        for callback in list(self._callbacks.values()):
            callback()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        exchange = Http1Exchange(http, self._callbacks)
        try:
            await self._answer(exchange)
        finally:
            self._callbacks.pop(http.protocol, None)
        return exchange.response


class Http1Exchange:
    def __init__(self, http: web.BaseRequest, callbacks: dict[web.RequestHandler, Callable[[], None]]) -> None:
        self._http = http
        self._callbacks = callbacks
        self.connection: object = http.protocol
        self.response: web.StreamResponse = web.Response(status=500)
        """What aiohttp sends, unless it is sent already."""

    @property
    def method(self) -> str:
        return self._http.method

    @property
    def target(self) -> str:
        return self._http.raw_path

    @property
    def headers(self) -> MultiMapping[str]:
        return self._http.headers

    @property
    def remote(self) -> str:
        return self._http.remote or ""

    @property
    def has_body(self) -> bool:
        return self._http.body_exists

    @property
    def content_length(self) -> int | None:
        return self._http.content_length

    def arrived_body(self) -> bytes | None:
        content = self._http.content
        return content.read_nowait() if content.is_eof() else None

    def expect_body(self, limit: int) -> None:
        """Nothing is to be done: aiohttp reads at the speed of the handler."""

    async def read(self) -> bytes:
        try:
            return await self._http.content.readany()
        except web.RequestPayloadError as error:
            raise BodyError(str(error)) from None

    @property
    def has_started(self) -> bool:
        return bool(self._http.writer.output_size)

    async def respond(self, status: int, headers: CIMultiDict[str], data: bytes) -> None:
        self.response = response = web.Response(status=status, body=data, headers=headers)
        if len(data) <= LARGE_BYTES:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await response.prepare(self._http)
                await response.write_eof()
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the client does not read the response") from None

    async def start(self, status: int, headers: CIMultiDict[str]) -> "ChunkedStream":
        self.response = response = web.StreamResponse(status=status, headers=headers)
        is_chunked = self._http.version >= HttpVersion11
        if is_chunked:
            response.enable_chunked_encoding()
        writer = await response.prepare(self._http)
        transport = self._http.transport
        if writer is None or transport is None:
            raise ConnectionResetError("the client is gone")
        return ChunkedStream(transport, writer.drain, is_chunked=is_chunked)

    async def end(self) -> None:
        if not self.is_closed():
            await self.response.write_eof()

    async def upgrade(self, upgrade: Upgrade) -> None:
        http = self._http
        if http.headers.get("Upgrade", "").lower() != "websocket":
            raise websocket_needed()
        self.response = socket = web.WebSocketResponse(
            protocols=upgrade.protocols,
            max_msg_size=_LARGEST_MESSAGE_BYTES,
            autoping=False,
            compress=False,  # a small message could become a large one
        )
        try:
            await socket.prepare(http)
        except web.HTTPException as error:  # the handshake is not one of RFC 6455
            raise errors.bad_request(f"the WebSocket handshake failed: {error.text}") from None
        try:
            await upgrade.serve(WebSocketStream(socket))
        finally:
            await socket.close()

    def is_closed(self) -> bool:
        transport = self._http.transport
        return transport is None or transport.is_closing()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        if self.is_closed():
            callback()
        else:
            self._callbacks[self._http.protocol] = callback

    def cancel(self) -> None:
        self._http.task.cancel()

    def abort(self) -> None:
        if self._http.transport is not None:
            self._http.transport.abort()


class ChunkedStream:
    """A body in chunks, written to the transport without a wait.

    HTTP/1.0 has no chunks: the body ends with the connection.
    """

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Awaitable[None]], *, is_chunked: bool) -> None:
        self._transport = transport
        self._is_chunked = is_chunked
        self.drain = drain
        self.is_closing = transport.is_closing
        self.abort = transport.abort
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)


class WebSocketStream:
    """A `MessageStream` on a WebSocket, for `kubectl exec`, `attach` and `port-forward`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def receive(self) -> bytes | None:
        """The next message. Others have a turn of the loop between any two, also between pings."""
        while True:
            message = await self._socket.receive()
            await asyncio.sleep(0)
            if message.type is WSMsgType.BINARY:
                return bytes(message.data)
            if message.type is WSMsgType.TEXT:
                return str(message.data).encode()
            if message.type is WSMsgType.PING:
                with contextlib.suppress(ConnectionError):
                    await self._socket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                return None

    async def send(self, message: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(message)


def websocket_needed() -> errors.ApiError:
    return errors.bad_request("you must use a WebSocket here: a recent kubectl does, SPDY is not spoken")


def _request(*parts: Any) -> web.BaseRequest:
    """A request with our limit of the body size instead of aiohttp's lower one."""
    message, payload, protocol, writer, task = parts
    return web.BaseRequest(
        message, payload, protocol, writer, task, task.get_loop(), client_max_size=bodies.LIMIT_BYTES + 1
    )
