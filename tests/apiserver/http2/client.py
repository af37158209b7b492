"""The other side of a connection in memory: the h2 library, or raw frames."""

import asyncio

import h2.config
import h2.connection
import h2.events

from pykueue.apiserver.http2 import frames
from pykueue.apiserver.http2.connection import Http2Connection
from pykueue.apiserver.http2.turns import Turns

GET = [(":method", "GET"), (":scheme", "https"), (":authority", "server"), (":path", "/a")]
POST = [(":method", "POST"), *GET[1:]]


class Transport:
    """Keeps what is written. `is_full` is a peer that does not read."""

    def __init__(self):
        self.written = bytearray()
        self.is_closed = False
        self.is_full = False
        self.is_paused = False
        """Whether the connection reads no more for now."""
        self.protocol = None

    def set_write_buffer_limits(self, high):
        assert high

    def write(self, data):
        self.written += data
        if self.is_full:
            self.protocol.pause_writing()

    def pause_reading(self):
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self):
        assert self.is_paused
        self.is_paused = False

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    abort = close

    def take(self):
        data = bytes(self.written)
        self.written.clear()
        return data


class Server:
    """A connection with a handler, and the frames that it has sent."""

    def __init__(self, handler, turns=None, owner=""):
        self.lost = 0
        self.transport = Transport()
        self.connection = Http2Connection(handler, self._count, turns or Turns(), lambda _: owner)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def _count(self, _connection):
        self.lost += 1


class RawClient(Server):
    """Sends any bytes and reads the frames of the server as tuples."""

    def __init__(self, handler, *, has_begun=True, **options):
        super().__init__(handler, **options)
        if has_begun:
            self.send(frames.PREFACE + frames.settings({}))

    def send(self, data):
        self.connection.data_received(data)

    async def frames(self, turns=5):
        """(type, flags, stream, payload) of every frame that was sent within some turns."""
        for _ in range(turns):
            await asyncio.sleep(0)
        data, offset, found = bytearray(self.transport.take()), 0, []
        while offset < len(data):
            size, kind, flags, stream = frames.read_head(data, offset)
            offset += frames.HEAD_BYTES + size
            found.append((kind, flags, stream, bytes(data[offset - size : offset])))
        return found

    async def error(self):
        """The code of the GOAWAY or RST_STREAM that was sent last, None without one."""
        codes = [
            int.from_bytes(payload[4:8] if kind == frames.GOAWAY else payload)
            for kind, _, _, payload in await self.frames()
            if kind in (frames.GOAWAY, frames.RST_STREAM)
        ]
        return codes[-1] if codes else None


class Client(Server):
    """The h2 library as the client of a connection."""

    def __init__(self, handler, window=None):
        super().__init__(handler)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({frames.INITIAL_WINDOW_SIZE: window})
        self.events = []
        self.is_reading = True
        """Whether received data opens the windows again."""
        self.exchange()

    def request(self, fields=GET, data=None):
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, fields, end_stream=data is None)
        if data is not None:
            self.h2.send_data(number, data, end_stream=True)
        self.exchange()
        return number

    def exchange(self):
        """Give what one side has written to the other."""
        if data := self.h2.data_to_send():
            self.connection.data_received(data)
        if data := self.transport.take():
            for event in self.h2.receive_data(data):
                self.events.append(event)
                if isinstance(event, h2.events.DataReceived) and self.is_reading:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if data := self.h2.data_to_send():
                self.connection.data_received(data)

    async def until(self, condition, turns=2000):
        for _ in range(turns):
            if condition():
                return
            await asyncio.sleep(0)
            self.exchange()
        raise AssertionError(self.events[-5:])

    def body(self, number):
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, h2.events.DataReceived) and event.stream_id == number
        )

    def has(self, kind, number):
        return any(isinstance(event, kind) and event.stream_id == number for event in self.events)

    async def response(self, number):
        """The status and the body."""
        await self.until(lambda: self.has(h2.events.StreamEnded, number))
        fields = next(
            dict(event.headers)
            for event in self.events
            if isinstance(event, h2.events.ResponseReceived) and event.stream_id == number
        )
        return int(fields[":status"]), self.body(number)
