"""The HTTP server: reads requests from sockets and writes responses, streams and WebSockets.

It uses aiohttp's low-level server without router and middlewares, because `routes` parses all
paths. Only this module and `watch_streams` import aiohttp.
"""

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

from pykueue.api import errors
from pykueue.apiserver.http import bodies, routes, watch_streams
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, Upgrade
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
_IMPERSONATION_HEADERS = ("Impersonate-User", "Impersonate-Group", "Impersonate-Uid")


Stream = Callable[..., Awaitable[web.StreamResponse]]
"""Sends a stream. Its argument `on_disconnect` registers a callback for that case."""


class ListenError(Exception):
    """The server cannot listen on the address."""


class Connections(web.Server):
    """aiohttp's server with callbacks for disconnected clients, so that a watch can end."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], **options: Any) -> None:
        super().__init__(handler, **options)
        self.disconnect_callbacks: dict[web.RequestHandler, Callable[[], None]] = {}

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if callback := self.disconnect_callbacks.pop(handler, None):
            callback()


class Listener:
    def __init__(self, application: Application) -> None:
        self._application = application
        self._revocation = Revocation(application)
        self._tasks = Supervisor()
        self._connections: Connections | None = None
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen and return the port; port 0 takes any free one."""
        self._connections = Connections(
            self._handle,
            request_factory=_request,
            access_log=None,
            logger=_protocol_log,
            auto_decompress=False,
            max_line_size=_LONGEST_LINE_BYTES,
            max_field_size=_LONGEST_LINE_BYTES,
        )
        self._runner = web.ServerRunner(self._connections, handle_signals=False, shutdown_timeout=_STOP_SECONDS)
        await self._runner.setup()
        server_header.hide_versions()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls, backlog=1024).start()
        except OSError as error:
            raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self._tasks.start("revocation", self._revocation.run)
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._connections is not None:
            for callback in list(self._connections.disconnect_callbacks.values()):
                callback()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._respond(http)
        except errors.ApiError as error:
            return _response(http, _error_response(error))
        except web.HTTPRequestEntityTooLarge:
            too_large = errors.too_large(f"Request entity too large: limit is {bodies.LIMIT_BYTES}")
            return _response(http, _error_response(too_large))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", http.method, http.raw_path)
            internal = errors.ApiError(500, "InternalError", "Internal error occurred: the server log says more")
            return _response(http, _error_response(internal))

    async def _respond(self, http: web.BaseRequest) -> web.StreamResponse:
        application = self._application
        path, query = routes.split_target(http.raw_path)
        user = application.identify(path, _credentials(http))
        request = HttpRequest(
            method=http.method,
            route=routes.parse(http.method, path, query),
            user=user,
            query=query,
            accept=http.headers.get("Accept", ""),
            content_type=http.headers.get("Content-Type", ""),
            user_agent=http.headers.get("User-Agent", ""),
            target=http.raw_path,
            data=await http.read() if http.body_exists else b"",
        )
        endpoint = application.authorize(request)
        if endpoint.target is not None and request.route.verb == "watch":
            watch = functools.partial(
                watch_streams.serve, request, http, target=endpoint.target, verbs=application.verbs
            )
            with self._revocation.watching(_active_stream(http, request)):
                return await self._stream(http, watch)
        with application.in_flight.admit(http.method):
            response = await application.respond(request, endpoint, etag=http.headers.get("If-None-Match", ""))
        if isinstance(response.body, Upgrade):
            with self._revocation.watching(_active_stream(http, request)):
                return await _upgrade(http, response.body)
        if isinstance(response.body, AsyncIterator):
            with self._revocation.watching(_active_stream(http, request)):
                return await self._stream(http, functools.partial(_send_chunks, http, response))
        return _response(http, response)

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
    await socket.prepare(http)
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
        text = " ".join(warning.split()).replace("\\", "\\\\").replace('"', '\\"')
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
