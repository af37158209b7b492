"""The HTTP server: answers the exchanges of HTTP/1.1 and HTTP/2 connections.

A client with TLS chooses the protocol in its handshake. Go clients choose HTTP/2, and send all
their requests on one connection.
"""

import asyncio
import contextlib
import errno
import functools
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from multidict import CIMultiDict

from pykueue.api import errors, escaping
from pykueue.apiserver.http import bodies, large_responses, routes, watch_streams
from pykueue.apiserver.http.app import ANONYMOUS, Application
from pykueue.apiserver.http.connections import Acceptor, ConnectionLimits, Connections
from pykueue.apiserver.http.exchanges import BodyError, Exchange
from pykueue.apiserver.http.http1 import Http1Server
from pykueue.apiserver.http.http2_exchange import Http2Server
from pykueue.apiserver.http.large_responses import Turn
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, Upgrade
from pykueue.apiserver.http.priority_levels import PriorityLevels, Seat, body_timeout, queue_of
from pykueue.apiserver.http.revocation import ActiveStream, Revocation
from pykueue.apiserver.slices import Slices
from pykueue.kube import server_header
from pykueue.kube.supervisor import Supervisor

log = logging.getLogger(__name__)

_COMPRESS_BYTES = 128 * 1024
_LARGEST_INDENTED_BYTES = 1024 * 1024
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_LONGEST_WARNINGS, _LONGEST_CUT_WARNING = 4096, 256
_PIECES_PER_TURN = 4
"""Of large responses, each 64 KB."""
_STOP_SECONDS = 1.0
_BODY_SECONDS = 30.0
_UNAUTHENTICATED = "system:unauthenticated"
_IMPERSONATION_HEADERS = ("Impersonate-User", "Impersonate-Group", "Impersonate-Uid")


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
        self._pieces = Slices(_PIECES_PER_TURN)
        self._flush_queue = watch_streams.FlushQueue()
        self._revocation = Revocation(application)
        self._tasks = Supervisor()
        self._server: _Server | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None, *, is_open: bool = True) -> int:
        """Listen and return the port; port 0 takes any free one.

        If not open, clients wait for `open`.
        """
        server = self._server = _Server(self._handle, self._limits or ConnectionLimits.of_process(), tls)
        server_header.hide_versions()
        try:
            bound = server.acceptor.listen(host, port)
        except OSError as error:
            server.acceptor.close()
            is_taken = error.errno == errno.EADDRINUSE
            hint = "; --listen 127.0.0.1:0 takes a free port (another user may run pykueue here)" if is_taken else ""
            raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}{hint}") from error
        self._tasks.start("revocation", self._revocation.run)
        if is_open:
            self.open()
        return bound

    def open(self) -> None:
        assert self._server is not None
        self._server.acceptor.open()

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._server is not None:
            await self._server.stop()
        self._application.slow_thread.stop()

    async def _handle(self, exchange: Exchange) -> None:
        server = self._server
        assert server is not None
        connections = server.connections
        connections.request_started(exchange.connection)
        try:
            await self._answer(exchange, connections)
        except errors.ApiError as error:
            await _send_error(exchange, error)
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", exchange.method, exchange.target)
            internal = errors.ApiError(500, "InternalError", "Internal error occurred: the server log says more")
            await _send_error(exchange, internal)
        finally:
            connections.request_ended(exchange.connection)

    async def _answer(self, exchange: Exchange, connections: Connections) -> None:
        application = self._application
        headers = exchange.headers
        _check_text(exchange)
        path, query = routes.split_target(exchange.target)
        if self._is_own_host is not None and not self._is_own_host(path, headers.get("Host", "")):
            raise errors.ApiError(421, "MisdirectedRequest", "the Host header names another server", {})
        try:
            user = application.identify(path, _credentials(exchange))
        except errors.ApiError:
            async with Seat(self._levels.workload.reads, _UNAUTHENTICATED):
                raise
        level, queue = self._levels.of(user), queue_of(user)
        if user is not ANONYMOUS:
            connections.authenticated(exchange.connection, queue)
        route = routes.parse(exchange.method, path, query)
        data = b""
        if exchange.has_body:
            data = await _read_body(exchange, Seat(level.bodies, queue), application.body_limit(route))
        request = HttpRequest(
            method=exchange.method,
            route=route,
            user=user,
            query=query,
            accept=headers.get("Accept", ""),
            content_type=headers.get("Content-Type", ""),
            user_agent=headers.get("User-Agent", ""),
            target=exchange.target,
            data=data,
            most_values=level.most_values,
        )
        seat = level.seat(exchange.method, queue)
        await seat.take()
        try:
            if not exchange.is_closed():
                await self._respond(exchange, request, seat, Seat(level.streams, queue))
        finally:
            seat.leave()

    async def _respond(self, exchange: Exchange, request: HttpRequest, seat: Seat, stream_seat: Seat) -> None:
        """Answer in the seat of a request; a stream has another seat once it has started."""
        application = self._application
        endpoint = application.authorize(request)
        if endpoint.target is not None and request.route.verb == "watch":
            async with self._streaming(exchange, request, stream_seat):
                await watch_streams.serve(
                    request,
                    exchange,
                    target=endpoint.target,
                    verbs=application.verbs,
                    on_start=seat.leave,
                    queue=self._flush_queue,
                )
            return
        if bodies.is_slow(request.content_type, len(request.data)):
            decoded = await application.slow_thread.run(
                queue_of(request.user), bodies.decode, request.content_type, request.data, request.most_values
            )
            request = msgspec.structs.replace(request, decoded=decoded)
        response = await application.respond(request, endpoint, etag=exchange.headers.get("If-None-Match", ""))
        if isinstance(response.body, Upgrade):
            async with self._streaming(exchange, request, stream_seat):
                seat.leave()
                await exchange.upgrade(response.body)
        elif isinstance(response.body, AsyncIterator):
            async with self._streaming(exchange, request, stream_seat):
                seat.leave()
                await _send_chunks(exchange, response, functools.partial(self._pieces.turn, queue_of(request.user)))
        else:
            await _send(exchange, response, functools.partial(self._pieces.turn, queue_of(request.user)))

    @contextlib.asynccontextmanager
    async def _streaming(self, exchange: Exchange, request: HttpRequest, seat: Seat) -> AsyncIterator[None]:
        """A stream has a seat, and ends when its user loses the right to it."""
        stream = ActiveStream(request=request, credentials=_credentials(exchange), abort=exchange.abort)
        async with seat:
            with self._revocation.watching(stream):
                yield


