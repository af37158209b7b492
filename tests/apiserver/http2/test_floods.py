"""Frames that ask for nothing, and requests that nobody waits for, end with the connection."""

import asyncio

import pytest
from tests.apiserver.http2.client import RawClient
from tests.apiserver.http2.test_broken_frames import DONE, HEAD, OPEN, WHOLE, block, frame

from pykueue.apiserver.http2 import connection as connection_module
from pykueue.apiserver.http2 import credit, frames, hpack

MOST_FRAMES = 2 * credit.MOST_CREDIT
PING = frame(frames.PING, 0, 0, b"12345678")


async def wait(stream):
    while not stream.is_closed:
        await stream.read()


async def never(_stream):
    await asyncio.Event().wait()


def rapid_reset(index):
    number = 2 * index + 1
    return frame(frames.HEADERS, WHOLE, number, HEAD) + frames.reset(number, frames.CANCEL)


FLOODS = {
    "pings": lambda _: PING,
    "settings": lambda index: frames.settings({frames.INITIAL_WINDOW_SIZE: index}),
    "acknowledgements": lambda _: frame(frames.SETTINGS, frames.ACK, 0),
    "priorities": lambda _: frame(frames.PRIORITY, 0, 1, b"12345"),
    "windows": lambda _: frames.window_update(0, 1),
    "unknown frames": lambda _: frame(0xEE, 0, 0),
    "goaways": lambda _: frame(frames.GOAWAY, 0, 0, b"12345678"),
    "resets": rapid_reset,
    "requests": lambda index: frame(frames.HEADERS, WHOLE, 2 * index + 1, HEAD),
    "malformed requests": lambda index: frame(frames.HEADERS, WHOLE, 2 * index + 1, block(("A", "1"))),
    "empty data": lambda index: OPEN if not index else frame(frames.DATA, 0, 1),
    "tiny data": lambda index: OPEN if not index else frame(frames.DATA, 0, 1, b"x"),
    "empty continuations": lambda index: frame(frames.CONTINUATION if index else frames.HEADERS, 0, 1),
    "data of ended streams": lambda index: DONE if not index else frame(frames.DATA, 0, 1, b"x"),
    "trailers of ended streams": lambda index: DONE if not index else frame(frames.HEADERS, WHOLE, 1, HEAD),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_the_connection(flood):
    client = RawClient(never if flood in (FLOODS["resets"], FLOODS["requests"]) else wait)
    for index in range(MOST_FRAMES):
        client.send(flood(index))
        if client.transport.is_paused:
            await asyncio.sleep(0)
        if client.transport.is_closed:
            break
    assert client.transport.is_closed
    assert await client.error() == frames.ENHANCE_YOUR_CALM


async def test_few_requests_of_a_connection_start_in_one_turn():
    async def handle(stream):
        stream.respond(200, [], b"")

    client = RawClient(handle)
    client.send(b"".join(frame(frames.HEADERS, WHOLE, 2 * index + 1, HEAD) for index in range(100)) + PING)
    counts = []
    while client.transport.is_paused:
        await asyncio.sleep(0)
        counts.append(len(client.connection._handlers))
    assert max(counts) <= 2 * connection_module.STARTS_PER_TURN
    kinds = [kind for kind, _, _, _ in await client.frames()]
    assert kinds.count(frames.HEADERS) == 100
    assert frames.PING in kinds


async def test_resetting_requests_starts_no_more_of_them_than_may_run():
    started = []

    async def handle(stream):
        started.append(stream.number)
        await asyncio.Event().wait()

    client = RawClient(handle)
    for index in range(MOST_FRAMES):
        client.send(rapid_reset(index))
        await asyncio.sleep(0)
    assert len(started) == connection_module.MOST_STREAMS


async def test_a_long_header_block_ends_the_connection():
    client = RawClient(wait)
    client.send(frame(frames.HEADERS, 0, 1, HEAD))
    for _ in range(5):
        client.send(frame(frames.CONTINUATION, 0, 1, 16_384 * b"x"))
    assert await client.error() == frames.ENHANCE_YOUR_CALM


async def test_a_compressed_bomb_ends_the_connection():
    client = RawClient(wait)
    client.send(
        frame(frames.HEADERS, frames.END_HEADERS, 1, HEAD + b"\x40\x01a\x7f\xa1\x1e" + 4000 * b"x" + 200 * b"\xbe")
    )
    assert await client.error() == frames.ENHANCE_YOUR_CALM
    assert hpack.LARGEST_LIST_BYTES < 200 * 4000


async def test_data_one_byte_at_a_time_ends_the_connection():
    """A client that opens its window by one byte again and again gets a frame for each."""

    async def handle(stream):
        stream.respond(200, [], 100_000 * b"x")
        await stream.drain()

    client = RawClient(handle)
    client.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}) + DONE)
    await client.frames()
    for _ in range(MOST_FRAMES):
        client.send(frames.window_update(1, 1))
        if client.transport.is_closed:
            break
    assert await client.error() == frames.ENHANCE_YOUR_CALM


