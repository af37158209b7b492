"""What one `kubectl port-forward` can cost the server."""

import asyncio
import socket

import pytest

from pykueue.apiserver.http import spdy
from pykueue.app.kubelet_api.port_forward import PortForwardSession


class Messages:
    async def send(self, data):
        pass

    async def receive(self):
        return None


@pytest.fixture
async def session():
    """A session with a pod that accepts connections and never reads."""
    connections = []

    async def connect(_port):
        ours, of_the_pod = socket.socketpair()
        connections.append(of_the_pod)
        return await asyncio.open_connection(sock=ours)

    session = PortForwardSession(Messages(), connect)
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
