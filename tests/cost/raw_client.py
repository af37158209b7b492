"""A client that sends any bytes, also what is not HTTP, and reads what comes back."""

import asyncio
import base64
import ssl
import urllib.parse
from dataclasses import dataclass

import yaml

_LIMIT_BYTES = 1 << 24
_UPGRADED_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str
    port: int
    token: str
    tls: ssl.SSLContext
    http2: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig):
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        parts = urllib.parse.urlsplit(cluster["server"])
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
        contexts = [ssl.create_default_context(cadata=trusted) for _ in range(2)]
        contexts[1].set_alpn_protocols(["h2"])
        return cls(host=parts.hostname, port=parts.port, token=user["token"], tls=contexts[0], http2=contexts[1])


class RawClient:
    """One connection after another. `send` returns the status code and the body.

    The code is 0 if the server closed the connection without a response, and -1 if the client
    did not wait for one.
    """

    def __init__(self, server, abandoned):
        self._server = server
        self._abandoned = abandoned
        """Connections that stay open in silence."""
        self._reader = self._writer = None

    async def send(self, request):
        if not request.is_complete:
            await self._connect()
            self._writer.write(request.data)
            self._abandoned.append(self._writer)
            self._writer = None
            return -1, b""
        is_reused = self._writer is not None and request.is_answered
        if not is_reused:
            await self._connect()
        try:
            async with asyncio.timeout(request.longest_seconds):
                return await self._exchange(request)
        except TimeoutError:
            self.close()
            if request.is_answered:
                raise
            return -1, b""
        except ValueError:  # not a response; the connection cannot be used again
            self.close()
            raise
        except (OSError, EOFError, asyncio.IncompleteReadError):
            self.close()
            if is_reused:
                return await self.send(request)  # the server may close a connection between two requests
            return 0, b""

    def close(self):
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    async def _connect(self):
        self.close()
        self._reader, self._writer = await asyncio.open_connection(
            self._server.host, self._server.port, ssl=self._server.tls, limit=_LIMIT_BYTES
        )

    async def _exchange(self, request):
        self._writer.write(request.data)
        code = 100
        while code == 100:
            head = await self._reader.readuntil(b"\r\n\r\n")
            code = int(head.split(b" ", 2)[1])
        if code == 101:
            return await self._upgraded(request)
        headers = head.lower()
        body = await self._body(request, headers)
        if b"connection: close" in headers or not request.is_answered or len(body) >= request.most_bytes:
            self.close()
        return code, body

    async def _body(self, request, headers):
        if request.data.startswith(b"HEAD") or b" 204 " in headers[:20] or b" 304 " in headers[:20]:
            return b""
        if b"transfer-encoding: chunked" in headers:
            return await self._chunks(request.most_bytes)
        _, _, rest = headers.partition(b"content-length:")
        length = int(rest.split(b"\r\n", 1)[0]) if rest else 0
        return await self._reader.readexactly(length)

    async def _chunks(self, most_bytes):
        body = b""
        while len(body) < most_bytes:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            body += (await self._reader.readexactly(size + 2))[:-2]
            if not size:
                break
        return body

    async def _upgraded(self, request):
        self._writer.write(request.more)
        try:
            async with asyncio.timeout(_UPGRADED_SECONDS):
                body = await self._reader.read(10_000)
        except TimeoutError:
            body = b""
        self.close()
        return 101, body