async def test_a_busy_client_keeps_its_connection():
    async def handle(stream):
        stream.respond(200, [], 2000 * b"x")

    client = RawClient(handle)
    for index in range(10 * MOST_FRAMES):
        client.send(frame(frames.HEADERS, WHOLE, 2 * index + 1, HEAD) + frames.window_update(0, 2000) + PING)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        client.transport.take()
    assert not client.transport.is_closed


async def test_a_reader_of_a_large_response_may_open_its_windows_often():
    async def handle(stream):
        stream.respond(200, [], 20_000_000 * b"x")
        await stream.drain()

    client = RawClient(handle)
    client.send(DONE)
    for _ in range(20_000_000 // 4096):
        client.send(frames.window_update(0, 4096) + frames.window_update(1, 4096))
        await asyncio.sleep(0)
        client.transport.take()
    assert not client.transport.is_closed


async def test_windows_that_are_opened_in_small_steps_do_not_stay_small():
    """A client that opens its windows by each frame would get frames of that size for ever."""
    size, step = 12_000_000, 327

    async def handle(stream):
        stream.respond(200, [], size * b"x")
        await stream.drain()

    client = RawClient(handle)
    client.send(DONE)
    received = [len(payload) for kind, _, _, payload in await client.frames() if kind == frames.DATA]
    for _ in range(sum(received) // step):
        client.send(frames.window_update(0, step) + frames.window_update(1, step))
    while sum(received) < size and not client.transport.is_closed:
        for kind, _, _, payload in await client.frames():
            if kind == frames.DATA:
                received.append(len(payload))
                client.send(frames.window_update(0, len(payload)) + frames.window_update(1, len(payload)))
    assert sum(received) == size


async def test_a_client_that_does_not_read_is_not_read():
    """Frames without flow control, such as headers and answers to pings, would fill the memory."""

    async def handle(stream):
        stream.respond(200, [("a", 1000 * "x")], b"")

    client = RawClient(handle)
    client.transport.is_full = True
    for index in range(MOST_FRAMES):
        if client.transport.is_paused:
            break
        client.send(frame(frames.HEADERS, WHOLE, 2 * index + 1, HEAD))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    written = len(client.transport.written)
    assert client.transport.is_paused
    for index in range(MOST_FRAMES, MOST_FRAMES + 100):  # what had arrived before the pause
        client.send(frame(frames.HEADERS, WHOLE, 2 * index + 1, HEAD))
        await asyncio.sleep(0)
    assert len(client.transport.written) < written + 3000
    client.transport.is_full = False
    client.connection.resume_writing()
    kinds = [kind for kind, _, _, _ in await client.frames(turns=200)]
    assert kinds.count(frames.HEADERS) > 100
    assert not client.transport.is_paused
