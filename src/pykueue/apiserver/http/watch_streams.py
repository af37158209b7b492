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
from aiohttp import web

from pykueue.api.scheme import Object
from pykueue.apiserver.calls import ResourceTarget, Verbs, WatchFrame
from pykueue.apiserver.http import options, resources
from pykueue.apiserver.http.messages import HttpRequest

HIGH_WATER_BYTES = 1024 * 1024
LONGEST_BACKLOG = 100_000
STALL_SECONDS = 30.0
_NO_COLUMNS: list[Any] = []

Encode = Callable[[WatchFrame], bytes]


class WatchSink:
    """Writes frames to one connection. `finished` is set when the watch has ended.

    The frames of one turn of the event loop, such as those of one commit, are one write: it is one
    encryption and one system call.
    """

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Any], encode: Encode) -> None:
        self.finished = asyncio.Event()
        self._transport = transport
        self._drain = drain
        self._encode = encode
        self._lines: list[bytes] = []
        """Lines to be written at the end of this turn."""
        self._size = 0
        self._backlog: deque[WatchFrame] = deque()
        self._backlog_task: asyncio.Task[None] | None = None
        self._is_closing = False

    def send(self, frame: WatchFrame) -> None:
        if self._transport.is_closing():
            self.finished.set()
        elif self._backlog or self._transport.get_write_buffer_size() + self._size > HIGH_WATER_BYTES:
            self._backlog.append(frame)
            if len(self._backlog) > LONGEST_BACKLOG:
                self.drop()
            elif self._backlog_task is None:
                self._backlog_task = asyncio.get_running_loop().create_task(self._write_backlog())
        else:
            self._add(frame)

    def close(self) -> None:
        self._is_closing = True
        if self._backlog_task is None:
            self._flush()
            self.finished.set()

    def drop(self) -> None:
        """Close the connection: the client cannot keep up."""
        self._lines.clear()
        self._backlog.clear()
        self._transport.abort()
        self.finished.set()

    def _add(self, frame: WatchFrame) -> None:
        line = self._encode(frame)
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._lines and not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (self._size, b"".join(self._lines)))
        self._lines.clear()
        self._size = 0

    async def _write_backlog(self) -> None:
        while self._backlog and not self._transport.is_closing():
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await self._drain()
            except (TimeoutError, ConnectionError):
                self.drop()
                return
            while self._backlog and self._transport.get_write_buffer_size() + self._size <= HIGH_WATER_BYTES:
                self._add(self._backlog.popleft())
            self._flush()
        self._backlog_task = None
        if self._is_closing or self._transport.is_closing():
            self.finished.set()


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
    http: web.BaseRequest,
    *,
    target: ResourceTarget,
    verbs: Verbs,
    on_start: Callable[[], None],
    on_disconnect: Callable[[Callable[[], None]], None],
) -> web.StreamResponse:
    """Answer a watch. `on_disconnect` registers a callback for the disconnect of the client.

    `on_start` is called when the watch has its first events.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    transport = http.transport
    if transport is None:
        return response
    encode = encoder(request, target)
    call = options.watch_call(request.query)
    start = _StartBuffer()
    subscription = await verbs.watch(target, call, start)
    on_start()
    try:
        writer = await response.prepare(http)
        assert writer is not None
        sink = WatchSink(transport, writer.drain, encode)
        on_disconnect(sink.finished.set)
        start.forward_to(sink)
        await sink.finished.wait()
    finally:
        subscription.cancel()
    if not transport.is_closing():
        await response.write_eof()
    return response


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
        for frame in self._frames:
            sink.send(frame)
        self._frames.clear()
        self._sink = sink
        if self._is_closed:
            sink.close()
