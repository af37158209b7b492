"""Watches over HTTP: this is where a watch event leaves the server.

`watches.WatchHub` hands each encoded event to a `WatchSink`, which writes it to the connection. A
slow client gets a backlog of frames that all watchers share. A client that stops reading or falls
too far behind is disconnected, and its informer lists again. No client delays another.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from multidict import CIMultiDict

from pykueue.api.scheme import Object
from pykueue.apiserver.calls import ResourceTarget, Verbs, WatchFrame
from pykueue.apiserver.http import options, resources
from pykueue.apiserver.http.exchanges import ByteStream, Exchange
from pykueue.apiserver.http.messages import HttpRequest

HIGH_WATER_BYTES = 128 * 1024
LONGEST_BACKLOG = 100_000
LARGEST_BACKLOG_BYTES = 32 * 1024 * 1024
"""More than the history of the store: a client that is further behind has to list again anyway."""
FLUSHES_PER_TURN = 16
PIECE_BYTES = 64 * 1024
"""A larger line is written in pieces: a transport copies what it accepts."""
STALL_SECONDS = 30.0
_NO_COLUMNS: list[Any] = []

Encode = Callable[[WatchFrame], bytes]


class FlushQueue:
    """Writes what watches have to send, a few of them in each turn of the event loop.

    One change may go to hundreds of watches, and each write is an encryption and a system call.
    Requests have their turns in between.
    """

    def __init__(self) -> None:
        self._sinks: deque[WatchSink | _Turn] = deque()

    async def turn(self) -> None:
        """Wait as long as a watch that has something to send now."""
        turn = _Turn()
        self.add(turn)
        await turn.came.wait()

    def add(self, sink: "WatchSink | _Turn") -> None:
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


class _Turn:
    """A place in the queue of somebody who writes a backlog."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def flush(self) -> None:
        self.came.set()


class WatchSink:
    """Writes frames to one connection. `finished` is set when the watch has ended.

    The frames of one turn of the event loop, such as those of one commit, are one write: it is one
    encryption and one system call.
    """

    def __init__(self, stream: ByteStream, encode: Encode, queue: FlushQueue | None = None) -> None:
        self.finished = asyncio.Event()
        self._stream = stream
        self._encode = encode
        self._queue = queue or FlushQueue()
        self._lines: list[bytes] = []
        """Lines to be written at the end of this turn."""
        self._size = 0
        self._backlog: deque[WatchFrame] = deque()
        self._backlog_size = 0
        self._longest_backlog, self._largest_backlog = LONGEST_BACKLOG, LARGEST_BACKLOG_BYTES
        self._backlog_task: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self, frames: list[WatchFrame]) -> None:
        """Send the first frames. However many there are, the client has not fallen behind."""
        self._longest_backlog += len(frames)
        self._largest_backlog += sum(len(frame.data) for frame in frames)
        for frame in frames:
            self.send(frame)

    def send(self, frame: WatchFrame) -> None:
        if self._stream.is_closing():
            self.finished.set()
        elif self._backlog_task is not None or len(frame.data) > PIECE_BYTES or self._is_full():
            self._backlog.append(frame)
            self._backlog_size += len(frame.data)
            if len(self._backlog) > self._longest_backlog or self._backlog_size > self._largest_backlog:
                self.drop()
            elif self._backlog_task is None:
                self._backlog_task = asyncio.get_running_loop().create_task(self._write_backlog())
        else:
            self._add(frame)

    def close(self) -> None:
        self._is_closing = True
        if self._backlog_task is None:
            self.flush()
            self.finished.set()

    def drop(self) -> None:
        """Close the connection: the client cannot keep up."""
        self._lines.clear()
        self._backlog.clear()
        self._stream.abort()
        self.finished.set()

    def _add(self, frame: WatchFrame) -> None:
        line = self._encode(frame)
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) == 1:
            self._queue.add(self)

    def flush(self) -> None:
        if self._lines and not self._stream.is_closing():
            self._stream.write(b"".join(self._lines))
        self._lines.clear()
        self._size = 0

    def _is_full(self) -> bool:
        return self._stream.get_write_buffer_size() + self._size > HIGH_WATER_BYTES

    async def _write_backlog(self) -> None:
        try:
            while self._backlog and not self._stream.is_closing():
                await self._drained()
                await self._queue.turn()
                if self._backlog:  # it may have been dropped meanwhile
                    await self._write_first()  # the stream may call less full than we do
                while self._backlog and not self._is_full():
                    await self._write_first()
                self.flush()
        except (TimeoutError, ConnectionError):
            self.drop()
            return
        self._backlog_task = None
        if self._is_closing or self._stream.is_closing():
            self.finished.set()

    async def _write_first(self) -> None:
        frame = self._backlog.popleft()
        self._backlog_size -= len(frame.data)
        if len(frame.data) > PIECE_BYTES:
            self.flush()
            await self._write_large(self._encode(frame))
        else:
            self._add(frame)

    async def _write_large(self, line: bytes) -> None:
        """Write a line in pieces. Other frames wait in the backlog."""
        for start in range(0, len(line), PIECE_BYTES):
            self._stream.write(line[start : start + PIECE_BYTES])
            await self._drained()

    async def _drained(self) -> None:
        async with asyncio.timeout(STALL_SECONDS):
            await self._stream.drain()


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
        if frame.type == "BOOKMARK" and form.transform == "Table":  # there is no object to print
            obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": _version(frame.decode()), "rows": []}
            return msgspec.json.encode({"type": frame.type, "object": obj}) + b"\n"
        obj = resources.transformed(frame.decode(), target.kind, form, include)
        if has_columns and form.transform == "Table":
            obj["columnDefinitions"] = _NO_COLUMNS
        has_columns = True
        return msgspec.json.encode({"type": frame.type, "object": obj}) + b"\n"

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
    start = _StartBuffer()
    subscription = await verbs.watch(target, call, start)
    on_start()
    try:
        headers = CIMultiDict({"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        sink = WatchSink(await exchange.start(200, headers), encode, queue)
        exchange.on_disconnect(sink.finished.set)
        start.forward_to(sink)
        await sink.finished.wait()
    finally:
        subscription.cancel()
    if not exchange.is_closed():
        await exchange.end()


class _StartBuffer:
    """Buffers frames until the headers are sent, so that a failed watch can answer 410."""

    def __init__(self) -> None:
        self._frames: list[WatchFrame] = []
        self._sink: WatchSink | None = None
        self._is_closed = False

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
        sink.start(self._frames)
        self._frames.clear()
        self._sink = sink
        if self._is_closed:
            sink.close()