class _Server:
    """The protocols of a listener, its connections and its sockets."""

    def __init__(
        self, handle: Callable[[Exchange], Awaitable[None]], limits: ConnectionLimits, tls: ssl.SSLContext | None
    ) -> None:
        self.connections = Connections(limits)
        self.http1 = Http1Server(handle, self.connections)
        self.http2 = Http2Server(handle, self.connections)
        self.acceptor = Acceptor(self.connections, tls, self.http1 if tls is None else self._negotiation)

    def _negotiation(self) -> asyncio.BaseProtocol:
        return _Negotiation(self.http1, self.http2)

    async def stop(self) -> None:
        self.acceptor.close()
        self.connections.stop()
        self.http1.end_streams()
        await asyncio.sleep(0)  # lets requests that have arrived start
        self.http1.pre_shutdown()
        await asyncio.gather(self.http1.shutdown(_STOP_SECONDS), self.http2.stop(_STOP_SECONDS))


class _Negotiation(asyncio.Protocol):
    """Stands for a connection during its handshake, in which the client chooses the protocol."""

    def __init__(self, http1: Http1Server, http2: Http2Server) -> None:
        self._http1 = http1
        self._http2 = http2

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._http2.connect(transport)
        else:
            protocol = self._http1()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)


async def _read_body(exchange: Exchange, seat: Seat, limit: int) -> bytes:
    """The body; ApiError 413 if it is too large, 408 if it takes too long."""
    too_large = errors.too_large(f"Request entity too large: limit is {limit}")
    if (exchange.content_length or 0) > limit:
        raise too_large
    data = exchange.arrived_body()
    if data is not None:
        if len(data) > limit:
            raise too_large
        return data
    chunks: list[bytes] = []
    size = 0
    try:
        async with seat, asyncio.timeout(_BODY_SECONDS):
            exchange.expect_body(limit)
            while chunk := await exchange.read():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise body_timeout(_BODY_SECONDS) from None
    except BodyError as error:
        raise errors.bad_request(f"the body of the request cannot be read: {error}") from None
    return b"".join(chunks)


