"""Calls admission webhooks over HTTPS.

Only administrators configure webhooks, so that any address may be called. Redirects and proxies
are not followed: the answer comes from the server whose certificate was checked.
"""

import base64
import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from pykueue.api import json_text

_LARGEST_ANSWER_BYTES = 3 * 1024 * 1024
_CACHED_CONTEXTS = 64


class WebhookCallError(Exception):
    """The webhook was not reached, or its answer cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    url: str
    authority: str = ""
    """The caBundle in base64; "" means the authorities of this machine."""
    address: tuple[str, int] | None = None
    """Where to connect instead of the host of the URL."""


class _FixedResolver(AbstractResolver):
    """Resolves the name of a service to the address of one of its pods."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        del port, family
        result = ResolveResult(hostname=host, host=self._host, port=self._port, family=2, proto=0, flags=0)
        return [result]

    async def close(self) -> None:
        """There is nothing to close."""


class WebhookClient:
    def __init__(self) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, endpoint: WebhookEndpoint, body: Any, timeout_seconds: float) -> Any:
        """The decoded JSON of the answer; WebhookCallError if there is none."""
        resolver = _FixedResolver(*endpoint.address) if endpoint.address else None
        try:
            connector = aiohttp.TCPConnector(ssl=self._context(endpoint.authority), resolver=resolver, force_close=True)
            limit = aiohttp.ClientTimeout(total=timeout_seconds)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit, auto_decompress=False) as session,
                session.post(
                    endpoint.url,
                    data=msgspec.json.encode(body),
                    params={"timeout": f"{int(timeout_seconds)}s"},
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    allow_redirects=False,
                ) as answer,
            ):
                data = await _read(answer.content)
                if answer.status != 200:
                    text = data[:200].decode(errors="replace")
                    raise WebhookCallError(f"the server answered with status {answer.status}: {text!r}")
            return json_text.decode(data)
        except TimeoutError:
            raise WebhookCallError("context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookCallError(str(error) or type(error).__name__) from None

    def _context(self, authority: str) -> ssl.SSLContext:
        context = self._contexts.get(authority)
        if context is None:
            if len(self._contexts) >= _CACHED_CONTEXTS:
                self._contexts.clear()
            data = base64.b64decode(authority).decode("ascii") if authority else None
            context = self._contexts[authority] = ssl.create_default_context(cadata=data)
        return context


async def _read(content: aiohttp.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_chunked(64 * 1024):
        size += len(part)
        if size > _LARGEST_ANSWER_BYTES:
            raise WebhookCallError(f"the answer has more than {_LARGEST_ANSWER_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
