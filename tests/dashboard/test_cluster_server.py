"""The page of `pykueue controller`, with an embedded API in the place of a cluster."""

import json

import aiohttp
import pytest
from tests.dashboard.test_page_stream import bind, create_namespace, create_workload

from pykueue.dashboard.cluster_server import ClusterDashboard
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def site(api):
    credentials = await access.from_kubeconfig(api.paths.kubeconfig)
    client = HttpClient(credentials)
    dashboard = ClusterDashboard(client, credentials, dict, port=0)
    await dashboard.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{dashboard.port}") as session:
        yield session
    await dashboard.stop()
    await client.close()


async def rows_of(site, token, plural):
    """The rows of this kind that a page has received when the server has read all of them."""
    rows = {}
    async with site.get("/dashboard/stream", headers=bearer(token)) as response:
        async for line in response.content:
            message = json.loads(line)
            if message.get("rows") == plural:
                rows |= dict(message["set"])
            if plural in message.get("listed", ()):
                return rows
    raise AssertionError(plural)


async def test_a_user_sees_the_own_namespace(site, api, token_of):
    for namespace in ("mine", "theirs"):
        await create_namespace(api, namespace)
        await create_workload(api, namespace, "one")
    await bind(api, "alice", "mine")
    assert list(await rows_of(site, token_of("alice"), "workloads")) == ["mine/one"]


@pytest.mark.parametrize("path", ["/dashboard/stream", "/api/v1/nodes", "/apis/batch/v1/jobs"])
@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"Authorization": "Basic eDp5"}])
async def test_without_a_valid_token_nothing_is_read(site, path, headers):
    async with site.get(path, headers=headers) as response:
        assert response.status == 401


async def test_requests_have_the_rights_of_the_user(site, api, token_of):
    async with site.get("/api/v1/nodes", headers=bearer(token_of("alice"))) as response:
        assert response.status == 403
    async with site.get("/api/v1/nodes", headers=bearer(api.access.token)) as response:
        assert response.status == 200


async def test_nobody_is_impersonated(site, token_of):
    headers = {**bearer(token_of("alice")), "Impersonate-User": "pykueue-admin", "Impersonate-Group": "system:masters"}
    async with site.get("/api/v1/nodes", headers=headers) as response:
        assert response.status == 403
        assert '"alice"' in (await response.json())["message"].replace("\\", "")


async def test_writes_arrive(site, api):
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    async with site.post("/api/v1/namespaces", json=body, headers=bearer(api.access.token)) as response:
        assert response.status == 201


async def test_another_host_is_refused(site, api):
    async with site.get("/dashboard/", headers={"Host": "evil.example", **bearer(api.access.token)}) as response:
        assert response.status == 421


@pytest.mark.parametrize("path", ["/metrics", "/", "/dashboard/../etc/passwd", "/dashboard/login"])
async def test_other_paths_do_not_exist(site, api, path):
    async with site.get(path, headers=bearer(api.access.token)) as response:
        assert response.status == 404
