"""The stream of a page ends when its user is removed."""

import asyncio
import json

import aiohttp
import pytest
from tests.dashboard.test_page_stream import bind, create_namespace, create_workload

from pykueue.apiserver.http import revocation
from pykueue.apiserver.security import tokens
from pykueue.dashboard import cluster_server
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient

DEADLINE_SECONDS = 20


async def read_until_removed(api, site, token):
    """Remove the user when the page is complete; return when the stream has ended."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        async with site.get("/dashboard/stream", headers={"Authorization": f"Bearer {token}"}) as response:
            assert response.status == 200
            async for line in response.content:
                if json.loads(line).get("ready"):
                    tokens.remove(api.paths.tokens, "alice")


@pytest.fixture
async def alice(api, token_of):
    await create_namespace(api, "mine")
    await create_workload(api, "mine", "one")
    await bind(api, "alice", "mine")
    return token_of("alice")


async def test_on_the_page_of_up(api, site, alice, monkeypatch):
    monkeypatch.setattr(revocation, "_PAUSE_SECONDS", 0.01)
    with pytest.raises(aiohttp.ClientPayloadError):
        await read_until_removed(api, site, alice)


async def test_on_the_page_of_the_controller(api, alice, monkeypatch):
    monkeypatch.setattr(cluster_server, "_SCOPE_SECONDS", 0.0)
    credentials = await access.from_kubeconfig(api.paths.kubeconfig)
    client = HttpClient(credentials)
    dashboard = cluster_server.ClusterDashboard(client, credentials, dict, port=0)
    await dashboard.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{dashboard.port}") as site:
        await read_until_removed(api, site, alice)
    await dashboard.stop()
    await client.close()
