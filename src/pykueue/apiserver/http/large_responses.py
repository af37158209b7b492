"""Large responses: sent in pieces, at the speed of the client.

What a transport has accepted it copies and encrypts at once, so a client that reads slowly, or not
at all, would have all of it in the server's memory. A list is sent from the stored objects, which
all lists share. The listener keeps the seat of the request until the client has everything.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator

from multidict import CIMultiDict

from pykueue.apiserver.http.exchanges import LARGE_BYTES, SEND_SECONDS, Exchange

__all__ = ("LARGE_BYTES", "pieces", "send")

Turn = Callable[[], Awaitable[None]]

_PIECE_BYTES = 64 * 1024
_COMPRESSED_PIECE_BYTES = 512 * 1024
_GZIP_FORMAT = 31


async def send(
    exchange: Exchange,
    parts: list[bytes],
    status: int,
    headers: CIMultiDict[str],
    *,
    is_compressed: bool,
    turn: Turn,
) -> None:
    """Send the parts of a body. A client that does not read them is disconnected.

    Each piece waits for a `turn` of its user: to encrypt it takes as long as a small request.
    """
    if is_compressed:
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    try:
        async with asyncio.timeout(SEND_SECONDS):
            stream = await exchange.start(status, headers)
            compressor = zlib.compressobj(1, wbits=_GZIP_FORMAT) if is_compressed else None
            for piece in pieces(parts, _COMPRESSED_PIECE_BYTES if compressor else _PIECE_BYTES):
                await turn()
                data = await asyncio.to_thread(compressor.compress, piece) if compressor else piece
                stream.write(data)
                await stream.drain()
            if compressor:
                stream.write(compressor.flush())
            await exchange.end()
    except TimeoutError:
        exchange.abort()
        raise ConnectionResetError("the client does not read the response") from None


def pieces(parts: list[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of about this size: small parts together, large ones cut."""
    waiting: list[bytes] = []
    length = 0
    for part in parts:
        if length + len(part) < size:
            waiting.append(part)
            length += len(part)
            continue
        data = memoryview(part)
        first = size - length
        yield b"".join([*waiting, data[:first]])
        data = data[first:]
        while len(data) >= size:
            yield bytes(data[:size])
            data = data[size:]
        waiting, length = [bytes(data)], len(data)
    if length:
        yield b"".join(waiting)
