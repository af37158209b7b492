"""Connections: time limits, and who makes room when there are too many."""

import asyncio
import contextlib
import itertools
import socket

import pytest
from multidict import CIMultiDict

from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import connections
from pykueue.apiserver.http import listener as listener_module
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.connections import ConnectionLimits, Connections
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.security.authorizer import Authorizer

GET = b"GET /version HTTP/1.1\r\nHost: x\r\n%s\r\n"
JANE = b"Authorization: Bearer jane\r\n"
DEADLINE_SECONDS = 20
opened: list[asyncio.StreamWriter] = []
"""Connections of the clients, which are closed when the test ends."""


@contextlib.asynccontextmanager
async def serving(**limits):
    application = Application(
        scheme=Scheme(),
        verbs=None,
        authorizer=Authorizer(),
        authenticate=lambda token: UserInfo(name=token, groups=("system:authenticated",)) if token else None,
    )
    listener = Listener(application, ConnectionLimits(**{"total": 100, **limits}))
    port = await listener.start("127.0.0.1", 0, None)
    try:
        yield port
    finally:
        while opened:
            writer = opened.pop()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await listener.stop()


async def connected(port, data=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    opened.append(writer)
    writer.write(data)
    return reader, writer


async def code(reader):
    async with asyncio.timeout(DEADLINE_SECONDS):
        line = await reader.readline()
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(row.split(b":")[1]) for row in head.split(b"\r\n") if row.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        return int(line.split()[1])


async def is_closed(reader):
    async with asyncio.timeout(DEADLINE_SECONDS):
        with contextlib.suppress(ConnectionError):
            return await reader.read() == b""
        return True


@pytest.mark.parametrize("data", [b"", b"GET /version HTTP/1.1\r\nHost:", b"GET /vers"])
async def test_a_connection_without_headers_is_closed(data):
    async with serving(header_seconds=0.1, idle_seconds=60) as port:
        reader, _ = await connected(port, data)
        assert await is_closed(reader)


async def test_a_connection_stays_open_without_a_user_only_as_long_as_headers_may_take():
    async with serving(header_seconds=0.1, idle_seconds=60) as port:
        reader, _ = await connected(port, b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await code(reader) == 401
        assert await is_closed(reader)


async def test_an_idle_connection_of_a_user_is_closed_later():
    async with serving(header_seconds=0.1, idle_seconds=0.5) as port:
        reader, _ = await connected(port, GET % JANE)
        assert await code(reader) == 200
        assert await is_closed(reader)


async def test_a_body_that_does_not_arrive_is_given_up(monkeypatch):
    monkeypatch.setattr(listener_module, "_BODY_SECONDS", 0.1)
    async with serving() as port:
        head = b"POST /apis HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n%s\r\n" % JANE
        reader, _ = await connected(port, head + b"abc")
        assert await code(reader) == 408
        assert await is_closed(reader)


async def test_a_body_that_is_not_stored_must_be_small():
    async with serving() as port:
        reader, _ = await connected(port, b"POST /apis HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n%s\r\n" % JANE)
        assert await code(reader) == 413


async def test_strangers_make_room_for_users_and_the_newest_connection_gets_in():
    async with serving(total=20, header_seconds=60) as port:
        jane_reader, jane_writer = await connected(port, GET % JANE)
        assert await code(jane_reader) == 200
        strangers = [await connected(port) for _ in range(60)]
        reader, _ = await connected(port, GET % JANE)
        assert await code(reader) == 200
        jane_writer.write(GET % JANE)
        assert await code(jane_reader) == 200
        assert await is_closed(strangers[0][0])


async def test_idle_connections_of_one_user_make_room_for_another():
    async with serving(total=20, header_seconds=60) as port:
        bob_reader, bob_writer = await connected(port, GET % b"Authorization: Bearer bob\r\n")
        assert await code(bob_reader) == 200
        for _ in range(40):
            reader, _ = await connected(port, GET % JANE)
            assert await code(reader) == 200
        bob_writer.write(GET % b"Authorization: Bearer bob\r\n")
        assert await code(bob_reader) == 200


async def test_a_stream_that_fails_ends_without_a_second_response(monkeypatch):
    async def respond(_listener, exchange, *_):
        stream = await exchange.start(200, CIMultiDict())
        stream.write(b"first")
        raise RuntimeError

    monkeypatch.setattr(listener_module.Listener, "_respond", respond)
    async with serving() as port:
        reader, _ = await connected(port, GET % JANE)
        lines = []
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(DEADLINE_SECONDS):
                while line := await reader.readline():
                    lines.append(line)
        assert sum(line.startswith(b"HTTP/1.1") for line in lines) <= 1


class FakeTransport:
    def __init__(self, peer):
        self.peer = peer
        self.ends = []
        """How the connection was ended: closed, aborted."""

    def get_extra_info(self, _name):
        return (self.peer, 1)

    def close(self):
        self.ends.append("closed")

    def abort(self):
        self.ends.append("aborted")


def open_connection(connections, peer="a", user=""):
    transport = FakeTransport(peer)
    connections.opened(transport, transport, transport.close)
    if user:
        connections.authenticated(transport, user)
    return transport


async def test_an_idle_connection_of_any_protocol_is_closed_and_then_aborted():
    connections = Connections(ConnectionLimits(total=100, header_seconds=1000, idle_seconds=-1))
    idle, stranger, busy = (open_connection(connections, user=user) for user in ("jane", "", "jane"))
    connections.request_started(busy)
    for _ in range(2):
        connections._sweep()
    connections.stop()
    assert (idle.ends, stranger.ends, busy.ends) == (["closed", "aborted"], [], [])


async def test_strangers_of_one_address_make_room_for_each_other_only():
    connections = Connections(ConnectionLimits(total=20))
    others = [open_connection(connections, "b") for _ in range(5)]
    user = open_connection(connections, "a", user="jane")
    strangers = [open_connection(connections, "a") for _ in range(11)]
    connections.stop()
    assert [transport.ends for transport in strangers] == [["aborted"], *[[]] * 10]
    assert not any(transport.ends for transport in (*others, user))


HELLO = b"\x16\x03\x01\x00\x05hello"


@pytest.mark.parametrize(
    ("data", "is_greeted"),
    [
        (b"", False),
        (HELLO[:1], False),
        (HELLO[:5], False),
        (HELLO[:-1], False),
        (HELLO, True),
        (HELLO + b"more", True),
        (b"GET / HTTP/1.1", True),
        (b"\x16\x03\x01\xff\xff" + b"x" * 17_000, True),
    ],
)
def test_a_handshake_waits_for_the_whole_greeting(data, is_greeted):
    client, server = socket.socketpair()
    with client, server:
        server.settimeout(0)
        client.sendall(data)
        assert connections._is_greeted(server) is is_greeted


async def test_handshakes_of_one_moment_take_turns(monkeypatch):
    """A thousand clients without a token may connect in silence, and greet at the same time."""
    greeted, started = 60, []
    loop = asyncio.get_running_loop()

    async def start(_protocol, client, **_options):
        started.append(client)

    monkeypatch.setattr(loop, "connect_accepted_socket", start)
    acceptor = connections.Acceptor(Connections(ConnectionLimits(total=1000)), object(), asyncio.Protocol)
    port = acceptor.listen("127.0.0.1", 0)
    acceptor.open()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(greeted)]
    try:
        for _ in range(10 * greeted):
            await asyncio.sleep(0)
        assert len(acceptor._handshakes) == greeted
        assert started == []
        for client in clients:
            client.sendall(HELLO)
        counts = [0]
        async with asyncio.timeout(DEADLINE_SECONDS):
            while counts[-1] < greeted:
                await asyncio.sleep(0)
                counts.append(len(started))
        assert max(later - former for former, later in itertools.pairwise(counts)) <= 16
    finally:
        acceptor.close()
        for client in [*clients, *started]:
            client.close()
