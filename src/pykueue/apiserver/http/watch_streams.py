"""Watches over HTTP: this is where a watch event leaves the server.

`watches.WatchHub` hands each encoded event to a `WatchSink`, which writes it to the connection. A
slow client gets a backlog of frames that all watchers share. A client that stops reading or falls
too far behind is disconnected, and its informer lists again. No client delays another.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from multidict import CIMultiDict

from pykueue.api.scheme import Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import FirstFrames, ResourceTarget, Sink, Verbs, WatchFrame
from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http import encoding, options
from pykueue.apiserver.http.exchanges import ByteStream, Exchange
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.apiserver.http.priority_levels import Seat, queue_of

log = logging.getLogger(__name__)

HIGH_WATER_BYTES = 128 * 1024
LONGEST_BACKLOG = 100_000
LARGEST_BACKLOG_BYTES = 32 * 1024 * 1024
"""More than the history of the store: a client that is further behind has to list again anyway."""
FLUSHES_PER_TURN = 16
PIECE_BYTES = 64 * 1024
"""Of a backlog. A larger line is written in pieces: a transport copies what it accepts."""
FRAME_WEIGHT, DECODED_WEIGHT = 128, 2048
"""What a frame counts for in a piece besides its bytes: sent as it is stored, or decoded."""
STALL_SECONDS = 30.0
_NO_COLUMNS: list[Any] = []

Encode = Callable[[WatchFrame], bytes]


class FlushQueue:
    """Writes what watches have to send, a few of them in each turn of the event loop.

    One change may go to hundreds of watches, and each write is an encryption and a system call.
    Requests have their turns in between. Backlogs are longer: one is written in each turn, users
    in turn.
    """

    def __init__(self) -> None:
        self.backlogs = FairQueue(1, None, per_turn=1)
        self._sinks: deque[WatchSink] = deque()

    def add(self, sink: "WatchSink") -> None:
        if not self._sinks:
            asyncio.get_running_loop().call_soon(self._flush)
        self._sinks.append(sink)

    def _flush(self) -> None:
        try:
            for _ in range(min(FLUSHES_PER_TURN, len(self._sinks))):
                self._sinks.popleft().flush()
        finally:  # the others are written even if one connection fails
            if self._sinks:
                asyncio.get_running_loop().call_soon(self._flush)


class WatchSink(Sink):
    """Writes frames to one connection. `finished` is set when the watch has ended.

    The frames of one turn of the event loop, such as those of one commit, are one write: it is one
    encryption and one system call. The first frames, and those that a client is too slow for, are
    a backlog, which is encoded and written as the client reads.
    """

    def __init__(
        self,
        stream: ByteStream,
        encode: Encode,
        queue: FlushQueue | None = None,
        *,
        user: str = "",
        is_decoded: bool = False,
    ) -> None:
        """`is_decoded`: objects are decoded to be selected or sent, so a turn takes few."""
        self.finished = asyncio.Event()
        self._stream = stream
        self._encode = encode
        self._is_decoded = is_decoded
        self._user = user
        self._queue = queue or FlushQueue()
        self._lines: list[bytes] = []
        """Lines to be written at the end of this turn."""
        self._size = 0
        self._first: FirstFrames | None = None
        """First frames that are not written yet. They come before the backlog."""
        self._backlog: deque[WatchFrame] = deque()
        self._backlog_size = 0
        self._backlog_task: asyncio.Task[None] | None = None
        self._is_closing = False

    def send_first(self, frames: FirstFrames) -> None:
        self._first = frames
        self._start_backlog()

    def send(self, frame: WatchFrame) -> None:
        if self._stream.is_closing():
            self.finished.set()
        elif self._backlog_task is not None or len(frame.data) > PIECE_BYTES or self._is_full():
            self._backlog.append(frame)
            self._backlog_size += len(frame.data)
            if len(self._backlog) > LONGEST_BACKLOG or self._backlog_size > LARGEST_BACKLOG_BYTES:
                self.drop()
            elif self._backlog_task is None:
                self._start_backlog()
        else:
            line = self._encode(frame)
            self._lines.append(line)
            self._size += len(line)
            if len(self._lines) == 1:
                self._queue.add(self)

    def close(self) -> None:
        self._is_closing = True
        if self._backlog_task is None:
            self.flush()
            self.finished.set()

    def drop(self) -> None:
        """Close the connection: the client cannot keep up."""
        self._lines.clear()
        self._backlog.clear()
        self._first = None
        self._stream.abort()
        self.finished.set()

    def flush(self) -> None:
        if self._lines and not self._stream.is_closing():
            self._stream.write(b"".join(self._lines))
        self._lines.clear()
        self._size = 0

    def _is_full(self) -> bool:
        return self._stream.get_write_buffer_size() + self._size > HIGH_WATER_BYTES

    def _start_backlog(self) -> None:
        self._backlog_task = asyncio.get_running_loop().create_task(self._write_backlog())

    async def _write_backlog(self) -> None:
        """Write a piece whenever the client has read the last one and the user has a turn."""
        pieces = self._pieces()
        is_last = False
        try:
            while not is_last and not self._stream.is_closing():
                async with asyncio.timeout(STALL_SECONDS):
                    await self._stream.drain()
                async with Seat(self._queue.backlogs, self._user):
                    self.flush()
                    piece, is_last = next(pieces)
                    if piece and not self._stream.is_closing():
                        self._stream.write(piece)
        except (TimeoutError, ConnectionError):
            self.drop()
            return
        except Exception:
            log.exception("the objects of a watch cannot be shown")
            self.drop()
            return
        self._backlog_task = None
        if self._is_closing or self._stream.is_closing():
            self.finished.set()

    def _pieces(self) -> Iterator[tuple[bytes, bool]]:
        """The backlog in pieces, each the work of one turn, and whether it is the last one."""
        lines: list[bytes] = []
        weight = 0
        while self._first is not None or self._backlog:
            frame = self._next()
            size = frame if isinstance(frame, int) else len(frame.data)
            line = b"" if isinstance(frame, int) else self._encode(frame)
            lines.append(line)
            weight += max(len(line) + FRAME_WEIGHT, size + DECODED_WEIGHT if self._is_decoded else 0)
            if weight >= PIECE_BYTES:
                data = b"".join(lines)
                lines, weight = [], 0
                for start in range(0, max(len(data), 1), PIECE_BYTES):
                    yield data[start : start + PIECE_BYTES], False
        yield b"".join(lines), True

    def _next(self) -> WatchFrame | int:
        """The next frame of the backlog, or the size of an object that is not selected."""
        if self._first is not None:
            for frame in self._first:
                return frame
            self._first = None
        if not self._backlog:
            return 0
        last = self._backlog.popleft()
        self._backlog_size -= len(last.data)
        return last


def encoder(request: HttpRequest, target: ResourceTarget) -> Encode:
    """How frames are encoded for this client: unchanged, or as a Table or partial metadata."""
    form = request.form
    if not form.transform:
        return lambda frame: frame.line
    include = request.query.get("includeObject", "")
    has_columns = False

    def encode(frame: WatchFrame) -> bytes:
        nonlocal has_columns
        if frame.type == "ERROR":
            return frame.line
        is_table = form.transform == "Table"
        is_bookmark = frame.type == "BOOKMARK" and is_table  # there is no object to print
        is_first = is_table and not has_columns and not is_bookmark
        has_columns = has_columns or is_first

        def line(obj: Object) -> bytes:
            if is_bookmark:
                event_object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": _version(obj), "rows": []}
            else:
                event_object = encoding.transformed(obj, target.kind, form, include)
                if is_table and not is_first:
                    event_object["columnDefinitions"] = _NO_COLUMNS
            return msgspec.json.encode({"type": frame.type, "object": event_object}) + b"\n"

        return frame.in_form((form.transform, form.transform_version, include, is_first), line)

    return encode


def _version(bookmark: Object) -> Object:
    """The metadata of a bookmark: its resourceVersion, and whether initial events have ended."""
    metadata = bookmark["metadata"]
    return {name: metadata[name] for name in ("resourceVersion", "annotations") if name in metadata}


async def serve(
    request: HttpRequest,
    exchange: Exchange,
    *,
    target: ResourceTarget,
    verbs: Verbs,
    on_start: Callable[[], None],
    queue: FlushQueue,
) -> None:
    """Answer a watch. `on_start` is called when it has its first events."""
    encode = encoder(request, target)
    call = options.watch_call(request.query)
    is_decoded = bool(call.field_selector or request.form.transform) or not versions.is_storage_version(target.kind)
    start = _StartBuffer()
    subscription = await verbs.watch(target, call, start)
    on_start()
    try:
        headers = CIMultiDict({"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        stream = await exchange.start(200, headers)
        sink = WatchSink(stream, encode, queue, user=queue_of(request.user), is_decoded=is_decoded)
        exchange.on_disconnect(sink.finished.set)
        start.forward_to(sink)
        await sink.finished.wait()
    finally:
        subscription.cancel()
    if not exchange.is_closed():
        await exchange.end()


class _StartBuffer(Sink):
    """Buffers frames until the headers are sent, so that a failed watch can answer 410."""

    def __init__(self) -> None:
        self._first: FirstFrames = iter(())
        self._frames: list[WatchFrame] = []
        self._sink: WatchSink | None = None
        self._is_closed = False

    def send_first(self, frames: FirstFrames) -> None:
        self._first = frames

    def send(self, frame: WatchFrame) -> None:
        if self._sink is None:
            self._frames.append(frame)
        else:
            self._sink.send(frame)

    def close(self) -> None:
        self._is_closed = True
        if self._sink is not None:
            self._sink.close()

    def forward_to(self, sink: WatchSink) -> None:
        sink.send_first(self._first)
        for frame in self._frames:
            sink.send(frame)
        self._frames.clear()
        self._sink = sink
        if self._is_closed:
            sink.close()
