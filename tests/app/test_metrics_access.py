"""The metrics of `pykueue controller` are for those whom the cluster lets read them, over TLS."""

import socket

import aiohttp
import click
import pytest

from pykueue.api import registry
from pykueue.api.rules.builtin.rbac import GROUP
from pykueue.api.scheme import Resource
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.apiserver.security import tokens
from pykueue.app.health import HealthEndpoints, HealthServer, MetricsServer
from pykueue.kube import access
from pykueue.kube.delegation import DelegatedAuth
from pykueue.kube.http_client import HttpClient

BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def endpoints(*, health="0", metrics="0"):
    async def text():
        return b"kueue_pending_workloads 7"

    return HealthEndpoints(
        health_address=health,
        liveness_path="healthz",
        readiness_path="readyz",
        metrics_address=metrics,
        is_ready=lambda: True,
        metrics=text,
    )


@pytest.fixture
async def api(tmp_path):
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    yield api
    await api.stop()


@pytest.fixture
async def metrics(api):
    client = HttpClient(await access.from_kubeconfig(api.paths.kubeconfig))
    server = MetricsServer(endpoints(metrics="127.0.0.1:0"), DelegatedAuth(client), None, has_own_certificate=True)
    await server.start()
    yield f"https://127.0.0.1:{server.port}/metrics"
    await server.stop()
    await client.close()


async def read(url, token=""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
        return answer.status, await answer.text()


async def test_strangers_get_no_metrics(metrics):
    assert (await read(metrics))[0] == 401
    assert (await read(metrics, "wrong"))[0] == 401


async def test_metrics_are_not_served_without_tls(metrics):
    with pytest.raises(aiohttp.ClientError):
        await read(metrics.replace("https://", "http://"))


async def test_a_user_needs_the_right_to_the_path(api, metrics):
    token = tokens.issue(api.paths.tokens, "prometheus")
    assert await read(metrics, token) == (403, "Authorization denied for user prometheus")
    binding = {
        "metadata": {"name": "prometheus"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "system:monitoring"},
        "subjects": [{"kind": "User", "name": "prometheus", "apiGroup": GROUP}],
    }
    await api.client().create(BINDINGS, binding)
    assert await read(metrics, token) == (200, "kueue_pending_workloads 7")


async def test_an_administrator_reads_the_metrics(api, metrics):
    assert (await read(metrics, api.access.token))[0] == 200


async def test_health_is_open_and_has_no_metrics():
    address = free_address()
    server = HealthServer(endpoints(health=address))
    await server.start()
    try:
        assert await read(f"http://{address}/healthz") == (200, "ok")
        assert (await read(f"http://{address}/metrics"))[0] == 404
        with pytest.raises(click.ClickException, match=r"set health\.healthProbeBindAddress"):
            await HealthServer(endpoints(health=address)).start()
    finally:
        await server.stop()
