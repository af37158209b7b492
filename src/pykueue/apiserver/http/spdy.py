"""The frames of SPDY/3.1 that `kubectl port-forward` sends through a WebSocket. No I/O.

Header blocks are compressed with the standard dictionary and the earlier headers of the
connection.
"""

import struct
import zlib
from collections.abc import Iterator

import msgspec

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _TEXT.encode()
)
"""The dictionary of the standard: frequent names, each after its length, then frequent values."""

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_FIN = 1
_HEAD_BYTES = 8
_LARGEST_FRAME_BYTES = 1 << 20
_LARGEST_HEADERS_BYTES = 16 * 1024
_MOST_HEADERS = 64
"""Clients send three. A few compressed bytes may become a thousand times as many."""
_PIECE_BYTES = 32 * 1024


class FrameError(Exception):
    """The bytes are no valid SPDY, or a frame is too large."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    stream: int
    headers: dict[str, str]
    is_last: bool
    """The client sends no data on this stream."""


class Data(msgspec.Struct, frozen=True, kw_only=True):
    stream: int
    data: bytes
    is_last: bool


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    stream: int


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    number: int


SpdyFrame = Opened | Data | Reset | Ping


class SpdyDecoder:
    """Decodes bytes to frames. A frame may arrive in several pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
        """Yield the frames that are complete; take all of them before the next call."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _HEAD_BYTES:
            first, second = struct.unpack_from(">II", self._buffer, start)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > _LARGEST_FRAME_BYTES:
                raise FrameError(f"a frame of {length} bytes")
            end = start + _HEAD_BYTES + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[start + _HEAD_BYTES : end])
            start = end
            if first >> 31:
                yield from self._control(first & 0xFFFF, flags, body)
            else:
                yield Data(stream=first, data=body, is_last=bool(flags & _FIN))
        del self._buffer[:start]

    def _control(self, kind: int, flags: int, body: bytes) -> Iterator[SpdyFrame]:
        """Frames about the connection itself are ignored."""
        try:
            if kind == _SYN_STREAM:
                stream = struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF
                yield Opened(stream=stream, headers=self._headers(body[10:]), is_last=bool(flags & _FIN))
            elif kind == _RST_STREAM:
                yield Reset(stream=struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF)
            elif kind == _PING:
                yield Ping(number=struct.unpack(">I", body[:4])[0])
        except (struct.error, zlib.error) as error:
            raise FrameError(str(error)) from None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._decompressor.decompress(block, _LARGEST_HEADERS_BYTES)
        if self._decompressor.unconsumed_tail:
            raise FrameError("headers are too large")
        (count,) = struct.unpack_from(">I", plain)
        if count > _MOST_HEADERS:
            raise FrameError(f"{count} headers")
        offset, texts = 4, []
        for _ in range(count * 2):
            (length,) = struct.unpack_from(">I", plain, offset)
            texts.append(plain[offset + 4 : offset + 4 + length].decode(errors="replace"))
            offset += 4 + length
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


class SpdyEncoder:
    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def accepted(self, stream: int) -> bytes:
        """The SYN_REPLY to `Opened`, without headers."""
        block = self._compressor.compress(struct.pack(">I", 0)) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    def pong(self, number: int) -> bytes:
        return _control(_PING, struct.pack(">I", number))

    @staticmethod
    def data(stream: int, data: bytes, *, is_last: bool = False) -> Iterator[bytes]:
        pieces = [data[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES)] or [b""]
        for number, piece in enumerate(pieces):
            flags = _FIN if is_last and number == len(pieces) - 1 else 0
            yield struct.pack(">II", stream, flags << 24 | len(piece)) + piece


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | _VERSION, kind, len(body)) + body
