"""The visibility API of a controller, called by the cluster's API server and by users."""

import asyncio
import datetime as dt
import json
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.controllers.system.cluster import PYTORCH_JOBS, pytorch_job, running_cluster

from pykueue.api import registry
from pykueue.api.configuration import loading
from pykueue.api.scheme import Settings
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.app.visibility.server import VisibilityApiServer
from pykueue.cli.main import cli
from pykueue.controllers.scheduler.follower import QueueFollower
from pykueue.install import visibility as installed
from pykueue.kube import access, issuing
from pykueue.kube.clock import WallClock
from pykueue.kube.http_client import HttpClient

GROUP = "/apis/visibility.kueue.x-k8s.io"
PENDING = f"{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads"
NOW = dt.datetime.now(dt.UTC)
LIFE = issuing.Validity(begin=NOW, end=NOW + dt.timedelta(days=1))


def front_proxy(authority, common_name):
    """A client certificate, as an API server presents it when it forwards requests."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    pair = issuing.make_server(authority, common_name, ("localhost",), LIFE)
    key = issuing.private_key(pair.key)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(hours=1))
        .not_valid_after(LIFE.end)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)
        .sign(issuing.private_key(authority.key), hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), pair.key


class VisibilityClient:
    def __init__(self, port, folder, authority):
        self._port, self._folder, self._authority = port, folder, authority

    async def get(self, path, *, headers=None, proxy=""):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if proxy:
            certificate, key = front_proxy(self._authority, proxy)
            (self._folder / "c.pem").write_bytes(certificate + key)
            context.load_cert_chain(self._folder / "c.pem")
        url = f"https://127.0.0.1:{self._port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=context) as answer:
            return answer.status, json.loads(await answer.text())


@asynccontextmanager
async def serving(tmp_path, view):
    """A visibility server whose tokens and rights are those of an embedded API server."""
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "api", host="127.0.0.1", port=0), registry.scheme(), Settings())
    await api.start()
    client = HttpClient(await access.from_kubeconfig(tmp_path / "api" / "kubeconfig"))
    authority = issuing.make_authority("front-proxy-ca", LIFE)
    data = {"requestheader-client-ca-file": authority.certificate.decode(), "requestheader-allowed-names": '["front"]'}
    config_map = {"metadata": {"name": "extension-apiserver-authentication"}, "data": data}
    await client.raw("POST", "/api/v1/namespaces/kube-system/configmaps", config_map)
    document = {"visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": 0}}
    server = VisibilityApiServer(client, loading.complete(document).value, view)
    try:
        await server.start()
        yield VisibilityClient(server.port, tmp_path, authority)
    finally:
        await server.stop()
        await client.close()
        await api.stop()


@pytest.fixture
async def waiting():
    """One job runs, one waits."""
    async with running_cluster() as cluster:
        await cluster.make_queue(cpu="1")
        await cluster.create(PYTORCH_JOBS, pytorch_job("runs"), "default")
        await cluster.runs("runs")
        await cluster.create(PYTORCH_JOBS, pytorch_job("waits"), "default")
        await cluster.pends("waits")
        yield cluster


async def test_users_of_the_front_proxy_are_answered(tmp_path, waiting):
    view = (waiting.controllers.scheduler.engine.view, waiting.controllers.cache)
    masters = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    nobody = {"X-Remote-User": "jane"}
    async with serving(tmp_path, lambda: view) as client:
        code, summary = await client.get(PENDING, headers=masters, proxy="front")
        assert (code, [item["positionInClusterQueue"] for item in summary["items"]]) == (200, [0])
        local_queue = f"{GROUP}/v1beta1/namespaces/default/localqueues/cq/pendingworkloads"
        code, summary = await client.get(local_queue, headers=masters, proxy="front")
        assert (code, summary["apiVersion"], len(summary["items"])) == (200, "visibility.kueue.x-k8s.io/v1beta1", 1)
        assert (await client.get(PENDING, headers=nobody, proxy="front"))[0] == 403
        assert (await client.get(PENDING, headers=masters, proxy="stranger"))[0] == 401
        assert (await client.get(PENDING, headers=masters))[0] == 401
        code, listed = await client.get(f"{GROUP}/v1beta2", headers=nobody, proxy="front")
        assert (code, listed["kind"]) == (200, "APIResourceList")


async def test_explanations_are_for_those_who_may_get_them(tmp_path, waiting):
    """The API server of this test has no jobs, so who may ask learns that there is no such job."""
    view = (waiting.controllers.scheduler.engine.view, waiting.controllers.cache)
    masters = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    path = f"{GROUP}/v1beta2/namespaces/default/explanations/waits?kind=pytorchjob"
    async with serving(tmp_path, lambda: view) as client:
        code, status = await client.get(path, headers=masters, proxy="front")
        assert (code, status["message"]) == (404, 'workload of pytorchjob "waits" not found in namespace default')
        assert (await client.get(path, headers={"X-Remote-User": "jane"}, proxy="front"))[0] == 403


async def test_a_token_is_judged_by_the_api_server(tmp_path, waiting):
    view = (waiting.controllers.scheduler.engine.view, waiting.controllers.cache)
    async with serving(tmp_path, lambda: view) as client:
        from_file = await access.from_kubeconfig(tmp_path / "api" / "kubeconfig")
        headers = {"Authorization": f"Bearer {await from_file.token()}"}
        assert (await client.get(PENDING, headers=headers))[0] == 200
        assert (await client.get(PENDING, headers={"Authorization": "Bearer wrong"}))[0] == 401


async def test_a_replica_that_does_not_lead_has_the_same_queues(waiting):
    observer = QueueFollower(waiting.client, waiting.configuration, WallClock())
    watching = asyncio.create_task(observer.run())

    async def is_seen():
        queue = observer.view.cluster_queue("cq")
        return queue is not None and (queue.pending_count, queue.reservation_count) == (1, 1)

    await waiting.until(is_seen)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_the_gate_takes_the_api_away():
    off = loading.complete({"featureGates": {"VisibilityOnDemand": False}}).value
    on = loading.complete({}).value
    assert installed.objects(off) == []
    names = [obj["metadata"]["name"] for obj in installed.objects(on) if obj["kind"] == "APIService"]
    assert names == ["v1beta1.visibility.kueue.x-k8s.io", "v1beta2.visibility.kueue.x-k8s.io"]


def test_api_services_are_printed_only_when_asked_for():
    """An unavailable APIService blocks the deletion of namespaces."""
    whole = CliRunner().invoke(cli, ["manifests"]).output
    assert "kind: APIService" not in whole
    assert CliRunner().invoke(cli, ["manifests", "visibility"]).output.count("kind: APIService") == 2
