"""Frames that break the protocol end the stream or the connection with the right code."""

import asyncio
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.http2.client import RawClient

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.hpack import _field

H, D = frames.HEADERS, frames.DATA
WHOLE = frames.END_HEADERS | frames.END_STREAM


def block(*fields):
    return b"".join(_field(name, value) for name, value in fields)


GET = ((":method", "GET"), (":scheme", "https"), (":path", "/a"))
HEAD = block(*GET)
POST = block((":method", "POST"), *GET[1:])
BODY_OF_4 = POST + block(("content-length", "4"))


def frame(kind, flags, stream, payload=b""):
    return frames.head(len(payload), kind, flags, stream) + payload


def request(*fields, flags=WHOLE):
    return frame(H, flags, 1, block(*fields))


OPEN = frame(H, frames.END_HEADERS, 1, POST)
DONE = frame(H, WHOLE, 1, HEAD)

CONNECTION_ERRORS = {
    "data on no stream": (frame(D, 0, 0, b"x"), frames.PROTOCOL_ERROR),
    "data on an idle stream": (frame(D, 0, 1, b"x"), frames.PROTOCOL_ERROR),
    "headers on no stream": (frame(H, WHOLE, 0, HEAD), frames.PROTOCOL_ERROR),
    "headers on an even stream": (frame(H, WHOLE, 2, HEAD), frames.PROTOCOL_ERROR),
    "frame too large": (frame(D, 0, 1, 16_385 * b"x"), frames.FRAME_SIZE_ERROR),
    "padding too long": (OPEN + frame(D, frames.PADDED, 1, b"\x05abc"), frames.PROTOCOL_ERROR),
    "padding without length": (OPEN + frame(D, frames.PADDED, 1), frames.PROTOCOL_ERROR),
    "headers without priority": (frame(H, WHOLE | frames.HAS_PRIORITY, 1, b"123"), frames.FRAME_SIZE_ERROR),
    "priority on no stream": (frame(frames.PRIORITY, 0, 0, b"12345"), frames.PROTOCOL_ERROR),
    "reset on no stream": (frame(frames.RST_STREAM, 0, 0, b"1234"), frames.PROTOCOL_ERROR),
    "reset on an idle stream": (frame(frames.RST_STREAM, 0, 1, b"1234"), frames.PROTOCOL_ERROR),
    "short reset": (DONE + frame(frames.RST_STREAM, 0, 1, b"123"), frames.FRAME_SIZE_ERROR),
    "settings on a stream": (frame(frames.SETTINGS, 0, 1), frames.PROTOCOL_ERROR),
    "settings of 5 bytes": (frame(frames.SETTINGS, 0, 0, b"12345"), frames.FRAME_SIZE_ERROR),
    "acknowledged settings": (frame(frames.SETTINGS, frames.ACK, 0, b"123456"), frames.FRAME_SIZE_ERROR),
    "push 2": (frames.settings({frames.ENABLE_PUSH: 2}), frames.PROTOCOL_ERROR),
    "window setting": (frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), frames.FLOW_CONTROL_ERROR),
    "small frames": (frames.settings({frames.MAX_FRAME_SIZE: 16_383}), frames.PROTOCOL_ERROR),
    "large frames": (frames.settings({frames.MAX_FRAME_SIZE: 1 << 24}), frames.PROTOCOL_ERROR),
    "push": (frame(frames.PUSH_PROMISE, 0, 1, b"1234"), frames.PROTOCOL_ERROR),
    "ping on a stream": (frame(frames.PING, 0, 1, b"12345678"), frames.PROTOCOL_ERROR),
    "ping of 7 bytes": (frame(frames.PING, 0, 0, b"1234567"), frames.FRAME_SIZE_ERROR),
    "goaway on a stream": (frame(frames.GOAWAY, 0, 1, b"12345678"), frames.PROTOCOL_ERROR),
    "window by nothing": (frames.window_update(0, 0), frames.FLOW_CONTROL_ERROR),
    "window too large": (2 * frames.window_update(0, frames.LARGEST_WINDOW), frames.FLOW_CONTROL_ERROR),
    "window of an idle stream": (frames.window_update(1, 1), frames.PROTOCOL_ERROR),
    "short window": (frame(frames.WINDOW_UPDATE, 0, 0, b"123"), frames.FRAME_SIZE_ERROR),
    "continuation alone": (frame(frames.CONTINUATION, 0, 1, b""), frames.PROTOCOL_ERROR),
    "continuation of another": (
        frame(H, 0, 1, HEAD) + frame(frames.CONTINUATION, frames.END_HEADERS, 3),
        frames.PROTOCOL_ERROR,
    ),
    "interrupted headers": (frame(H, 0, 1, HEAD) + frame(frames.PING, 0, 0, b"12345678"), frames.PROTOCOL_ERROR),
    "broken compression": (frame(H, WHOLE, 1, b"\xbe"), frames.COMPRESSION_ERROR),
    "many settings windows": (
        OPEN + frames.window_update(1, frames.LARGEST_WINDOW - 65_535) + frames.settings({4: 65_536}),
        frames.FLOW_CONTROL_ERROR,
    ),
}

