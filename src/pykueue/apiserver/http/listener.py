"""The edge to aiohttp: reads requests from sockets, writes replies and streams. Besides `streams` and `conversations`, nothing
else knows aiohttp.

It runs on aiohttp's low-level server, without router and middlewares: a Kubernetes path is parsed in one place.
"""

import functools
import gzip
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from pykueue.api import errors
from pykueue.apiserver.http import bodies, routes, streams, upgrades
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.exchange import Incoming
from pykueue.apiserver.http.hooks import Reply, Upgrade

log = logging.getLogger(__name__)
_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.CRITICAL)  # broken requests are the client's affair; our own faults go to `log`

_LONGEST_LINE_BYTES = 64 * 1024
_COMPRESS_BYTES = 128 * 1024
_BROWSERS = ("curl/", "Wget/", "Mozilla/")
_STOP_SECONDS = 1.0
_IMPERSONATION_HEADERS = ("Impersonate-User", "Impersonate-Group", "Impersonate-Uid")


Stream = Callable[..., Awaitable[web.StreamResponse]]
"""Answers with a stream; takes `when_lost`, which registers what to call when the client goes away."""


class ListenError(Exception):
    """The address is taken, not ours, or not allowed."""


class Connections(web.Server):
    """aiohttp's server, which also tells a watch when its client has gone."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], **options: Any) -> None:
        super().__init__(handler, **options)
        self.goodbyes: dict[web.RequestHandler, Callable[[], None]] = {}

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if goodbye := self.goodbyes.pop(handler, None):
            goodbye()


class Listener:
    def __init__(self, application: Application) -> None:
        self._application = application
        self._connections: Connections | None = None
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which matters when 0 was asked for."""
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
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls, backlog=1024).start()
        except OSError as error:
            raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        if self._connections is not None:
            for goodbye in list(self._connections.goodbyes.values()):
                goodbye()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(http)
        except errors.ApiError as error:
            return _response(http, _refusal(error))
        except web.HTTPRequestEntityTooLarge:
            refused = errors.too_large(f"Request entity too large: limit is {bodies.LIMIT_BYTES}")
            return _response(http, _refusal(refused))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s failed", http.method, http.raw_path)
            broken = errors.ApiError(500, "InternalError", "Internal error occurred: the server log says more")
            return _response(http, _refusal(broken))

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        application = self._application
        path, query = routes.split_target(http.raw_path)
        user = application.identify(path, _credentials(http))
        incoming = Incoming(
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
        application.authorise(incoming)
        if target := application.watch_target(incoming):
            watching = functools.partial(streams.serve, incoming, http, target=target, verbs=application.verbs)
            return await self._until_lost(http, watching)
        with application.in_flight.admit(http.method):
            reply = await application.respond(incoming, etag=http.headers.get("If-None-Match", ""))
        if isinstance(reply.body, Upgrade):
            return await upgrades.hold(http, reply.body)
        if isinstance(reply.body, AsyncIterator):
            return await self._until_lost(http, functools.partial(_stream, http, reply))
        return _response(http, reply)

    async def _until_lost(self, http: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        """Send a stream that must hear of it when the client goes away."""
        assert self._connections is not None
        goodbyes = self._connections.goodbyes

        def when_lost(goodbye: Callable[[], None]) -> None:
            if http.transport is None or http.transport.is_closing():
                goodbye()
            else:
                goodbyes[http.protocol] = goodbye

        try:
            return await stream(when_lost=when_lost)
        finally:
            goodbyes.pop(http.protocol, None)


async def _stream(
    http: web.BaseRequest, reply: Reply, *, when_lost: Callable[[Callable[[], None]], None]
) -> web.StreamResponse:
    """Send a stream as it comes, as fast as the client reads, until either side ends it."""
    source = reply.body
    assert isinstance(source, AsyncIterator)
    response = web.StreamResponse(status=reply.status, headers=_headers(reply))
    response.enable_chunked_encoding()
    await response.prepare(http)

    def give_up() -> None:
        http.task.cancel()

    when_lost(give_up)
    try:
        async for chunk in source:
            await response.write(chunk)
    finally:
        if (close := getattr(source, "aclose", None)) is not None:
            await close()
    await response.write_eof()
    return response


def _request(*parts: Any) -> web.BaseRequest:
    """A request whose body may be as large as ours may be; aiohttp's own limit is lower."""
    message, payload, protocol, writer, task = parts
    return web.BaseRequest(
        message, payload, protocol, writer, task, task.get_loop(), client_max_size=bodies.LIMIT_BYTES + 1
    )


def _credentials(http: web.BaseRequest) -> dict[str, list[str]]:
    """Who asks, and as whom: nearly always a token alone."""
    headers = http.headers
    found = {"authorization": headers.getall("Authorization", [])}
    if any(name in headers for name in _IMPERSONATION_HEADERS):
        for name, value in headers.items():
            if name.lower().startswith("impersonate-"):
                found.setdefault(name.lower(), []).append(value)
    return found


def _refusal(error: errors.ApiError) -> Reply:
    seconds = (error.details or {}).get("retryAfterSeconds")
    headers = {"Retry-After": str(seconds)} if seconds else {}
    return Reply(status=error.code, body=error.status(), headers=headers, warnings=error.warnings)


def _headers(reply: Reply) -> CIMultiDict[str]:
    headers = CIMultiDict({"Cache-Control": "no-cache, private", **reply.headers, "Content-Type": reply.content_type})
    for warning in dict.fromkeys(reply.warnings):
        text = " ".join(warning.split()).replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{text}"')
    return headers


def _response(http: web.BaseRequest, reply: Reply) -> web.Response:
    body = reply.body
    assert not isinstance(body, AsyncIterator | Upgrade)
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if reply.content_type == "application/json" and _is_read_by_people(http):
        data = msgspec.json.format(data, indent=2) + b"\n"
    headers = _headers(reply)
    if len(data) > _COMPRESS_BYTES and _is_worth_compressing(http):
        data = gzip.compress(data, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    return web.Response(status=reply.status, body=data, headers=headers)


def _is_read_by_people(http: web.BaseRequest) -> bool:
    return "pretty=" in http.raw_path or http.headers.get("User-Agent", "").startswith(_BROWSERS)


def _is_worth_compressing(http: web.BaseRequest) -> bool:
    """Not on this machine: there the network is faster than the compressor."""
    if "gzip" not in http.headers.get("Accept-Encoding", ""):
        return False
    try:
        return not ipaddress.ip_address(http.remote or "").is_loopback
    except ValueError:
        return False
