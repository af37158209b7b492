"""Requests of users to the API server, passed on with their own token and never with ours."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp

from pykueue.kube.access import Access

_PASSED_HEADERS = ("Accept", "Authorization", "Content-Type")
_CONNECT_SECONDS = 30.0


class Forwarder:
    """Create it inside a running event loop."""

    def __init__(self, access: Access) -> None:
        self._server = access.server
        tls = True if access.tls is None else _without_identity(access.tls)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()
        )

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, target: str, headers: Mapping[str, str], data: bytes
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """`target` is the path and the query. Headers for impersonation are not passed on."""
        passed = {name: headers[name] for name in _PASSED_HEADERS if name in headers}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.request(
                method, self._server + target, headers=passed, data=data or None, timeout=timeout, allow_redirects=False
            ) as response:
                yield response
        except aiohttp.ClientConnectorError as error:
            raise ConnectionError(f"{self._server}: {error}") from error

    async def close(self) -> None:
        await self._session.close()


def _without_identity(tls: ssl.SSLContext) -> ssl.SSLContext:
    """The same authorities without our client certificate, which would make us the user."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = tls.check_hostname, tls.verify_mode
    for authority in tls.get_ca_certs(binary_form=True):
        context.load_verify_locations(cadata=authority)
    return context