STREAM_ERRORS = {
    "no path": request(*GET[:2]),
    "empty path": request(*GET[:2], (":path", "")),
    "no scheme": request(GET[0], GET[2]),
    "no method": request(*GET[1:]),
    "two methods": request(GET[0], *GET),
    "unknown pseudo-header": request(*GET, (":x", "1")),
    "status in a request": request(*GET, (":status", "200")),
    "late pseudo-header": request(*GET[:2], ("a", "1"), GET[2]),
    "upper case": request(*GET, ("Accept", "1")),
    "no name": request(*GET, ("", "1")),
    "space in a name": request(*GET, ("a b", "1")),
    "line in a value": request(*GET, ("a", "1\r\nb: 2")),
    "line in a path": request(*GET[:2], (":path", "/a\nb")),
    "connection": request(*GET, ("connection", "close")),
    "transfer-encoding": request(*GET, ("transfer-encoding", "chunked")),
    "te": request(*GET, ("te", "gzip")),
    "two lengths": request(*GET, ("content-length", "1"), ("content-length", "2")),
    "no number": request(*GET, ("content-length", "-1")),
    "length without data": request(*GET, ("content-length", "1")),
    "too little data": frame(H, frames.END_HEADERS, 1, BODY_OF_4) + frame(D, frames.END_STREAM, 1, b"abc"),
    "too much data": frame(H, frames.END_HEADERS, 1, BODY_OF_4) + frame(D, 0, 1, b"abcde"),
    "trailers that go on": OPEN + frame(H, frames.END_HEADERS, 1, block(("a", "1"))),
    "pseudo-header in trailers": OPEN + frame(H, WHOLE, 1, block((":path", "/"))),
    "window by nothing": OPEN + frames.window_update(1, 0),
    "window too large": OPEN + frames.window_update(1, frames.LARGEST_WINDOW),
    "data after the end": frame(H, frames.END_HEADERS, 1, POST) + 2 * frame(D, frames.END_STREAM, 1, b"x"),
    "more than the window": OPEN + 5 * frame(D, 0, 1, 16_384 * b"x"),
    "short priority": frame(frames.PRIORITY, 0, 1, b"123"),
}


async def wait(stream):
    while not stream.is_closed:
        await stream.read()


@pytest.mark.parametrize(("data", "code"), CONNECTION_ERRORS.values(), ids=CONNECTION_ERRORS)
async def test_the_connection_ends(data, code):
    client = RawClient(wait)
    client.send(data)
    assert await client.error() == code
    assert client.transport.is_closed


