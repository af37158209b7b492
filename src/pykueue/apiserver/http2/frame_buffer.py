"""Splits what arrives on a connection into frames."""

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.frames import Http2Error

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream, payload."""


class FrameBuffer:
    """What has arrived and is not read yet. The connection preface comes before the frames."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._begin = 0
        self._has_preface = False

    def feed(self, data: bytes) -> None:
        del self._data[: self._begin]
        self._begin = 0
        self._data += data

    def take(self) -> Frame | None:
        """The next frame, None if it is not complete; Http2Error if it is too large."""
        if not self._has_preface and not self._take_preface():
            return None
        data, begin = self._data, self._begin + frames.HEAD_BYTES
        if len(data) < begin:
            return None
        size, kind, flags, number = frames.read_head(data, self._begin)
        if size > frames.DEFAULT_FRAME_BYTES:
            raise Http2Error(frames.FRAME_SIZE_ERROR, "the frame is larger than 16384 bytes")
        if len(data) - begin < size:
            return None
        self._begin = begin + size
        return kind, flags, number, bytes(data[begin : self._begin])

    def _take_preface(self) -> bool:
        size = len(frames.PREFACE)
        if not frames.PREFACE.startswith(self._data[:size]):
            raise Http2Error(frames.PROTOCOL_ERROR, "the connection preface is missing")
        self._has_preface = len(self._data) >= size
        if self._has_preface:
            self._begin = size
        return self._has_preface
