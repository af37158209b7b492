"""The HTTP server: reads requests from sockets and writes responses, streams and WebSockets.

It uses aiohttp's low-level server without router and middlewares, because `routes` parses all
paths. Only this module and `watch_streams` import aiohttp.
"""

import asyncio
import contextlib
import functools
import gzip
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from multidict import CIMultiDict

from pykueue.api import errors, escaping
from pykueue.apiserver.http import bodies, routes, watch_streams
from pykueue.apiserver.http.app import ANONYMOUS, Application
from pykueue.apiserver.http.connections import Acceptor, ConnectionLimits, Connections
from pykueue.apiserver.http.decoding import BodyDecoder
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, Upgrade
from pykueue.apiserver.http.priority_levels import PriorityLevels, Seat, body_timeout, queue_of
from pykueue.apiserver.http.revocation import ActiveStream, Revocation
from pykueue.kube import server_header
from pykueue.kube.supervisor import Supervisor

log = logging.getLogger(__name__)
_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.CRITICAL)  # hides malformed requests of clients

_LONGEST_LINE_BYTES = 64 * 1024
_LARGEST_MESSAGE_BYTES = 4 * 1024 * 1024
_COMPRESS_BYTES = 128 * 1024
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_STOP_SECONDS = 1.0
_BODY_SECONDS = 30.0
_SEND_SECONDS = 60.0
_LARGE_BYTES = 64 * 1024
"""A response of this size may have to wait for the client, and keeps its seat until then."""
_UNAUTHENTICATED = "system:unauthenticated"
_IMPERSONATION_HEADERS = ("Impersonate-User", "Impersonate-Group", "Impersonate-Uid")


Stream = Callable[..., Awaitable[web.StreamResponse]]
"""Sends a stream. Its argument `on_disconnect` registers a callback for that case."""


class ListenError(Exception):
    """The server cannot listen on the address."""


