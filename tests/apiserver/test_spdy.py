"""SPDY frames as kubectl sends them, cut anywhere, and anything else."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.apiserver.http import spdy

HEADERS = {"streamtype": "data", "port": "8265", "requestid": "0"}


class Client:
    def __init__(self):
        self._packed = zlib.compressobj(zdict=spdy.DICTIONARY)

    def opens(self, stream, headers, *, is_last=False):
        texts = [text.encode() for pair in headers.items() for text in pair]
        plain = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
        block = self._packed.compress(plain) + self._packed.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIH", stream, 0, 0) + block
        return struct.pack(">HHI", 0x8003, 1, is_last << 24 | len(body)) + body


def frames(data, size=1 << 20):
    reader = spdy.SpdyDecoder()
    return [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_streams_and_their_data_are_read_however_they_are_cut(size):
    client = Client()
    sent = client.opens(1, HEADERS, is_last=True) + client.opens(3, HEADERS)
    sent += b"".join(spdy.SpdyEncoder.data(3, b"hello", is_last=True))
    assert frames(sent, size) == [
        spdy.Opened(stream=1, headers=HEADERS, is_last=True),
        spdy.Opened(stream=3, headers=HEADERS, is_last=False),
        spdy.Data(stream=3, data=b"hello", is_last=True),
    ]


def test_pings_come_back():
    writer = spdy.SpdyEncoder()
    assert frames(writer.pong(7)) == [spdy.Ping(number=7)]


def test_large_data_go_in_pieces_of_which_the_last_ends_the_stream():
    pieces = frames(b"".join(spdy.SpdyEncoder.data(1, b"x" * 100_000, is_last=True)))
    assert b"".join(frame.data for frame in pieces) == b"x" * 100_000
    assert [frame.is_last for frame in pieces] == [False] * (len(pieces) - 1) + [True]


@given(st.binary(max_size=200))
def test_anything_else_is_refused_or_ignored(data):
    try:
        frames(data)
    except spdy.FrameError:
        return


@pytest.mark.parametrize("headers", [{"a": "x" * 20_000}, {str(number): "" for number in range(100)}])
def test_headers_are_few_and_short(headers):
    with pytest.raises(spdy.FrameError, match="headers"):
        frames(Client().opens(1, headers))