@pytest.mark.parametrize("data", STREAM_ERRORS.values(), ids=STREAM_ERRORS)
async def test_the_stream_ends_and_the_connection_goes_on(data):
    async def handle(stream):
        if stream.number == 3:
            stream.respond(200, [], b"")
        else:
            await wait(stream)

    client = RawClient(handle)
    client.send(data)
    kinds = [kind for kind, _, stream, _ in await client.frames() if stream == 1]
    assert kinds == [frames.RST_STREAM]
    client.send(frame(H, WHOLE, 3, HEAD))
    assert [(kind, stream) for kind, _, stream, _ in await client.frames() if stream] == [(H, 3)]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", frames.PREFACE + DONE])
async def test_a_connection_must_begin_as_http2(data):
    client = RawClient(wait, has_begun=False)
    client.send(data)
    assert await client.error() == frames.PROTOCOL_ERROR


async def test_a_frame_may_arrive_byte_by_byte():
    targets = []

    async def handle(stream):
        targets.append((stream.head.target, stream.arrived_body()))
        stream.respond(200, [], b"")

    client = RawClient(handle, has_begun=False)
    padded = frame(H, WHOLE | frames.PADDED | frames.HAS_PRIORITY, 1, b"\x02" + struct.pack(">LB", 0, 1) + HEAD + b"00")
    split = frame(H, frames.END_STREAM, 3, HEAD[:3]) + frame(frames.CONTINUATION, frames.END_HEADERS, 3, HEAD[3:])
    data = frame(D, frames.END_STREAM | frames.PADDED, 5, b"\x01ab0")
    trailers = frame(H, WHOLE, 7, block(("a", "1")))
    unknown = frame(0xEE, 0, 1, b"anything") + frame(frames.PRIORITY, 0, 9, b"12345")
    open5, open7 = (frame(H, frames.END_HEADERS, number, POST) for number in (5, 7))
    everything = frames.PREFACE + frames.settings({}) + padded + split + unknown + open5 + data + open7 + trailers
    for byte in everything:
        client.send(bytes([byte]))
    await client.frames()
    assert targets == [("/a", b""), ("/a", b""), ("/a", b"ab"), ("/a", b"")]


async def test_a_retired_connection_starts_no_request_and_says_which_is_the_last():
    numbers = []

    async def handle(stream):
        numbers.append(stream.number)
        stream.respond(200, [], b"")

    client = RawClient(handle)
    client.send(DONE)
    await client.frames()
    client.connection.retire()
    client.send(
        frame(H, frames.END_HEADERS, 3, POST) + frame(D, frames.END_STREAM, 3, b"x") + frames.window_update(3, 1)
    )
    assert [(kind, payload[:4]) for kind, _, _, payload in await client.frames()] == [(frames.GOAWAY, b"\0\0\0\1")]
    assert numbers == [1]
    assert not client.transport.is_closed


any_frames = st.lists(
    st.builds(
        frame,
        st.integers(0, 10),
        st.integers(0, 255) | st.sampled_from([0, WHOLE, frames.END_HEADERS]),
        st.integers(0, 9),
        st.binary(max_size=40) | st.sampled_from([HEAD, POST, BODY_OF_4, frames.window_update(0, 9)[9:]]),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(any_frames, st.integers(1, 50))
def test_any_frames_are_answered_or_refused(sent, step):
    """Handlers end, no error leaves the connection, and whatever it writes are frames."""

    async def handle(stream):
        stream.start(200, [("a", "b")])
        while chunk := await stream.read():
            stream.write(chunk)
        stream.end()
        await stream.drain()

    async def run():
        client = RawClient(handle)
        data = b"".join(sent)
        for begin in range(0, len(data), step):
            client.send(data[begin : begin + step])
            await asyncio.sleep(0)
        kinds = {kind for kind, _, _, _ in await client.frames()}
        assert kinds <= set(range(10))
        assert not client.transport.is_closed or frames.GOAWAY in kinds
        client.connection.connection_lost(None)
        async with asyncio.timeout(5):
            await client.connection.wait_idle()

    asyncio.run(run())