class Listener:
    def __init__(
        self,
        application: Application,
        limits: ConnectionLimits | None = None,
        *,
        is_own_host: Callable[[str, str], bool] | None = None,
    ) -> None:
        """`is_own_host` is asked with the path and the Host header of every request."""
        self._application = application
        self._is_own_host = is_own_host
        self._limits = limits
        self._levels = PriorityLevels()
        self._decoder = BodyDecoder()
        self._revocation = Revocation(application)
        self._tasks = Supervisor()
        self._connections: Connections | None = None
        self._acceptor: Acceptor | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen and return the port; port 0 takes any free one."""
        limits = self._limits or ConnectionLimits.of_process()
        self._connections = Connections(
            self._handle,
            limits,
            request_factory=_request,
            access_log=None,
            logger=_protocol_log,
            auto_decompress=False,
            max_line_size=_LONGEST_LINE_BYTES,
            max_field_size=_LONGEST_LINE_BYTES,
        )
        self._acceptor = Acceptor(self._connections, limits, tls)
        server_header.hide_versions()
        try:
            bound = self._acceptor.listen(host, port)
        except OSError as error:
            self._acceptor.close()
            raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self._tasks.start("revocation", self._revocation.run)
        return bound

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._acceptor is not None:
            self._acceptor.close()
        if self._connections is not None:
            self._connections.stop()
            await asyncio.sleep(0)  # lets requests that have arrived start
            self._connections.pre_shutdown()
            await self._connections.shutdown(_STOP_SECONDS)
        self._decoder.stop()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        connections, protocol = self._connections, http.protocol
        assert connections is not None
        connections.request_started(protocol)
        try:
            return await self._answer(http, connections)
        except errors.ApiError as error:
            _abort_started(http)
            return _response(http, _error_response(error))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", http.method, http.raw_path)
            _abort_started(http)
            internal = errors.ApiError(500, "InternalError", "Internal error occurred: the server log says more")
            return _response(http, _error_response(internal))
        finally:
            connections.request_ended(protocol)

    async def _answer(self, http: web.BaseRequest, connections: Connections) -> web.StreamResponse:
        application = self._application
        path, query = routes.split_target(http.raw_path)
        if self._is_own_host is not None and not self._is_own_host(path, http.headers.get("Host", "")):
            raise errors.ApiError(421, "MisdirectedRequest", "the Host header names another server", {})
        try:
            user = application.identify(path, _credentials(http))
        except errors.ApiError:
            async with Seat(self._levels.workload.reads, _UNAUTHENTICATED):
                raise
        level, queue = self._levels.of(user), queue_of(user)
        if user is not ANONYMOUS:
            connections.authenticated(http.protocol, queue)
        route = routes.parse(http.method, path, query)
        data = b""
        if http.body_exists:
            data = await _read_body(http, Seat(level.bodies, queue), application.body_limit(route))
        request = HttpRequest(
            method=http.method,
            route=route,
            user=user,
            query=query,
            accept=http.headers.get("Accept", ""),
            content_type=http.headers.get("Content-Type", ""),
            user_agent=http.headers.get("User-Agent", ""),
            target=http.raw_path,
            data=data,
            most_values=level.most_values,
        )
        seat = level.seat(http.method, queue)
        await seat.take()
        try:
            return await self._respond(http, request, seat, Seat(level.streams, queue))
        finally:
            seat.leave()

    async def _respond(
        self, http: web.BaseRequest, request: HttpRequest, seat: Seat, stream_seat: Seat
    ) -> web.StreamResponse:
        """Answer in the seat of a request; a stream has another seat once it has started."""
        application = self._application
        endpoint = application.authorize(request)
        if endpoint.target is not None and request.route.verb == "watch":
            watch = functools.partial(
                watch_streams.serve,
                request,
                http,
                target=endpoint.target,
                verbs=application.verbs,
                on_start=seat.leave,
            )
            async with self._streaming(http, request, stream_seat):
                return await self._stream(http, watch)
        if bodies.is_slow(request.content_type, len(request.data)):
            decoded = await self._decoder.decode(request, queue_of(request.user))
            request = msgspec.structs.replace(request, decoded=decoded)
        response = await application.respond(request, endpoint, etag=http.headers.get("If-None-Match", ""))
        if isinstance(response.body, Upgrade):
            async with self._streaming(http, request, stream_seat):
                seat.leave()
                return await _upgrade(http, response.body)
        if isinstance(response.body, AsyncIterator):
            async with self._streaming(http, request, stream_seat):
                seat.leave()
                return await self._stream(http, functools.partial(_send_chunks, http, response))
        if isinstance(response.body, bytes) and len(response.body) > _LARGE_BYTES:
            return await _send_large(http, response)
        return _response(http, response)

    @contextlib.asynccontextmanager
    async def _streaming(self, http: web.BaseRequest, request: HttpRequest, seat: Seat) -> AsyncIterator[None]:
        """A stream has a seat, and ends when its user loses the right to it."""
        async with seat:
            with self._revocation.watching(_active_stream(http, request)):
                yield

    async def _stream(self, http: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        """Send a stream that ends when the client disconnects."""
        assert self._connections is not None
        callbacks = self._connections.disconnect_callbacks

        def on_disconnect(callback: Callable[[], None]) -> None:
            if http.transport is None or http.transport.is_closing():
                callback()
            else:
                callbacks[http.protocol] = callback

        try:
            return await stream(on_disconnect=on_disconnect)
        finally:
            callbacks.pop(http.protocol, None)


async def _read_body(http: web.BaseRequest, seat: Seat, limit: int) -> bytes:
    """The body; ApiError 413 if it is too large, 408 if it takes too long."""
    content = http.content
    too_large = errors.too_large(f"Request entity too large: limit is {limit}")
    if (http.content_length or 0) > limit:
        raise too_large
    if content.is_eof():
        data = content.read_nowait()
        if len(data) > limit:
            raise too_large
        return data
    chunks: list[bytes] = []
    size = 0
    try:
        async with seat, asyncio.timeout(_BODY_SECONDS):
            while chunk := await content.readany():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise body_timeout(_BODY_SECONDS) from None
    except web.RequestPayloadError as error:
        raise errors.bad_request(f"the body of the request cannot be read: {error}") from None
    return b"".join(chunks)


async def _send_large(http: web.BaseRequest, response: HttpResponse) -> web.StreamResponse:
    """Send a large response. A client that does not read it is disconnected."""
    if _is_worth_compressing(http) and isinstance(response.body, bytes):
        answer = await asyncio.to_thread(_response, http, response)
    else:
        answer = _response(http, response)
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await answer.prepare(http)
            await answer.write_eof()
    except TimeoutError:
        if http.transport is not None:
            http.transport.abort()
        raise ConnectionResetError("the client does not read the response") from None
    return answer


async def _send_chunks(
    http: web.BaseRequest, response: HttpResponse, *, on_disconnect: Callable[[Callable[[], None]], None]
) -> web.StreamResponse:
    """Send the chunks of a response at the speed of the client."""
    chunks = response.body
    assert isinstance(chunks, AsyncIterator)
    stream = web.StreamResponse(status=response.status, headers=_headers(response))
    stream.enable_chunked_encoding()
    await stream.prepare(http)

    def cancel() -> None:
        http.task.cancel()

    on_disconnect(cancel)
    try:
        async for chunk in chunks:
            await stream.write(chunk)
    finally:
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()
    await stream.write_eof()
    return stream


class WebSocketStream:
    """A `MessageStream` on a WebSocket, for `kubectl exec`, `attach` and `port-forward`."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        return str(message.data).encode() if message.type is WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(message)


