"""Reviews over HTTPS, as the API server sends them."""

import asyncio
import base64
import json
import ssl
from datetime import timedelta

import aiohttp
import msgspec
import pytest
from tests.webhooks.webhook_cluster import (
    CONFIGURATION,
    HOST,
    QUEUE_NAME,
    SERVICE,
    VirtualClock,
    bundles,
    cluster,
    job,
    patched,
    replica,
    review_request,
    until,
)  # fmt: skip

from pykueue.api import resources
from pykueue.api.configuration.types import InternalCertManagement, Webhook
from pykueue.webhooks.certificate_lifecycle import Renewal
from pykueue.webhooks.service import ListenAddress, Webhooks

RAY_JOBS = resources.RAY_JOB


@pytest.fixture
async def server():
    async with cluster() as client, replica(client) as service:
        yield client, service


async def trusting(client):
    async def trusts():
        return all(await bundles(client))

    await until(trusts)
    return ssl.create_default_context(cadata=(await bundles(client))[0].decode())


async def post(server, path, body):
    client, service = server
    url = f"https://127.0.0.1:{service.port}{path}"
    tls = await trusting(client)
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, ssl=tls, server_hostname=HOST) as answer,
    ):
        return answer.status, await answer.text()


async def review(server, path, obj):
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review_request(obj)}
    status, text = await post(server, path, json.dumps(envelope))
    assert status == 200, text
    return json.loads(text)


async def test_a_job_with_a_queue_is_suspended(server):
    answer = await review(server, "/mutate", job(queue="q"))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert patched(job(queue="q"), answer["response"])["spec"]["suspend"] is True


async def test_a_mistake_is_refused(server):
    answer = await review(server, "/validate", job(queue="bad_queue"))
    assert not answer["response"]["allowed"]


async def fail_open(client):
    """The embedded API obeys webhooks, and has no Service that leads to this one."""
    for resource in (resources.MUTATING_WEBHOOK_CONFIGURATION, resources.VALIDATING_WEBHOOK_CONFIGURATION):
        for configuration in (await client.list(resource)).items:
            for webhook in configuration["webhooks"]:
                webhook["failurePolicy"] = "Ignore"
            await client.update(resource, configuration)


async def test_an_owner_is_read_from_the_api(server):
    client, _ = server
    await trusting(client)
    await fail_open(client)
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster_spec = {"headGroupSpec": {"rayStartParams": {}, "template": template}}
    parent = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "parent", "namespace": "team", "labels": {QUEUE_NAME: "q"}},
        "spec": {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster_spec, "entrypoint": "x"},
    }
    uid = (await client.create(RAY_JOBS, parent, "team"))["metadata"]["uid"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "parent", "uid": uid, "controller": True}
    answer = await review(server, "/mutate", job(queue="q", ownerReferences=[owner]))
    assert "patch" not in answer["response"]


async def test_the_queue_named_default_is_given(server):
    client, _ = server
    queues = resources.LOCAL_QUEUE
    await client.create(queues, {"metadata": {"name": "default"}, "spec": {"clusterQueue": "q"}}, "team")

    async def labels():
        answer = await review(server, "/mutate", job())
        return patched(job(), answer["response"])["metadata"]["labels"]

    assert await until(labels) == {QUEUE_NAME: "default"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request": {"uid": "u"}}', b"[" * 100_000])
async def test_what_is_no_review_is_a_bad_request(server, body):
    status, text = await post(server, "/mutate", body)
    assert (status, text.split(":")[0]) == (400, "not an AdmissionReview")


async def test_a_certificate_that_others_keep_is_read_again(tmp_path):
    clock = VirtualClock()
    configuration = msgspec.structs.replace(
        CONFIGURATION,
        webhook=Webhook(cert_dir=str(tmp_path)),
        internal_cert_management=InternalCertManagement(enable=False),
    )
    async with cluster() as client:
        service = Webhooks(client, configuration, address=ListenAddress(host="127.0.0.1", port=0), clock=clock)
        running = asyncio.create_task(service.run())
        await until(lambda: clock.sleeps)
        for credentials in (Renewal(hosts=SERVICE.hosts).fresh(clock.now) for _ in range(2)):
            for name in ("tls.crt", "tls.key"):
                (tmp_path / name).write_bytes(base64.b64decode(credentials.data()[name]))
            clock.advance(timedelta(seconds=11))
            await until(lambda: service.is_ready)
            await until(lambda trust=credentials.trust: is_trusted(service.port, trust))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def is_trusted(port, trust):
    context = ssl.create_default_context(cadata=trust.decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST)
    except ssl.SSLError:
        return False
    writer.close()
    return True
