"""What one `kubectl port-forward` can cost the server."""

import asyncio
import contextlib
import functools
import socket

import pytest
from tests.apiserver.test_spdy import HEADERS, Client

from pykueue.apiserver.http import spdy
from pykueue.app.kubelet_api.port_forward import PodConnections, PortForwardSession


class Messages:
    async def send(self, data):
        pass

    async def receive(self):
        return None


@pytest.fixture
async def session():
    """A session with a pod that accepts connections and never reads."""
    connections = []

    async def connect(_pod, _port):
        ours, of_the_pod = socket.socketpair()
        connections.append(of_the_pod)
        return await asyncio.open_connection(sock=ours)

    session = PortForwardSession(Messages(), functools.partial(PodConnections(connect).open, "jane", {}))
    yield session
    for connection in connections:
        connection.close()
    await session.run()
    await asyncio.sleep(0)


def opened(stream, kind="data"):
    headers = {"streamtype": kind, "requestid": str(stream), "port": "80"}
    return spdy.Opened(stream=stream, headers=headers, is_last=False)


async def test_a_pod_that_does_not_read_holds_the_client_back(session):
    await session._handle(opened(1))
    frames = 0

    async def flood():
        nonlocal frames
        while True:
            await session._handle(spdy.Data(stream=1, data=bytes(1 << 16), is_last=False))
            frames += 1

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(flood(), 1)
    assert frames << 16 < 32 << 20


@pytest.mark.parametrize("kind", ["data", "error"])
async def test_connections_of_a_session_are_bounded(session, kind):
    for stream in range(1, 513, 2):
        await session._handle(opened(stream, kind))
    with pytest.raises(spdy.FrameError, match="too many connections"):
        await session._handle(opened(513, kind))


async def test_data_for_a_connection_that_has_ended_waits_for_nobody(session):
    await session._handle(opened(1))
    session._tasks[1].cancel()
    for _ in range(20):
        await asyncio.wait_for(session._handle(spdy.Data(stream=1, data=b"x", is_last=False)), 5)


class Received(Messages):
    """A client whose messages have all arrived."""

    def __init__(self, *messages):
        self.messages = list(messages)

    async def receive(self):
        await asyncio.sleep(0)
        return self.messages.pop(0) if self.messages else None


class Pods:
    """Pods that accept connections, which are counted; looking for one takes some turns."""

    def __init__(self):
        self.looking = self.most_looking = self.looked = 0
        self.sockets = []

    async def connect(self, _pod, _port):
        self.looking += 1
        self.looked += 1
        self.most_looking = max(self.looking, self.most_looking)
        for _ in range(5):
            await asyncio.sleep(0)
        self.looking -= 1
        ours, of_the_pod = socket.socketpair()
        self.sockets.append(of_the_pod)
        return await asyncio.open_connection(sock=ours)


@pytest.fixture
async def pods():
    pods = Pods()
    yield pods
    for connection in pods.sockets:
        connection.close()
    for _ in range(20):  # until look-ups have ended, and transports of closed connections are closed
        await asyncio.sleep(0)


def reset(stream):
    return spdy._control(3, stream.to_bytes(4, "big") + bytes(4))


async def test_connections_that_are_opened_and_reset_cause_one_look_up_at_a_time(pods):
    client = Client()
    streams = range(1, 201, 2)
    flood = [message for stream in streams for message in (client.opens(stream, HEADERS), b"", b"", reset(stream))]
    await PortForwardSession(Received(*flood), functools.partial(PodConnections(pods.connect).open, "jane", {})).run()
    assert pods.most_looking == 1
    assert pods.looked < len(streams)


async def test_one_user_leaves_connections_to_others(pods):
    connections = PodConnections(pods.connect)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(256):
            await stack.enter_async_context(connections.open("jane", {}, 80))
        with pytest.raises(ConnectionRefusedError, match="too many connections"):
            await stack.enter_async_context(connections.open("jane", {}, 80))
        async with connections.open("eve", {}, 80):
            pass
    async with connections.open("jane", {}, 80):
        pass


async def test_frames_of_one_message_leave_turns_to_others():
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    connect = functools.partial(PodConnections(Pods().connect).open, "jane", {})
    await PortForwardSession(Received(bytes(8) * 10_000), connect).run()
    task.cancel()
    assert turns >= 100


async def test_a_stream_is_opened_once(session):
    await session._handle(opened(1))
    with pytest.raises(spdy.FrameError, match="opened twice"):
        await session._handle(opened(1))
