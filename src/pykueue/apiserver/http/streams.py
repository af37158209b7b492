"""Watches over HTTP: each event is framed once by the core and written straight to the connection.

A watcher that reads slowly gets a backlog of shared frames, which costs little; one that stops reading, or falls too
far behind, is dropped and will list again. Nothing here ever waits for a client while holding up another.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from pykueue.apiserver.calls import Frame, Target, Verbs
from pykueue.apiserver.http import options, resources
from pykueue.apiserver.http.exchange import Incoming

HIGH_WATER_BYTES = 1024 * 1024
LONGEST_BACKLOG = 100_000
STALLED_SECONDS = 30.0
_NO_HEADERS: list[Any] = []

Encode = Callable[[Frame], bytes]


class WatchSink:
    """Delivers frames to one connection; `finished` is set when the watch is over for whatever reason."""

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Any], encode: Encode) -> None:
        self.finished = asyncio.Event()
        self._transport = transport
        self._drain = drain
        self._encode = encode
        self._backlog: deque[Frame] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._is_closing = False

    def send(self, frame: Frame) -> None:
        if self._transport.is_closing():
            self.finished.set()
        elif self._backlog or self._transport.get_write_buffer_size() > HIGH_WATER_BYTES:
            self._backlog.append(frame)
            if len(self._backlog) > LONGEST_BACKLOG:
                self.drop()
            elif self._pump is None:
                self._pump = asyncio.get_running_loop().create_task(self._catch_up())
        else:
            self._write(frame)

    def close(self) -> None:
        self._is_closing = True
        if self._pump is None:
            self.finished.set()

    def drop(self) -> None:
        """Cut the connection: the client cannot keep up."""
        self._backlog.clear()
        self._transport.abort()
        self.finished.set()

    def _write(self, frame: Frame) -> None:
        line = self._encode(frame)
        self._transport.write(b"%x\r\n%b\r\n" % (len(line), line))

    async def _catch_up(self) -> None:
        while self._backlog and not self._transport.is_closing():
            try:
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._drain()
            except (TimeoutError, ConnectionError):
                self.drop()
                return
            while self._backlog and self._transport.get_write_buffer_size() <= HIGH_WATER_BYTES:
                self._write(self._backlog.popleft())
        self._pump = None
        if self._is_closing or self._transport.is_closing():
            self.finished.set()


def encoder(request: Incoming, target: Target) -> Encode:
    """How frames become lines for this client: as they are, or as rows of a table."""
    form = request.form
    if not form.transform:
        return lambda frame: frame.line
    include = request.query.get("includeObject", "")
    has_headers = False

    def encode(frame: Frame) -> bytes:
        nonlocal has_headers
        if frame.type == "ERROR":
            return frame.line
        obj = resources.transformed(frame.decode(), target.kind, form, include)
        if has_headers and form.transform == "Table":
            obj["columnDefinitions"] = _NO_HEADERS
        has_headers = True
        return msgspec.json.encode({"type": frame.type, "object": obj}) + b"\n"

    return encode


async def serve(
    request: Incoming,
    http: web.BaseRequest,
    *,
    target: Target,
    verbs: Verbs,
    when_lost: Callable[[Callable[[], None]], None],
) -> web.StreamResponse:
    """Answer a watch. `when_lost` registers what to call when the client goes away."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    transport = http.transport
    if transport is None:
        return response
    encode = encoder(request, target)
    call = options.watching(request.query)
    starting = _Starting()
    subscription = await verbs.watch(target, call, starting)
    try:
        writer = await response.prepare(http)
        assert writer is not None
        sink = WatchSink(transport, writer.drain, encode)
        when_lost(sink.finished.set)
        starting.hand_over(sink)
        await sink.finished.wait()
    finally:
        subscription.cancel()
    if not transport.is_closing():
        await response.write_eof()
    return response


class _Starting:
    """Holds the first frames until the headers are sent: a refused watch must still be able to answer 410."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._sink: WatchSink | None = None
        self._is_closed = False

    def send(self, frame: Frame) -> None:
        if self._sink is None:
            self._frames.append(frame)
        else:
            self._sink.send(frame)

    def close(self) -> None:
        self._is_closed = True
        if self._sink is not None:
            self._sink.close()

    def hand_over(self, sink: WatchSink) -> None:
        for frame in self._frames:
            sink.send(frame)
        self._frames.clear()
        self._sink = sink
        if self._is_closed:
            sink.close()
