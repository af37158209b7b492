"""No server of ours says which versions it runs."""

import asyncio
import ssl

import aiohttp
import pytest
from tests.app.test_metrics_access import endpoints, free_address

from pykueue.api import registry
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.app.health import HealthServer


async def server_of(url):
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return answer.headers["Server"]


@pytest.fixture
async def api(tmp_path):
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    access = await api.start()
    yield access.server
    await api.stop()


@pytest.mark.parametrize("path", ["/version", "/api/v1/pods", "/nowhere"])
async def test_the_embedded_api(api, path):
    assert await server_of(api + path) == "pykueue"


async def test_the_answer_to_a_malformed_request(api):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = api.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert b" 400 " in answer
    assert b"Python" not in answer.partition(b"\r\n\r\n")[0]


async def test_health_of_the_controller():
    address = free_address()
    server = HealthServer(endpoints(health=address))
    await server.start()
    try:
        assert await server_of(f"http://{address}/healthz") == "pykueue"
    finally:
        await server.stop()
