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

from pykueue.apiserver.slices import Slices

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
HEADER_SECONDS = 10.0
IDLE_SECONDS = 75.0
_SWEEP_SECONDS = 1.0
_BACKLOG = 1024
_PAUSE_SECONDS = 0.1
_ACCEPTS_PER_TURN = 4
"""Connections accepted before other work gets its turn."""
_HANDSHAKES_PER_TURN = 8
_RECORD_HEAD, _HANDSHAKE_RECORD, _LARGEST_RECORD = 5, 22, 16 * 1024
"""Of TLS: the bytes of the head of a record, its first byte in a handshake, and the most bytes."""
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
    __slots__ = ("close", "is_closing", "peer", "requests", "since", "transport", "user")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None], since: float) -> None:
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self.transport = transport
        self.close = close
        self.user = _UNKNOWN_USER
        self.since = since
        """When it was opened, or when the last response was ready."""
        self.requests = 0
        """How many are being answered."""
        self.is_closing = False


class Connections:
    """The open connections, and what each of them does. Their keys are their protocols."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._loop = asyncio.get_running_loop()
        self._open: dict[object, _Connection] = {}
        self._by_user: dict[str, int] = {}
        self._sweep_handle: asyncio.TimerHandle | None = None

    # What the protocols call

    def opened(self, key: object, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        """`close` ends the connection after what is written has been sent."""
        connection = _Connection(transport, close, self._loop.time())
        self._make_room(connection.peer)
        self._open[key] = connection
        self._count(_UNKNOWN_USER, 1)
        if self._sweep_handle is None:
            self._sweep_handle = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def owner(self, key: object) -> str:
        """The user of a connection, or its address until one is known."""
        connection = self._open.get(key)
        return "" if connection is None else connection.user or connection.peer

    def closed(self, key: object) -> None:
        connection = self._open.pop(key, None)
        if connection is not None:
            self._count(connection.user, -1)

    # What the listener calls

    def request_started(self, key: object) -> None:
        if connection := self._open.get(key):
            connection.requests += 1

    def request_ended(self, key: object) -> None:
        if connection := self._open.get(key):
            connection.requests -= 1
            connection.since = self._loop.time()

    def authenticated(self, key: object, user: str) -> None:
        connection = self._open.get(key)
        if connection is not None and connection.user != user:
            self._count(connection.user, -1)
            self._count(user, 1)
            connection.user = user

    def stop(self) -> None:
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()

    # Limits

    def _count(self, user: str, change: int) -> None:
        count = self._by_user.get(user, 0) + change
        if count:
            self._by_user[user] = count
        else:
            del self._by_user[user]

    def _make_room(self, peer: str) -> None:
        """Close a connection if the limits are reached. The newest one is never closed."""
        if self._by_user.get(_UNKNOWN_USER, 0) >= self.limits.unauthenticated_per_peer:
            strangers = [item for item in self._open.values() if item.peer == peer and not item.user]
            if len(strangers) >= self.limits.unauthenticated_per_peer:
                _close_oldest(strangers)
        if len(self._open) >= self.limits.total:
            _close_oldest([item for item in self._open.values() if not item.user]) or _close_oldest(
                self._idle_of_largest_user()
            )

    def _idle_of_largest_user(self) -> list[_Connection]:
        idle: dict[str, list[_Connection]] = {}
        for connection in self._open.values():
            if not connection.requests:
                idle.setdefault(connection.user, []).append(connection)
        return max(idle.values(), key=len, default=[])

    def is_full(self) -> bool:
        """Whether a new connection would exceed the limit and none can make room for it."""
        return len(self._open) >= self.limits.total + _ACCEPTS_PER_TURN

    def _sweep(self) -> None:
        """Close connections that have waited too long for headers, or for their client to read."""
        now = self._loop.time()
        self._sweep_handle = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        for connection in list(self._open.values()):
            limit = self.limits.idle_seconds if connection.user else self.limits.header_seconds
            if connection.requests or now - connection.since <= limit:
                continue
            if connection.is_closing:
                connection.transport.abort()
            else:
                connection.is_closing = True
                connection.close()


def _close_oldest(candidates: list[_Connection]) -> bool:
    candidates = [item for item in candidates if not item.is_closing]
    if not candidates:
        return False
    oldest = min(candidates, key=lambda item: item.since)
    oldest.is_closing = True
    oldest.transport.abort()
    return True


class Acceptor:
    """Accepts connections of one socket and runs their TLS handshakes.

    One descriptor is kept in reserve. If there is no other one, it is used to accept a connection
    and close it, so that the client gets an answer instead of silence.
    """

    def __init__(
        self, connections: Connections, tls: ssl.SSLContext | None, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        """`protocol` makes the protocol of an accepted connection."""
        self._connections = connections
        self._tls = tls
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._turns = Slices(_HANDSHAKES_PER_TURN)
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """-1 if there is none at the moment."""

    def listen(self, host: str, port: int) -> int:
        """Listen on every address of the host; OSError if one cannot be used.

        Connections wait for `open`.
        """
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
        return int(self._sockets[0].getsockname()[1])

    def open(self) -> None:
        """Accept connections from now on."""
        for listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

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
        if len(self._handshakes) > self._connections.limits.handshakes:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]  # so that the next one cancels another
            oldest.cancel()

    async def _connect(self, client: socket.socket) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(self._protocol, client)
            else:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._greeted(client)
                await self._turns.turn(_address(client))
                await self._loop.connect_accepted_socket(
                    self._protocol, client, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
        except (OSError, ssl.SSLError, TimeoutError):
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise

    async def _greeted(self, client: socket.socket) -> None:
        """Wait for the first message of the client, which the server answers with a signature.

        A thousand clients may send it in the same moment: then their handshakes take turns.
        """
        while not _is_greeted(client):
            has_more: asyncio.Future[None] = self._loop.create_future()
            self._loop.add_reader(client.fileno(), _set, has_more)
            try:
                await has_more
            finally:
                self._loop.remove_reader(client.fileno())
            if not _is_greeted(client):
                await asyncio.sleep(_PAUSE_SECONDS)  # nothing tells of more


def _is_greeted(client: socket.socket) -> bool:
    """Whether a whole record of TLS can be read, or the end, or something else than TLS."""
    try:
        head = client.recv(_RECORD_HEAD, socket.MSG_PEEK)
        if len(head) < _RECORD_HEAD or head[0] != _HANDSHAKE_RECORD:
            return len(head) == _RECORD_HEAD or not head
        size = _RECORD_HEAD + min(int.from_bytes(head[3:5]), _LARGEST_RECORD)
        return len(client.recv(size, socket.MSG_PEEK)) == size
    except BlockingIOError:
        return False


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _address(client: socket.socket) -> str:
    peer = client.getpeername()
    return str(peer[0]) if isinstance(peer, tuple) else ""
