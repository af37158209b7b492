"""HTTP/1.1 to one server, on asyncio's streams: what `http_client` sends and receives bytes with.

It starts in a tenth of the time of a general HTTP library, so that every command starts fast. A
request uses an idle connection or opens one. Bodies are read as they arrive and are never
compressed. Proxies and redirects are not followed: the answer comes from the server whose
certificate was checked.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib import parse

_CHUNK_BYTES = 2**18
_LARGEST_HEAD_BYTES = 2**18
LARGEST_RESPONSE_BYTES = 2**30
_CONNECT_SECONDS = 60.0
_IDLE_SECONDS = 15.0
"""An idle connection is used again for so long; servers and firewalls drop older ones."""
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_BODILESS = frozenset({204, 304})


@dataclass(slots=True, eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    def is_usable(self) -> bool:
        return (
            not self.reader.at_eof()
            and not self.writer.is_closing()
            and time.monotonic() - self.idle_since < _IDLE_SECONDS
        )


@dataclass(slots=True, eq=False)
class Response:
    """The status, the headers in lower case, and the body, which is read once."""

    status: int
    headers: list[tuple[str, str]]
    _reader: asyncio.StreamReader
    has_body: bool = True
    largest_bytes: int = LARGEST_RESPONSE_BYTES
    is_read: bool = field(default=False, init=False)

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    async def read(self) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > self.largest_bytes:
                raise ConnectionError(f"the response has more than {self.largest_bytes} bytes")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def chunks(self, idle_seconds: float | None = None) -> AsyncIterator[bytes]:
        """The body in pieces as they arrive; TimeoutError if none arrives for `idle_seconds`."""
        if not self.has_body:
            self.is_read = True
            return
        try:
            pieces = self._chunked() if "chunked" in self.header("transfer-encoding").lower() else self._plain()
            while True:
                async with asyncio.timeout(idle_seconds):
                    piece = await anext(pieces, b"")
                if not piece:
                    break
                yield piece
        except asyncio.IncompleteReadError:
            raise ConnectionError("the connection was closed within the response") from None
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise ConnectionError(f"the server does not speak HTTP: {error}") from None
        self.is_read = True

    async def _chunked(self) -> AsyncIterator[bytes]:
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            while size > 0:
                chunk = await self._reader.read(min(size, _CHUNK_BYTES))
                if not chunk:
                    raise asyncio.IncompleteReadError(b"", size)
                size -= len(chunk)
                yield chunk
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            """A trailer, which nobody reads."""

    async def _plain(self) -> AsyncIterator[bytes]:
        length = self.header("content-length")
        left = int(length) if length else None
        while left is None or left > 0:
            chunk = await self._reader.read(_CHUNK_BYTES if left is None else min(left, _CHUNK_BYTES))
            if not chunk:
                if left is None:
                    return
                raise asyncio.IncompleteReadError(b"", left)
            left = None if left is None else left - len(chunk)
            yield chunk


class HttpConnections:
    """The connections to a server; any number of tasks may use them at once."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, largest_bytes: int = LARGEST_RESPONSE_BYTES) -> None:
        self._largest_bytes = largest_bytes
        url = parse.urlsplit(server)
        is_secure = url.scheme == "https"
        self._host, self._port = url.hostname or "", url.port or (443 if is_secure else 80)
        self._path = url.path.rstrip("/")
        self._netloc = url.netloc.rpartition("@")[2]
        self._tls = (tls or ssl.create_default_context()) if is_secure else None
        self._idle: list[_Connection] = []
        self._in_use: set[_Connection] = set()

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> AsyncIterator[Response]:
        """The response, once its headers are there. OSError if the server was not reached."""
        head = self._head(method, path, query=query, headers=headers, body=body)
        connection, response = await self._exchange(method, head, body)
        response.largest_bytes = self._largest_bytes
        try:
            yield response
        finally:
            self._in_use.discard(connection)
            if response.is_read and "close" not in response.header("connection").lower():
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.writer.close()

    async def close(self) -> None:
        connections = [*self._idle, *self._in_use]
        self._idle.clear()
        for connection in connections:
            connection.writer.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()

    def _head(
        self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        target = parse.quote(self._path + path, safe="/%:@!$&'()*+,;=?~")
        if query:
            target += ("&" if "?" in path else "?") + parse.urlencode(query)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._netloc}"]
        lines += [f"{name}: {_one_line(value)}" for name, value in headers.items()]
        if body is not None or method not in {"GET", "HEAD"}:
            lines.append(f"Content-Length: {len(body or b'')}")
        return "\r\n".join([*lines, "", ""]).encode()

    async def _exchange(self, method: str, head: bytes, body: bytes | None) -> tuple[_Connection, Response]:
        """Send the request on an idle connection, or on a new one if the server has closed it.

        A request that may not be sent twice is repeated only if it was not sent.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_usable():
                connection.writer.close()
                continue
            try:
                return connection, await self._send(connection, method, head, body)
            except (ConnectionError, asyncio.IncompleteReadError):
                if method not in _REPEATABLE:
                    raise ConnectionError("the server closed the connection before it answered") from None
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, limit=_LARGEST_HEAD_BYTES
            )
        connection = _Connection(reader, writer)
        try:
            return connection, await self._send(connection, method, head, body)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the server closed the connection before it answered") from None

    async def _send(self, connection: _Connection, method: str, head: bytes, body: bytes | None) -> Response:
        self._in_use.add(connection)
        is_done = False
        try:
            if body is None or len(body) <= _CHUNK_BYTES:
                connection.writer.write(head + (body or b""))
                await connection.writer.drain()
            else:
                await _write_pieces(connection.writer, head, body)
            response = await _response(connection.reader, method)
            is_done = True
            return response
        finally:
            if not is_done:
                self._in_use.discard(connection)
                connection.writer.close()


async def _write_pieces(writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
    """Send a large body in pieces, so that its encryption does not block the event loop."""
    writer.write(head)
    for start in range(0, len(body), _CHUNK_BYTES):
        writer.write(body[start : start + _CHUNK_BYTES])
        await writer.drain()


async def _response(reader: asyncio.StreamReader, method: str) -> Response:
    try:
        status = 100
        while 100 <= status < 200:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head[:-4].decode("latin-1").split("\r\n")
            status = int(first.split(" ", 2)[1])
        pairs = (line.partition(":") for line in lines)
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    except (ValueError, IndexError, asyncio.LimitOverrunError) as error:
        raise ConnectionError(f"the server does not speak HTTP: {error}") from None
    return Response(status, headers, reader, has_body=method != "HEAD" and status not in _BODILESS)


def _one_line(value: str) -> str:
    """A line break in a header would begin another one."""
    if "\r" in value or "\n" in value:
        raise ValueError("a header has no line breaks")
    return value
