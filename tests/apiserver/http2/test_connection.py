"""Requests and responses on one connection, with the h2 library as the client."""

import asyncio

import h2.events
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.http2.client import GET, POST, Client

from pykueue.apiserver.http2 import connection as connection_module
from pykueue.apiserver.http2 import frames

LARGE = bytes(range(256)) * 4000


async def echo(stream):
    stream.open_window(1 << 22)
    chunks = []
    while chunk := await stream.read():
        chunks.append(chunk)
    stream.respond(200, [("content-type", "x")], b"".join(chunks) or stream.head.target.encode())
    await stream.drain()


async def test_requests_get_their_responses():
    client = Client(echo)
    numbers = [client.request([*GET[:3], (":path", f"/{index}")]) for index in range(100)]
    for index, number in enumerate(numbers):
        assert await client.response(number) == (200, f"/{index}".encode())


async def test_headers_are_read():
    heads = []

    async def handle(stream):
        heads.append(stream.head)
        stream.respond(204, [], b"")

    client = Client(handle)
    number = client.request(
        [*GET, ("Accept", "a"), ("x-twice", "1"), ("x-twice", "2"), ("cookie", "a"), ("cookie", "b")]
    )
    assert await client.response(number) == (204, b"")
    headers = heads[0].headers
    assert (heads[0].method, heads[0].target, headers["Host"], headers["accept"]) == ("GET", "/a", "server", "a")
    assert headers.getall("X-Twice") == ["1", "2"]
    assert headers.getall("Cookie") == ["a; b"]


async def test_a_small_body_arrives_with_its_request():
    bodies = []

    async def handle(stream):
        bodies.append(stream.arrived_body())
        stream.respond(200, [], b"")

    client = Client(handle)
    await client.response(client.request(POST, b"body"))
    assert bodies == [b"body"]


@pytest.mark.parametrize("window", [10, 65_535, 1 << 20])
async def test_a_large_response_takes_the_windows_of_the_client(window):
    async def handle(stream):
        stream.respond(200, [], LARGE if window > 10 else LARGE[:200])
        await stream.drain()

    client = Client(handle, window)
    status, body = await client.response(client.request())
    assert (status, body) == (200, LARGE if window > 10 else LARGE[:200])


async def test_a_large_body_is_sent_when_the_server_reads_it():
    may_read = asyncio.Event()

    async def handle(stream):
        await may_read.wait()
        await echo(stream)

    client = Client(handle)
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, POST)
    sent = 0

    def send():
        nonlocal sent
        size = min(client.h2.local_flow_control_window(number), len(LARGE) - sent, 16_384)
        if size > 0:
            client.h2.send_data(number, LARGE[sent : sent + size])
            sent += size
        return sent == len(LARGE)

    for _ in range(20):
        send()
        client.exchange()
    assert sent == 65_535
    may_read.set()
    await client.until(send)
    client.h2.end_stream(number)
    assert await client.response(number) == (200, LARGE)


async def test_a_stream_that_is_not_read_delays_no_other():
    async def handle(stream):
        stream.respond(200, [], LARGE if stream.number == 1 else b"small")
        await stream.drain()

    client = Client(handle, 1000)
    client.is_reading = False
    slow = client.request()
    for _ in range(20):
        assert await client.response(client.request()) == (200, b"small")
    assert len(client.body(slow)) == 1000


async def test_streams_with_much_to_send_take_turns():
    async def handle(stream):
        stream.respond(200, [], LARGE)
        await stream.drain()

    client = Client(handle, 1 << 20)
    client.h2.increment_flow_control_window(1 << 24)
    first, second = client.request(), client.request()
    await client.until(lambda: len(client.body(first)) == len(LARGE))
    assert len(client.body(second)) > len(LARGE) // 2


