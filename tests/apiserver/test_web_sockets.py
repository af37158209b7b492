"""WebSockets of `exec`, `attach` and `port-forward`: a flood of messages stops nobody."""

import asyncio
import collections

import pytest
from aiohttp import WSMessage, WSMsgType

from pykueue.apiserver.http.http1 import WebSocketStream

COUNT = 200


class FullSocket:
    """A WebSocket whose messages have all arrived, so that reading them never waits."""

    ws_protocol = ""

    def __init__(self, *messages):
        self.messages = collections.deque(messages)
        self.pongs = []

    async def receive(self):
        return self.messages.popleft()

    async def pong(self, data):
        self.pongs.append(data)


async def count_turns(turns):
    while True:
        turns.append(1)
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [WSMsgType.PING, WSMsgType.PONG, WSMsgType.BINARY, WSMsgType.TEXT])
async def test_others_have_a_turn_between_two_messages(kind):
    data = "" if kind is WSMsgType.TEXT else b""
    socket = FullSocket(*[WSMessage(kind, data, None)] * COUNT, WSMessage(WSMsgType.CLOSE, 1000, None))
    stream, turns = WebSocketStream(socket), []
    others = asyncio.create_task(count_turns(turns))
    while await stream.receive() is not None:
        pass
    others.cancel()
    assert len(turns) >= COUNT
    assert len(socket.pongs) == (COUNT if kind is WSMsgType.PING else 0)
