"""A client that sends requests by HTTP/2, many at once on one connection."""

import asyncio
import contextlib

from pykueue.apiserver.http2 import frames, hpack

_LARGE_HEADERS = 60_000
"""The server ends a connection with larger headers."""
_ATTEMPTS = 5


class _Stream:
    def __init__(self, most_bytes):
        self.code = None
        self.body = b""
        self.window = frames.DEFAULT_WINDOW
        self.most_bytes = most_bytes
        self.ended = asyncio.get_running_loop().create_future()
        """None at the end of the response, the code of a reset, or ConnectionError."""

    def end(self, outcome):
        if not self.ended.done():
            self.ended.set_result(outcome)


class Http2Client:
    """`send` returns the status code and the body. The codes are those of `RawClient`.

    A stream that the server resets has the code 400, or 599 if it calls that an internal error.
    """

    def __init__(self, server):
        self._server = server
        self._connection = None
        self._connecting = asyncio.Lock()

    async def send(self, request):
        block = header_block(request)
        for attempt in range(_ATTEMPTS):
            connection = await self._connect(is_own=attempt == _ATTEMPTS - 1)
            try:
                async with asyncio.timeout(request.longest_seconds):
                    return await connection.exchange(request, block)
            except TimeoutError:
                if request.is_answered:
                    raise
                return -1, b""
            except ConnectionError:
                if len(block) > _LARGE_HEADERS:
                    return 400, b""
            finally:
                if connection is not self._connection:
                    connection.close()
        return 0, b""

    async def _connect(self, *, is_own):
        """The connection of all requests; at last one of its own, which no other request can end."""
        if is_own:
            return await _Connection.open(self._server)
        async with self._connecting:
            if self._connection is None or self._connection.is_lost:
                self._connection = await _Connection.open(self._server)
            return self._connection

    def close(self):
        if self._connection is not None:
            self._connection.close()


class _Connection:
    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self._streams = {}
        self._next = 1
        self._window = frames.DEFAULT_WINDOW
        self._opened = asyncio.Event()
        """Set whenever a window opens."""
        self._received = 0
        self.is_lost = False
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, server):
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.http2)
        writer.write(frames.PREFACE + frames.settings({}) + frames.window_update(0, 1 << 30))
        return cls(reader, writer)

    async def exchange(self, request, block):
        number, stream = self._next, _Stream(request.most_bytes)
        self._next += 2
        self._streams[number] = stream
        body = request.parts[3]
        flags = 0 if body else frames.END_STREAM
        try:
            self._writer.write(frames.headers(block, number, flags, frames.DEFAULT_FRAME_BYTES))
            await self._send_body(number, stream, body)
            outcome = await stream.ended
        finally:
            if self._streams.pop(number, None) is not None and not self.is_lost:
                self._writer.write(frames.reset(number, frames.CANCEL))
        if outcome is ConnectionError:
            raise ConnectionError
        if stream.code is None:
            return (599 if outcome == frames.INTERNAL_ERROR else 400), b""
        return stream.code, stream.body

    async def _send_body(self, number, stream, body):
        while body and not stream.ended.done():
            size = min(len(body), stream.window, self._window, frames.DEFAULT_FRAME_BYTES)
            if size <= 0:
                self._opened.clear()
                opened = asyncio.ensure_future(self._opened.wait())
                await asyncio.wait([opened, stream.ended], return_when=asyncio.FIRST_COMPLETED)
                opened.cancel()
                continue
            part, body = body[:size], body[size:]
            stream.window -= size
            self._window -= size
            flags = 0 if body else frames.END_STREAM
            self._writer.write(frames.head(size, frames.DATA, flags, number) + part)

    async def _read(self):
        try:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    head = bytearray(await self._reader.readexactly(frames.HEAD_BYTES))
                    size, kind, flags, number = frames.read_head(head, 0)
                    self._receive(kind, flags, number, await self._reader.readexactly(size))
        finally:
            self.close()

    def _receive(self, kind, flags, number, payload):
        stream = self._streams.get(number)
        if kind == frames.SETTINGS and not flags & frames.ACK:
            self._writer.write(frames.head(0, frames.SETTINGS, frames.ACK, 0))
        elif kind == frames.WINDOW_UPDATE:
            self._open_window(stream, number, int.from_bytes(payload))
        elif kind == frames.GOAWAY:
            self.is_lost = True
            for other, lost in self._streams.items():
                if other > int.from_bytes(payload[:4]) or int.from_bytes(payload[4:8]):
                    lost.end(ConnectionError)
        elif stream is not None:
            self._receive_response(stream, kind, number, payload)
            if kind == frames.RST_STREAM:
                del self._streams[number]
                stream.end(int.from_bytes(payload))
            elif kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM:
                del self._streams[number]
                stream.end(None)

    def _receive_response(self, stream, kind, number, payload):
        if kind == frames.HEADERS:
            stream.code = _status(payload)
        elif kind == frames.DATA:
            stream.body += payload
            if payload:
                self._writer.write(frames.window_update(0, len(payload)) + frames.window_update(number, len(payload)))
            if len(stream.body) >= stream.most_bytes:
                stream.end(None)

    def _open_window(self, stream, number, increment):
        if not number:
            self._window += increment
        elif stream is not None:
            stream.window += increment
        self._opened.set()

    def close(self):
        self.is_lost = True
        self._writer.transport.abort()
        for stream in self._streams.values():
            stream.end(ConnectionError)
        self._task.cancel()


def header_block(request):
    method, target, headers, body = request.parts
    fields = {":method": method, ":scheme": "https", ":authority": "x", ":path": target}
    fields |= {name.lower(): str(value) for name, value in headers.items()}
    if body:
        fields["content-length"] = str(len(body))
    return b"".join(_literal(name.encode(), value.encode()) for name, value in fields.items())


def _literal(name, value):
    return b"".join([b"\0", *(hpack._number(len(text), 0x7F, 0) + text for text in (name, value))])


def _status(block):
    """The status of a response: its first field, from the static table or a literal."""
    return int(hpack.Decoder().decode(block[:1] if block[0] & 0x80 else block[:5])[0][1])
