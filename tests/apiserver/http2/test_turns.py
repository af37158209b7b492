"""However many connections send requests, a turn of the event loop reads few of them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.http2.client import RawClient
from tests.apiserver.http2.test_broken_frames import HEAD, WHOLE, block, frame

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.turns import COST_PER_TURN, Turns

CONNECTIONS = 50
MOST_TURNS = 10_000
LARGE = block(
    (":method", "GET"), (":scheme", "https"), (":path", "/a"), *[(f"a{index}", 900 * "x") for index in range(15)]
)


class Clients:
    """Connections that share their turns. Their handlers only note which owner they serve."""

    def __init__(self):
        self.turns = Turns()
        self.started = []

    def connect(self, owner):
        async def handle(stream):
            self.started.append(owner)
            stream.respond(200, [], b"")

        return RawClient(handle, turns=self.turns, owner=owner)

    async def until(self, condition):
        for _ in range(MOST_TURNS):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError(len(self.started))


def requests(count, head=HEAD):
    return b"".join(frame(frames.HEADERS, WHOLE, 2 * index + 1, head) for index in range(count))


async def test_a_user_with_one_connection_does_not_wait_for_the_connections_of_another():
    clients = Clients()
    many = [clients.connect("jane") for _ in range(CONNECTIONS)]
    one = clients.connect("bob")
    for client in many:
        client.send(requests(20))
    one.send(requests(1))
    await clients.until(lambda: len(clients.started) == CONNECTIONS * 20 + 1)
    assert clients.started.index("bob") <= 2 * COST_PER_TURN
    assert not any(client.transport.is_paused for client in many)


@pytest.mark.parametrize(("head", "most"), [(HEAD, COST_PER_TURN), (LARGE, 2)], ids=["small", "large"])
async def test_a_turn_is_bounded_by_what_the_headers_cost(head, most):
    clients = Clients()
    for client in [clients.connect("jane") for _ in range(CONNECTIONS)]:
        client.send(requests(3, head))
    counts = []
    while len(clients.started) < CONNECTIONS * 3:
        before = len(clients.started)
        await asyncio.sleep(0)
        counts.append(len(clients.started) - before)
    assert max(counts) <= 2 * most


async def test_connections_of_a_user_take_turns():
    clients = Clients()
    first, second = clients.connect("jane"), clients.connect("jane")
    first.send(requests(200))
    second.send(requests(1))
    await clients.until(lambda: second.transport.written.count(b"\x88"))
    started = len(clients.started)
    await clients.until(lambda: len(clients.started) == 201)
    assert started < 100


async def test_a_connection_that_is_lost_while_it_waits_is_not_read():
    clients = Clients()
    first, second = clients.connect("jane"), clients.connect("bob")
    first.send(requests(50))
    second.send(requests(50))
    second.connection.connection_lost(None)
    await clients.until(lambda: clients.started.count("jane") == 50)
    assert clients.started.count("bob") <= 8


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["send", "send", "full", "empty", "turn"])), max_size=60
    )
)
@settings(deadline=None)
def test_every_request_is_answered_however_clients_read(steps):
    """Clients that stop reading are paused; when they read again, nothing of theirs is lost."""
    asyncio.run(play(steps))


async def play(steps):
    clients = Clients()
    connections = [clients.connect(owner) for owner in ("jane", "jane", "bob")]
    sent = [0, 0, 0]
    for index, step in steps:
        client = connections[index]
        if step == "send":
            numbers = range(sent[index], sent[index] + 12)
            client.send(b"".join(frame(frames.HEADERS, WHOLE, 2 * number + 1, HEAD) for number in numbers))
            sent[index] += 12
        elif step == "full":
            client.transport.is_full = True
        elif step == "empty":
            empty(client)
        else:
            await asyncio.sleep(0)
    for client in connections:
        empty(client)
    await clients.until(lambda: len(clients.started) == sum(sent))
    await asyncio.sleep(0)
    assert not any(client.transport.is_paused for client in connections)


def empty(client):
    client.transport.is_full = False
    client.connection.resume_writing()