async def _upgrade(http: web.BaseRequest, upgrade: Upgrade) -> web.StreamResponse:
    """Serve a WebSocket until the handler returns or the client disconnects."""
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise errors.bad_request("you must use a WebSocket here: a recent kubectl does, SPDY is not spoken")
    socket = web.WebSocketResponse(protocols=upgrade.protocols, max_msg_size=_LARGEST_MESSAGE_BYTES)
    try:
        await socket.prepare(http)
    except web.HTTPException as error:  # the handshake is not one of RFC 6455
        raise errors.bad_request(f"the WebSocket handshake failed: {error.text}") from None
    try:
        await upgrade.serve(WebSocketStream(socket))
    finally:
        await socket.close()
    return socket


def _request(*parts: Any) -> web.BaseRequest:
    """A request with our limit of the body size instead of aiohttp's lower one."""
    message, payload, protocol, writer, task = parts
    return web.BaseRequest(
        message, payload, protocol, writer, task, task.get_loop(), client_max_size=bodies.LIMIT_BYTES + 1
    )


def _abort_started(http: web.BaseRequest) -> None:
    """Disconnect if a response has begun: a second one would be read as part of the first."""
    if http.writer.output_size:
        if http.transport is not None:
            http.transport.abort()
        raise ConnectionResetError("the response failed in the middle")


def _active_stream(http: web.BaseRequest, request: HttpRequest) -> ActiveStream:
    def abort() -> None:
        if http.transport is not None:
            http.transport.abort()

    return ActiveStream(request=request, credentials=_credentials(http), abort=abort)


def _credentials(http: web.BaseRequest) -> dict[str, list[str]]:
    """The headers for authentication and impersonation."""
    headers = http.headers
    credentials = {"authorization": headers.getall("Authorization", [])}
    if any(name in headers for name in _IMPERSONATION_HEADERS):
        for name, value in headers.items():
            if name.lower().startswith("impersonate-"):
                credentials.setdefault(name.lower(), []).append(value)
    return credentials


def _error_response(error: errors.ApiError) -> HttpResponse:
    seconds = (error.details or {}).get("retryAfterSeconds")
    headers = {"Retry-After": str(seconds)} if seconds else {}
    return HttpResponse(status=error.code, body=error.status(), headers=headers, warnings=error.warnings)


def _headers(response: HttpResponse) -> CIMultiDict[str]:
    headers = CIMultiDict(
        {"Cache-Control": "no-cache, private", **response.headers, "Content-Type": response.content_type}
    )
    for warning in dict.fromkeys(response.warnings):
        text = escaping.one_line(" ".join(warning.split())).replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{text}"')
    return headers


def _response(http: web.BaseRequest, response: HttpResponse) -> web.Response:
    body = response.body
    assert not isinstance(body, AsyncIterator | Upgrade)
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if response.content_type == "application/json" and _wants_indentation(http):
        data = msgspec.json.format(data, indent=2) + b"\n"
    headers = _headers(response)
    if len(data) > _COMPRESS_BYTES and _is_worth_compressing(http):
        data = gzip.compress(data, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    return web.Response(status=response.status, body=data, headers=headers)


def _wants_indentation(http: web.BaseRequest) -> bool:
    return "pretty=" in http.raw_path or http.headers.get("User-Agent", "").startswith(_BROWSERS)


def _is_worth_compressing(http: web.BaseRequest) -> bool:
    """Clients on this machine get no compression: the loopback network is faster than gzip."""
    if "gzip" not in http.headers.get("Accept-Encoding", ""):
        return False
    try:
        return not ipaddress.ip_address(http.remote or "").is_loopback
    except ValueError:
        return False
