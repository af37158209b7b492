"""Connections of the HTTP server: accepts them, limits them, and closes those that wait too long.

A descriptor is what a client without a token can take from everybody else. So a connection must
send its first headers soon, an idle one is closed after a while, and when too many are open the
oldest one that is of no use makes room: first those on which nobody has authenticated, then idle
ones of the user who has most. Peers on this machine share one address, therefore connections are
counted by peer only until a user is known, and by user from then on.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
HEADER_SECONDS = 10.0
IDLE_SECONDS = 75.0
_SWEEP_SECONDS = 1.0
_BACKLOG = 1024
_PAUSE_SECONDS = 0.1
_ACCEPTS_PER_TURN = 4
"""Connections accepted before other work gets its turn."""
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_UNKNOWN_USER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    total: int
    header_seconds: float = HEADER_SECONDS
    idle_seconds: float = IDLE_SECONDS

    @classmethod
    def of_process(cls) -> "ConnectionLimits":
        """Half of the descriptors of this process; the others are for files, pods and clients."""
        return cls(total=max(descriptor_limit() // 2, 16))

    @property
    def unauthenticated_per_peer(self) -> int:
        return self.total // 2

    @property
    def handshakes(self) -> int:
        return self.total // 2


def descriptor_limit() -> int:
    if sys.platform == "win32":
        return 2048
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 65536


class _Connection:
    __slots__ = ("is_busy", "is_closing", "peer", "since", "user")

    def __init__(self, peer: str, since: float) -> None:
        self.peer = peer
        self.user = _UNKNOWN_USER
        self.since = since
        """When it was opened, or when the last response was ready."""
        self.is_busy = False
        self.is_closing = False


class Connections(web.Server):
    """aiohttp's server, which also knows what each connection does."""

    def __init__(self, handler: Callable[[web.BaseRequest], Any], limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(handler, keepalive_timeout=limits.idle_seconds, lingering_time=2.0, **options)
        self.disconnect_callbacks: dict[web.RequestHandler, Callable[[], None]] = {}
        self._limits = limits
        self._open: dict[web.RequestHandler, _Connection] = {}
        self._by_user: dict[str, int] = {}
        self._sweep_handle: asyncio.TimerHandle | None = None

    # What aiohttp calls

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        peer = transport.get_extra_info("peername")
        connection = _Connection(str(peer[0]) if isinstance(peer, tuple) else "", self._loop.time())
        self._make_room(connection.peer)
        self._open[handler] = connection
        self._count(_UNKNOWN_USER, 1)
        if self._sweep_handle is None:
            self._sweep_handle = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        connection = self._open.pop(handler, None)
        if connection is not None:
            self._count(connection.user, -1)
        if callback := self.disconnect_callbacks.pop(handler, None):
            callback()

    # What the listener calls

    def request_started(self, handler: web.RequestHandler) -> None:
        if connection := self._open.get(handler):
            connection.is_busy = True

    def request_ended(self, handler: web.RequestHandler) -> None:
        if connection := self._open.get(handler):
            connection.is_busy = False
            connection.since = self._loop.time()

    def authenticated(self, handler: web.RequestHandler, user: str) -> None:
        connection = self._open.get(handler)
        if connection is not None and connection.user != user:
            self._count(connection.user, -1)
            self._count(user, 1)
            connection.user = user

    def stop(self) -> None:
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        for callback in list(self.disconnect_callbacks.values()):
            callback()

    # Limits

    def _count(self, user: str, change: int) -> None:
        count = self._by_user.get(user, 0) + change
        if count:
            self._by_user[user] = count
        else:
            del self._by_user[user]

    def _make_room(self, peer: str) -> None:
        """Close a connection if the limits are reached. The newest one is never closed."""
        if self._by_user.get(_UNKNOWN_USER, 0) >= self._limits.unauthenticated_per_peer:
            strangers = [item for item in self._open.items() if item[1].peer == peer and not item[1].user]
            if len(strangers) >= self._limits.unauthenticated_per_peer:
                self._close_oldest(strangers)
        if len(self._open) >= self._limits.total:
            self._close_oldest([item for item in self._open.items() if not item[1].user]) or self._close_oldest(
                self._idle_of_largest_user()
            )

    def _idle_of_largest_user(self) -> list[tuple[web.RequestHandler, _Connection]]:
        idle: dict[str, list[tuple[web.RequestHandler, _Connection]]] = {}
        for handler, connection in self._open.items():
            if not connection.is_busy:
                idle.setdefault(connection.user, []).append((handler, connection))
        return max(idle.values(), key=len, default=[])

    def _close_oldest(self, candidates: list[tuple[web.RequestHandler, _Connection]]) -> bool:
        candidates = [item for item in candidates if not item[1].is_closing]
        if not candidates:
            return False
        handler, connection = min(candidates, key=lambda item: item[1].since)
        connection.is_closing = True
        _abort(handler)
        return True

    def is_full(self) -> bool:
        """Whether a new connection would exceed the limit and none can make room for it."""
        return len(self._open) >= self._limits.total + _ACCEPTS_PER_TURN

    def _sweep(self) -> None:
        """Close connections that have waited too long for headers, or for their client to read."""
        now = self._loop.time()
        self._sweep_handle = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        for handler, connection in list(self._open.items()):
            limit = self._limits.idle_seconds if connection.user else self._limits.header_seconds
            if connection.is_busy or now - connection.since <= limit:
                continue
            if connection.is_closing:
                _abort(handler)
            else:
                connection.is_closing = True
                handler.force_close() if handler.transport is None else handler.transport.close()


def _abort(handler: web.RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()


class Acceptor:
    """Accepts connections of one socket and runs their TLS handshakes.

    One descriptor is kept in reserve. If there is no other one, it is used to accept a connection
    and close it, so that the client gets an answer instead of silence.
    """

    def __init__(self, connections: Connections, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        self._connections = connections
        self._limits = limits
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """-1 if there is none at the moment."""

    def listen(self, host: str, port: int) -> int:
        """Listen on every address of the host; OSError if one cannot be used."""
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            listening = socket.socket(family, kind, protocol)
            self._sockets.append(listening)
            listening.settimeout(0)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound = self._sockets[0].getsockname()[1] if len(self._sockets) > 1 else port
            listening.bind((address[0], bound, *address[2:]))
            listening.listen(_BACKLOG)
            self._loop.add_reader(listening.fileno(), self._accept, listening)
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        for listening in self._sockets:
            with contextlib.suppress(OSError, ValueError):
                self._loop.remove_reader(listening.fileno())
            listening.close()
        for task in list(self._handshakes):
            task.cancel()
        self._sockets.clear()
        self._close_reserve()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR:
                    self._refuse(listening)
                else:
                    log.warning("cannot accept a connection: %s", error)
                return
            if self._connections.is_full():
                client.close()
                continue
            self._start(client)

    def _refuse(self, listening: socket.socket) -> None:
        """Close the next connection, or pause if even the reserve is used up."""
        self._close_reserve()
        try:
            with contextlib.suppress(BlockingIOError, InterruptedError, ConnectionAbortedError):
                listening.accept()[0].close()
            self._reserve = os.open(os.devnull, os.O_RDONLY)
        except OSError:  # another thread was faster
            self._loop.remove_reader(listening.fileno())
            self._loop.call_later(_PAUSE_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening not in self._sockets:
            return
        if self._reserve < 0:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY)
        self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _close_reserve(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _start(self, client: socket.socket) -> None:
        client.settimeout(0)
        task = self._loop.create_task(self._connect(client))
        self._handshakes[task] = None
        task.add_done_callback(lambda ended: self._handshakes.pop(ended, None))
        if len(self._handshakes) > self._limits.handshakes:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]  # so that the next one cancels another
            oldest.cancel()

    async def _connect(self, client: socket.socket) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._connections, client)
            else:
                await self._loop.connect_accepted_socket(
                    self._connections, client, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
        except (OSError, ssl.SSLError):
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise
