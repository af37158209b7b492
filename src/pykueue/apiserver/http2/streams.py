"""A stream of a connection: one request and its response."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.hpack import Field
from pykueue.apiserver.http2.requests import RequestHead

LOW_WATER_BYTES = 64 * 1024
"""`drain` waits until less than this waits to be sent."""
_UNREAD_WINDOW = frames.DEFAULT_WINDOW
"""What a client may send of a body before the server reads it. Some clients cannot do with less
than the default."""

_LEAST_DATA_BYTES = 4 * 1024
"""A window that is almost closed is left alone. A client that opens its windows by what it has
received would otherwise get all its data in pieces as small as the smallest."""


class Carrier(Protocol):
    """What a stream needs of its connection."""

    def send_headers(self, stream: "Stream", status: int, fields: list[Field]) -> None: ...

    def send_data(self, stream: "Stream") -> None:
        """Send what the windows allow, now and whenever they open."""
        ...

    def send_window_update(self, stream: "Stream", increment: int) -> None: ...

    def send_reset(self, stream: "Stream", code: int) -> None: ...


class Stream:
    """The server's side of one request. Methods that write do nothing once it is closed."""

    __slots__ = (
        "_chunks",
        "_drained",
        "_reader",
        "_receive_window",
        "_received",
        "connection",
        "has_body",
        "has_started",
        "head",
        "is_closed",
        "is_complete",
        "is_ended",
        "is_queued",
        "number",
        "on_close",
        "pending",
        "pending_bytes",
        "task",
        "window",
    )

    def __init__(self, connection: Carrier, number: int, head: RequestHead, *, window: int, has_body: bool) -> None:
        self.connection = connection
        self.number = number
        self.head = head
        self.has_body = has_body
        self.on_close: Callable[[], None] | None = None
        """Called once when either side has reset the stream, or its connection is lost."""
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False
        self.has_started = False
        """Whether the headers of the response are sent."""
        self._chunks: list[bytes] = []
        self._received = 0
        self._receive_window = _UNREAD_WINDOW
        self.is_complete = not has_body
        """Whether the whole request has arrived."""
        self._reader: asyncio.Future[None] | None = None
        self.window = window
        """How many bytes the client takes. It may be negative after a change of its settings."""
        self.pending: deque[bytes | memoryview] = deque()
        self.pending_bytes = 0
        self.is_ended = False
        """Whether the handler has written everything."""
        self.is_queued = False
        """Whether the connection will look at it without being told."""
        self._drained: asyncio.Future[None] | None = None

    # What the handler calls

    def arrived_body(self) -> bytes | None:
        """The body, if all of it has arrived."""
        if not self.is_complete:
            return None
        body = b"".join(self._chunks)
        self._chunks.clear()
        return body

    def open_window(self, limit: int) -> None:
        """Let the client send a body of this size at once."""
        if not self.is_complete and not self.is_closed:
            self._receive_window += limit
            self.connection.send_window_update(self, limit)

    async def read(self) -> bytes:
        """What has arrived, b"" at the end; ConnectionResetError if the client gave up."""
        while not self._chunks and not self.is_complete and not self.is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self.is_closed and not self.is_complete:
            raise ConnectionResetError("the client has reset the stream")
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data

    def start(self, status: int, fields: list[Field]) -> None:
        if not self.is_closed:
            self.has_started = True
            self.connection.send_headers(self, status, fields)

    def write(self, data: bytes) -> None:
        if data and not self.is_closed:
            self.pending.append(data)
            self.pending_bytes += len(data)
            self.connection.send_data(self)

    def respond(self, status: int, fields: list[Field], data: bytes) -> None:
        """Send a whole response."""
        if self.is_closed:
            return
        if data:
            self.pending.append(data)
            self.pending_bytes = len(data)
        self.is_ended = True
        self.has_started = True
        self.connection.send_headers(self, status, fields)

    def end(self) -> None:
        if not self.is_ended and not self.is_closed:
            self.is_ended = True
            self.connection.send_data(self)

    def abort(self, code: int = frames.CANCEL) -> None:
        if not self.is_closed:
            self.connection.send_reset(self, code)

    async def drain(self) -> None:
        """Wait for the client to take what is written; ConnectionResetError if it gives up."""
        limit = 0 if self.is_ended else LOW_WATER_BYTES
        while self.pending_bytes > limit and not self.is_closed:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        if self.pending_bytes > limit:
            raise ConnectionResetError("the client has reset the stream")

    # What the connection calls

    def received(self, data: bytes, size: int, *, is_last: bool) -> None:
        """A frame with `data` and padding, `size` bytes together; StreamError if it is refused."""
        self._receive_window -= size
        if self._receive_window < 0:
            raise frames.StreamError(frames.FLOW_CONTROL_ERROR, "more data than the window allows")
        if self.is_complete:
            raise frames.StreamError(frames.STREAM_CLOSED, "data after the end of the request")
        self._received += len(data)
        expected = self.head.content_length
        if expected is not None and (self._received > expected or (is_last and self._received < expected)):
            raise frames.StreamError(frames.PROTOCOL_ERROR, "the content-length is not that of the data")
        if data:
            self._chunks.append(data)
        self.is_complete = is_last
        _wake(self._reader)

    def least_bytes(self, initial_window: int) -> int:
        """How far the windows have to be open for the next frame."""
        return max(1, min(self.pending_bytes, _LEAST_DATA_BYTES, initial_window // 2))

    def take(self, size: int) -> bytes | memoryview:
        """At most `size` bytes that wait to be sent."""
        data = self.pending[0]
        if len(data) <= size:
            self.pending.popleft()
        else:
            rest = memoryview(data)
            data, self.pending[0] = rest[:size], rest[size:]
        self.pending_bytes -= len(data)
        if self._drained is not None and self.pending_bytes <= LOW_WATER_BYTES:
            _wake(self._drained)
        return data

    def close(self, *, is_lost: bool) -> None:
        """The stream has ended; `is_lost` if its response is not complete."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self.is_complete:
            self._chunks.clear()
        self.pending.clear()
        _wake(self._reader)
        _wake(self._drained)
        callback, self.on_close = self.on_close, None
        if is_lost and callback is not None:
            callback()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