async def _send(exchange: Exchange, response: HttpResponse, turn: Turn | None = None) -> None:
    body = response.body
    assert not isinstance(body, AsyncIterator | Upgrade)
    parts = [body if isinstance(body, bytes) else msgspec.json.encode(body)] if not isinstance(body, list) else body
    size, headers = sum(map(len, parts)), _headers(response)
    if size <= _LARGEST_INDENTED_BYTES and response.content_type == "application/json" and _wants_indentation(exchange):
        parts = [msgspec.json.format(b"".join(parts), indent=2) + b"\n"]
    elif size > large_responses.LARGE_BYTES and exchange.method != "HEAD":
        is_compressed = size > _COMPRESS_BYTES and _is_worth_compressing(exchange)
        await large_responses.send(
            exchange, parts, response.status, headers, is_compressed=is_compressed, turn=turn or _no_turn
        )
        return
    await exchange.respond(response.status, headers, b"".join(parts))


async def _no_turn() -> None:
    """Nobody else has to be considered."""


async def _send_error(exchange: Exchange, error: errors.ApiError) -> None:
    if exchange.has_started:  # a second response would be read as part of the first
        exchange.abort()
        raise ConnectionResetError("the response failed in the middle")
    await _send(exchange, _error_response(error))


async def _send_chunks(exchange: Exchange, response: HttpResponse, turn: Turn) -> None:
    """Send chunks at the speed of the client. Each is made in a turn of its user."""
    chunks = response.body
    assert isinstance(chunks, AsyncIterator)
    if exchange.method == "HEAD":  # what follows the head would be read as the next response
        await exchange.respond(response.status, _headers(response), b"")
        return
    stream = await exchange.start(response.status, _headers(response))
    exchange.on_disconnect(exchange.cancel)
    try:
        await turn()
        async for chunk in chunks:
            stream.write(chunk)
            await stream.drain()
            await turn()
    finally:
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()
    await exchange.end()


def _check_text(exchange: Exchange) -> None:
    """ApiError 400 if a header is no text: it may become part of an object or of a message."""
    for value in (exchange.target, *exchange.headers.values()):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise errors.bad_request("a header of the request is not UTF-8") from None


def _credentials(exchange: Exchange) -> dict[str, list[str]]:
    """The headers for authentication and impersonation."""
    headers = exchange.headers
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
    for warning in _short_warnings(list(dict.fromkeys(response.warnings))):
        text = escaping.one_line(" ".join(warning.split())).replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{text}"')
    return headers


def _short_warnings(warnings: list[str]) -> list[str]:
    """As in Kubernetes, long warnings are cut if all of them together are too long for a head."""
    if sum(map(len, warnings)) <= _LONGEST_WARNINGS:
        return warnings
    return [warning[:_LONGEST_CUT_WARNING] for warning in warnings[: _LONGEST_WARNINGS // _LONGEST_CUT_WARNING]]


def _wants_indentation(exchange: Exchange) -> bool:
    return "pretty=" in exchange.target or exchange.headers.get("User-Agent", "").startswith(_BROWSERS)


def _is_worth_compressing(exchange: Exchange) -> bool:
    """Clients on this machine get no compression: the loopback network is faster than gzip."""
    if "gzip" not in exchange.headers.get("Accept-Encoding", ""):
        return False
    try:
        return not ipaddress.ip_address(exchange.remote).is_loopback
    except ValueError:
        return False
