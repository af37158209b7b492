"""A header block that arrives in several frames: HEADERS, then CONTINUATION until it ends."""

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.frames import Http2Error

LARGEST_BLOCK_BYTES = 64 * 1024


class HeaderBlock:
    def __init__(self) -> None:
        self.stream = 0
        """The stream of a block whose end has not arrived, 0 if there is none."""
        self.flags = 0
        self._parts: list[bytes] = []
        self._size = 0

    def begin(self, stream: int, flags: int, part: bytes) -> None:
        self.stream, self.flags = stream, flags
        self.add(part)

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > LARGEST_BLOCK_BYTES:
            raise Http2Error(frames.ENHANCE_YOUR_CALM, f"the headers are larger than {LARGEST_BLOCK_BYTES} bytes")

    def end(self) -> bytes:
        block = b"".join(self._parts)
        self._parts.clear()
        self._size = self.stream = 0
        return block