async def test_what_a_client_does_not_read_stays_with_its_handler():
    ended = []

    async def handle(stream):
        stream.respond(200, [], LARGE)
        await stream.drain()
        ended.append(stream.number)

    client = Client(handle, 1 << 24)
    client.h2.increment_flow_control_window(1 << 24)
    client.transport.is_full = True
    client.request()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not ended
    assert len(client.transport.written) < 2 * connection_module._WRITE_BYTES
    client.transport.is_full = False
    client.connection.resume_writing()
    await client.until(lambda: ended == [1])


async def test_a_reset_ends_the_stream_and_not_the_others():
    closed = []

    async def handle(stream):
        stream.on_close = lambda: closed.append(stream.number)
        stream.start(200, [])
        stream.write(b"first")
        await asyncio.Event().wait()

    client = Client(handle)
    first, second = client.request(), client.request()
    await client.until(lambda: client.body(first) and client.body(second))
    client.h2.reset_stream(first)
    client.exchange()
    assert closed == [first]
    client.connection.connection_lost(None)
    assert closed == [first, second]
    assert client.lost == 1


async def test_a_stream_that_the_server_resets_tells_its_handler():
    """As when the user of a watch loses the right to it."""
    streams, ended = [], asyncio.Event()

    async def handle(stream):
        stream.on_close = ended.set
        stream.start(200, [])
        streams.append(stream)
        await ended.wait()

    client = Client(handle)
    number = client.request()
    await client.until(lambda: streams)
    streams[0].abort()
    await client.until(lambda: client.has(h2.events.StreamReset, number))
    await client.until(lambda: client.connection.is_idle)


async def test_a_body_that_is_cut_off_is_an_error_of_its_handler():
    errors = []

    async def handle(stream):
        try:
            await stream.read()
        except ConnectionResetError as error:
            errors.append(error)

    client = Client(handle)
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, POST)
    client.exchange()
    await asyncio.sleep(0)
    client.h2.reset_stream(number)
    client.exchange()
    await client.until(lambda: errors)


async def test_a_handler_that_fails_resets_its_stream():
    async def handle(_stream):
        raise ConnectionResetError

    client = Client(handle)
    number = client.request()
    await client.until(lambda: client.has(h2.events.StreamReset, number))


async def test_a_response_before_the_end_of_the_request_stops_it():
    async def handle(stream):
        stream.respond(413, [], b"too large")

    client = Client(handle)
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, POST)
    assert await client.response(number) == (413, b"too large")
    assert client.has(h2.events.StreamReset, number)


async def test_streams_end_before_the_connection_does():
    async def handle(stream):
        stream.start(200, [])
        ended = asyncio.Event()
        stream.on_close = ended.set
        await ended.wait()
        stream.end()

    client = Client(handle)
    number = client.request()
    await client.until(lambda: client.has(h2.events.ResponseReceived, number))
    client.connection.end_streams()
    await client.response(number)
    client.connection.close()
    client.exchange()
    assert any(isinstance(event, h2.events.ConnectionTerminated) for event in client.events)
    assert client.transport.is_closed


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.integers(1024, 70_000))
def test_any_writes_arrive_in_order(sizes, window):
    """Whatever is written in whatever portions to whatever window."""

    async def handle(stream):
        stream.start(200, [])
        for index, size in enumerate(sizes):
            stream.write(bytes([index]) * size)
        stream.end()
        await stream.drain()

    async def run():
        client = Client(handle, window)
        status, body = await client.response(client.request())
        assert (status, body) == (200, b"".join(bytes([index]) * size for index, size in enumerate(sizes)))

    asyncio.run(run())


async def test_a_smaller_window_holds_data_back_until_it_grows():
    async def handle(stream):
        stream.respond(200, [], LARGE[:5000])
        await stream.drain()

    client = Client(handle, 0)
    number = client.request()
    await client.until(lambda: client.has(h2.events.ResponseReceived, number))
    assert client.body(number) == b""
    client.h2.update_settings({frames.INITIAL_WINDOW_SIZE: 6000})
    assert await client.response(number) == (200, LARGE[:5000])
