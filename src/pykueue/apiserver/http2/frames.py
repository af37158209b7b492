"""Frames of HTTP/2 (RFC 9113, section 6): their types and flags, and how they are written."""

import struct

DATA = 0x0
HEADERS = 0x1
PRIORITY = 0x2
RST_STREAM = 0x3
SETTINGS = 0x4
PUSH_PROMISE = 0x5
PING = 0x6
GOAWAY = 0x7
WINDOW_UPDATE = 0x8
CONTINUATION = 0x9

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

NO_ERROR = 0x0
PROTOCOL_ERROR = 0x1
INTERNAL_ERROR = 0x2
FLOW_CONTROL_ERROR = 0x3
STREAM_CLOSED = 0x5
FRAME_SIZE_ERROR = 0x6
REFUSED_STREAM = 0x7
CANCEL = 0x8
COMPRESSION_ERROR = 0x9
ENHANCE_YOUR_CALM = 0xB

HEADER_TABLE_SIZE = 0x1
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
PRIORITY_BYTES = 5
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1
DEFAULT_FRAME_BYTES = 16_384
LARGEST_FRAME_BYTES = (1 << 24) - 1

_HEAD = struct.Struct(">BHBBL")
_SETTING = struct.Struct(">HL")
_NUMBER = struct.Struct(">L")
_TWO_NUMBERS = struct.Struct(">LL")


class Http2Error(Exception):
    """The client breaks the protocol, so that the connection ends."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class StreamError(Exception):
    """The client breaks the protocol on one stream, which ends."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream)


def read_head(data: bytearray, offset: int) -> tuple[int, int, int, int]:
    """The size, type, flags and stream of the frame at this offset."""
    high, low, kind, flags, stream = _HEAD.unpack_from(data, offset)
    return high << 16 | low, kind, flags, stream & 0x7FFF_FFFF


def headers(block: bytes, stream: int, flags: int, most_bytes: int) -> bytes:
    """A header block, in several frames if it is larger than one may be."""
    if len(block) <= most_bytes:
        return head(len(block), HEADERS, flags | END_HEADERS, stream) + block
    parts = [block[begin : begin + most_bytes] for begin in range(0, len(block), most_bytes)]
    kinds = [HEADERS, *[CONTINUATION] * (len(parts) - 1)]
    all_flags = [flags, *[0] * (len(parts) - 1)]
    all_flags[-1] |= END_HEADERS
    return b"".join(
        head(len(part), kind, flag, stream) + part for part, kind, flag in zip(parts, kinds, all_flags, strict=True)
    )


def reset(stream: int, code: int) -> bytes:
    return head(4, RST_STREAM, 0, stream) + _NUMBER.pack(code)


def window_update(stream: int, increment: int) -> bytes:
    return head(4, WINDOW_UPDATE, 0, stream) + _NUMBER.pack(increment)


def goaway(last_stream: int, code: int, message: str = "") -> bytes:
    text = message.encode()
    return head(8 + len(text), GOAWAY, 0, 0) + _TWO_NUMBERS.pack(last_stream, code) + text


def settings(values: dict[int, int]) -> bytes:
    payload = b"".join(_SETTING.pack(*item) for item in values.items())
    return head(len(payload), SETTINGS, 0, 0) + payload


def read_settings(payload: bytes) -> dict[int, int]:
    """The last value of each setting; Http2Error if one is out of range."""
    if len(payload) % _SETTING.size:
        raise Http2Error(FRAME_SIZE_ERROR, "the length of SETTINGS is no multiple of 6")
    values = dict(_SETTING.iter_unpack(payload))
    if values.get(ENABLE_PUSH, 0) > 1:
        raise Http2Error(PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
    if not DEFAULT_FRAME_BYTES <= values.get(MAX_FRAME_SIZE, DEFAULT_FRAME_BYTES) <= LARGEST_FRAME_BYTES:
        raise Http2Error(PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
    if values.get(INITIAL_WINDOW_SIZE, 0) > LARGEST_WINDOW:
        raise Http2Error(FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is out of range")
    return values


def read_number(payload: bytes, name: str) -> int:
    if len(payload) != _NUMBER.size:
        raise Http2Error(FRAME_SIZE_ERROR, f"the length of {name} is not 4")
    return int(_NUMBER.unpack(payload)[0])


def unpadded(payload: bytes, flags: int) -> bytes:
    """The content of DATA or HEADERS without its padding."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(PROTOCOL_ERROR, "the padding is longer than its frame")
    return payload[1 : len(payload) - payload[0]]


def header_fields(payload: bytes, flags: int) -> bytes:
    """The content of HEADERS without its padding and its priority."""
    block = unpadded(payload, flags)
    if not flags & HAS_PRIORITY:
        return block
    if len(block) < PRIORITY_BYTES:
        raise Http2Error(FRAME_SIZE_ERROR, "HEADERS without its priority")
    return block[PRIORITY_BYTES:]
