"""A connection that speaks HTTP/2: reads frames, starts a handler for each request, sends frames.

Its limits are those of other connections, counted in streams: a request that was reset occupies
its place until its handler has ended, so that resetting requests starts no more of them. Frames
that ask for nothing (pings, settings, window updates, resets, tiny data) are paid from a credit,
which grows with time and with what the client is sent. A client without credit is disconnected.
How much is read in one turn of the event loop is limited for all connections together (`turns`).

What is written in one turn of the event loop is one write to the transport. Streams with data take
turns, one frame each, as far as their windows and the transport allow; a stream whose client does
not read keeps its data without delaying the others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pykueue.apiserver.http2 import frames, hpack, requests
from pykueue.apiserver.http2.credit import Credit
from pykueue.apiserver.http2.frame_buffer import FrameBuffer
from pykueue.apiserver.http2.frames import Http2Error, StreamError
from pykueue.apiserver.http2.header_block import HeaderBlock
from pykueue.apiserver.http2.hpack import Field
from pykueue.apiserver.http2.streams import Stream
from pykueue.apiserver.http2.turns import Turns

MOST_STREAMS = 250
STARTS_PER_TURN = 8
_CREDIT_PER_RESPONSE = 2
_BYTES_PER_CREDIT = 1024
_SMALL_DATA_BYTES = 128
_SETTINGS_COST = 8
_CONNECTION_WINDOW = 1024 * 1024
_WINDOW_STEP = 64 * 1024
"""The window of the connection is opened again after so many bytes."""
_WRITE_BYTES = 256 * 1024
"""One write, and what may wait in the transport."""
_PING_BYTES = 8

_SETTINGS = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.MAX_HEADER_LIST_SIZE: hpack.LARGEST_LIST_BYTES,
    }
) + frames.window_update(0, _CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
_SETTINGS_ACK = frames.head(0, frames.SETTINGS, frames.ACK, 0)

Handler = Callable[[Stream], Awaitable[None]]


class Http2Connection(asyncio.Protocol):
    def __init__(
        self,
        handler: Handler,
        on_lost: Callable[["Http2Connection"], None],
        turns: Turns,
        owner: Callable[["Http2Connection"], str],
    ) -> None:
        self._handler = handler
        self._turns = turns
        self._owner = owner
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._input = FrameBuffer()
        self._requests_read = 0
        """How many were read since the connection had its turn."""
        self._is_waiting = False
        """Whether nothing is read for now."""
        self._has_place = False
        """Whether the connection waits for its turn."""
        self._has_settings = False
        self._decoder = hpack.Decoder()
        self._block = HeaderBlock()
        self._streams: dict[int, Stream] = {}
        self._handlers: set[asyncio.Task[None]] = set()
        self._last_stream = 0
        self._received = 0
        """Bytes of DATA for which the window of the connection is not opened again yet."""
        credit = Credit(self._loop.time)
        self._pay, self._earn = credit.pay, credit.earn
        self._window = frames.DEFAULT_WINDOW
        """How many bytes the client takes on all streams."""
        self._initial_window = frames.DEFAULT_WINDOW
        self._frame_bytes = frames.DEFAULT_FRAME_BYTES
        self._output: list[bytes | memoryview] = []
        self._output_bytes = 0
        self._is_flush_due = False
        self._is_paused = False
        self._is_closing = False
        self._is_retired = False
        """Whether requests that arrive now are the client's to send again elsewhere."""
        self._ready: deque[Stream] = deque()
        """Streams that have data or their end to send."""
        self._readers = {
            frames.DATA: self._read_data,
            frames.HEADERS: self._read_headers,
            frames.PRIORITY: self._read_priority,
            frames.RST_STREAM: self._read_reset,
            frames.SETTINGS: self._read_settings,
            frames.PUSH_PROMISE: self._read_push_promise,
            frames.PING: self._read_ping,
            frames.GOAWAY: self._read_goaway,
            frames.WINDOW_UPDATE: self._read_window_update,
            frames.CONTINUATION: self._read_continuation,
        }

    @property
    def is_idle(self) -> bool:
        return not self._handlers

    # What the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._write(_SETTINGS)

    def connection_lost(self, _error: Exception | None) -> None:
        self.transport = None
        self._is_closing = True
        for stream in list(self._streams.values()):
            stream.close(is_lost=True)
        self._streams.clear()
        self._ready.clear()
        self._output.clear()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._send_ready()
        if self._is_waiting:
            self._wait_for_turn()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._input.feed(data)
        if self._is_waiting:
            return
        if self._turns.is_over():
            self._wait_for_turn()
        else:
            self._read()

    # What the server calls

    def close(self) -> None:
        """Send what is written and close; new requests are refused."""
        if self.transport is not None and not self._is_closing:
            self._end(frames.NO_ERROR, "")

    def retire(self) -> None:
        """Tell the client to send its next requests elsewhere; what arrives is not started.

        The connection stays open until the caller aborts it: a client that is sending reads this
        first, and knows which requests are safe to repeat.
        """
        if not self._is_closing and not self._is_retired:
            self._is_retired = True
            self._write(frames.goaway(self._last_stream, frames.NO_ERROR))

    def end_streams(self) -> None:
        """Tell the handlers of streams without an end that they shall end."""
        for stream in list(self._streams.values()):
            callback, stream.on_close = stream.on_close, None
            if callback is not None:
                callback()

    async def wait_idle(self) -> None:
        if self._handlers:
            await asyncio.wait(self._handlers)

    def cancel(self) -> None:
        for task in self._handlers:
            task.cancel()
        if self.transport is not None:
            self.transport.abort()

    # Reading

    def _read_input(self) -> None:
        """Read frames. Few requests start in one turn of the event loop; the rest waits."""
        self._requests_read = 0
        while frame := self._input.take():
            self._read_frame(*frame)
            if self._requests_read and (self._requests_read >= STARTS_PER_TURN or self._turns.is_contended()):
                self._wait_for_turn()
                return
        if self._is_waiting and self.transport is not None:
            self._is_waiting = False
            self.transport.resume_reading()

    def _wait_for_turn(self) -> None:
        self._pause_reading()
        if not self._has_place:
            self._has_place = True
            self._turns.wait(self, self._owner(self))

    def _pause_reading(self) -> None:
        if not self._is_waiting and self.transport is not None:
            self._is_waiting = True
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Read what waits. A client that does not read its responses is not read either."""
        self._has_place = False
        if self._is_waiting and not self._is_paused and not self._is_closing:
            self._read()

    def _read(self) -> None:
        try:
            self._read_input()
        except Http2Error as error:
            self._end(error.code, str(error))

    def _read_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block.stream and (kind != frames.CONTINUATION or number != self._block.stream):
            raise Http2Error(frames.PROTOCOL_ERROR, "a header block is interrupted by another frame")
        if not self._has_settings and kind != frames.SETTINGS:
            raise Http2Error(frames.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        reader = self._readers.get(kind)
        if reader is None:
            self._pay(1)
            return
        try:
            reader(flags, number, payload)
        except StreamError as error:
            self._pay(1)
            if stream := self._streams.get(number):
                stream.close(is_lost=True)
                self.send_reset(stream, error.code)
            else:
                self._write(frames.reset(number, error.code))

    def _open_stream(self, number: int) -> Stream | None:
        """The stream of a frame, None if it has ended."""
        if self._is_retired and number > self._last_stream:
            return None
        if number > self._last_stream or not number % 2:
            raise Http2Error(frames.PROTOCOL_ERROR, "the stream was never opened")
        return self._streams.get(number)

    def _read_data(self, flags: int, number: int, payload: bytes) -> None:
        stream = self._open_stream(number)
        size = len(payload)
        is_last = bool(flags & frames.END_STREAM)
        if size < _SMALL_DATA_BYTES and not is_last:
            self._pay(1)
        self._received += size
        if self._received >= _WINDOW_STEP:
            self._write(frames.window_update(0, self._received))
            self._received = 0
        data = frames.unpadded(payload, flags)
        if stream is not None:
            stream.received(data, size, is_last=is_last)

    def _read_headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number % 2:
            raise Http2Error(frames.PROTOCOL_ERROR, "HEADERS on a stream that no client can open")
        block = frames.header_fields(payload, flags)
        if flags & frames.END_HEADERS:
            self._read_block(flags, number, block)
        else:
            self._block.begin(number, flags, block)

    def _read_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if not self._block.stream:
            raise Http2Error(frames.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._pay(1)
        self._block.add(payload)
        if flags & frames.END_HEADERS:
            self._read_block(self._block.flags, number, self._block.end())

    def _read_block(self, flags: int, number: int, block: bytes) -> None:
        self._requests_read += 1
        self._turns.pay(len(block))
        try:
            fields = self._decoder.decode(block)
        except hpack.HeaderListTooLarge as error:
            raise Http2Error(frames.ENHANCE_YOUR_CALM, str(error)) from None
        except hpack.HpackError as error:
            raise Http2Error(frames.COMPRESSION_ERROR, str(error)) from None
        is_last = bool(flags & frames.END_STREAM)
        if number > self._last_stream:
            if self._is_retired:
                return
            self._last_stream = number
            self._start(number, fields, has_body=not is_last)
            return
        self._pay(1)
        if stream := self._streams.get(number):
            if not is_last:
                raise StreamError(frames.PROTOCOL_ERROR, "trailers without the end of the stream")
            requests.check_trailers(fields)
            stream.received(b"", 0, is_last=True)

    def _start(self, number: int, fields: list[Field], *, has_body: bool) -> None:
        if len(self._handlers) >= MOST_STREAMS or self._is_closing:
            raise StreamError(frames.REFUSED_STREAM, "too many requests at once")
        head = requests.read(fields)
        if not has_body and head.content_length:
            raise StreamError(frames.PROTOCOL_ERROR, "a content-length without data")
        stream = Stream(self, number, head, window=self._initial_window, has_body=has_body)
        self._streams[number] = stream
        task = stream.task = self._loop.create_task(self._handle(stream))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    async def _handle(self, stream: Stream) -> None:
        try:
            await self._handler(stream)
        except ConnectionError:
            pass
        finally:
            self._earn(_CREDIT_PER_RESPONSE)
            if not stream.is_ended:
                stream.abort(frames.INTERNAL_ERROR)

    def _read_priority(self, _flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise Http2Error(frames.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != frames.PRIORITY_BYTES:
            raise StreamError(frames.FRAME_SIZE_ERROR, "the length of PRIORITY is not 5")
        self._pay(1)

    def _read_reset(self, _flags: int, number: int, payload: bytes) -> None:
        frames.read_number(payload, "RST_STREAM")
        stream = self._open_stream(number)
        self._pay(2)
        if stream is not None:
            del self._streams[number]
            stream.close(is_lost=True)

    def _read_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(frames.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & frames.ACK:
            if payload:
                raise Http2Error(frames.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with settings")
            self._pay(1)
            return
        self._has_settings = True
        self._pay(_SETTINGS_COST)
        settings = frames.read_settings(payload)
        self._frame_bytes = min(settings.get(frames.MAX_FRAME_SIZE, self._frame_bytes), _WRITE_BYTES)
        window = settings.get(frames.INITIAL_WINDOW_SIZE, self._initial_window)
        self._write(_SETTINGS_ACK)
        if window != self._initial_window:
            self._resize_windows(window)

    def _resize_windows(self, window: int) -> None:
        change, self._initial_window = window - self._initial_window, window
        for stream in self._streams.values():
            stream.window += change
            if stream.window > frames.LARGEST_WINDOW:
                raise Http2Error(frames.FLOW_CONTROL_ERROR, "the window of a stream is out of range")
            if stream.pending:
                self._queue(stream)
        self._send_ready()

    def _read_push_promise(self, _flags: int, _number: int, _payload: bytes) -> None:
        raise Http2Error(frames.PROTOCOL_ERROR, "clients cannot push")

    def _read_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(frames.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != _PING_BYTES:
            raise Http2Error(frames.FRAME_SIZE_ERROR, "the length of PING is not 8")
        self._pay(1)
        if not flags & frames.ACK:
            self._write(frames.head(_PING_BYTES, frames.PING, frames.ACK, 0) + payload)

    def _read_goaway(self, _flags: int, number: int, _payload: bytes) -> None:
        if number:
            raise Http2Error(frames.PROTOCOL_ERROR, "GOAWAY on a stream")
        self._pay(1)

    def _read_window_update(self, _flags: int, number: int, payload: bytes) -> None:
        increment = frames.read_number(payload, "WINDOW_UPDATE") & frames.LARGEST_WINDOW
        self._pay(1)
        if not number:
            self._window += increment
            if not increment or self._window > frames.LARGEST_WINDOW:
                raise Http2Error(frames.FLOW_CONTROL_ERROR, "the window of the connection is out of range")
            self._send_ready()
            return
        stream = self._open_stream(number)
        if not increment:
            raise StreamError(frames.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        if stream is not None:
            stream.window += increment
            if stream.window > frames.LARGEST_WINDOW:
                raise StreamError(frames.FLOW_CONTROL_ERROR, "the window of the stream is out of range")
            self.send_data(stream)

    # Writing

    def send_headers(self, stream: Stream, status: int, fields: list[Field]) -> None:
        block = hpack.encode(status, fields)
        is_whole = stream.is_ended and not stream.pending
        flags = frames.END_STREAM if is_whole else 0
        self._write(frames.headers(block, stream.number, flags, frames.DEFAULT_FRAME_BYTES))
        if is_whole:
            self._finish(stream)
        else:
            self.send_data(stream)

    def send_data(self, stream: Stream) -> None:
        if stream.pending or stream.is_ended:
            self._queue(stream)
            self._send_ready()

    def send_window_update(self, stream: Stream, increment: int) -> None:
        self._write(frames.window_update(stream.number, increment))

    def send_reset(self, stream: Stream, code: int) -> None:
        if self._streams.pop(stream.number, None) is not None:
            self._write(frames.reset(stream.number, code))
        stream.close(is_lost=True)

    def _queue(self, stream: Stream) -> None:
        if not stream.is_queued:
            stream.is_queued = True
            self._ready.append(stream)

    def _send_ready(self) -> None:
        """Send data of the streams in turn, as far as the windows and the transport allow."""
        ready = self._ready
        while ready and not self._is_paused and self._output_bytes < _WRITE_BYTES:
            stream = ready[0]
            least_bytes = stream.least_bytes(self._initial_window)
            if stream.pending and self._window < least_bytes and not stream.is_closed:
                return
            ready.popleft()
            stream.is_queued = False
            if stream.is_closed:
                continue
            if stream.pending:
                size = min(stream.window, self._window, self._frame_bytes)
                if size < least_bytes:
                    continue  # it is queued again when its window opens
                self._send_part(stream, size)
            elif stream.is_ended:
                self._write(frames.head(0, frames.DATA, frames.END_STREAM, stream.number))
                self._finish(stream)

    def _send_part(self, stream: Stream, most_bytes: int) -> None:
        data = stream.take(most_bytes)
        size = len(data)
        stream.window -= size
        self._window -= size
        is_last = stream.is_ended and not stream.pending
        self._write(frames.head(size, frames.DATA, frames.END_STREAM if is_last else 0, stream.number))
        self._output.append(data)
        self._output_bytes += size
        self._earn(size / _BYTES_PER_CREDIT)
        if is_last:
            self._finish(stream)
        elif stream.pending:
            self._queue(stream)

    def _finish(self, stream: Stream) -> None:
        """The response is complete. What the client still sends of its request is not read."""
        self._streams.pop(stream.number, None)
        if not stream.is_complete:
            self._write(frames.reset(stream.number, frames.NO_ERROR))
        stream.close(is_lost=False)

    def _write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        self._output.append(data)
        self._output_bytes += len(data)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        output, self._output, self._output_bytes = self._output, [], 0
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(output))
            if self._ready:
                self._send_ready()

    def _end(self, code: int, message: str) -> None:
        """Say why, and close the connection."""
        self._is_closing = True
        self._write(frames.goaway(self._last_stream, code, message))
        self._flush()
        for stream in list(self._streams.values()):
            stream.close(is_lost=True)
        self._streams.clear()
        if self.transport is not None:
            self.transport.close()
