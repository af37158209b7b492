"""The populator and the priority booster against an API server."""

import asyncio

import pytest

from pykueue.api import errors, registry, resources
from pykueue.api.labels import PRIORITY_BOOST
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import side_controllers
from pykueue.app.side_controllers import OptionsError, SideProcess
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient

SECONDS = 20


@pytest.fixture
async def client(tmp_path):
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    client = HttpClient(await access.from_kubeconfig(tmp_path / "data" / "kubeconfig"))
    yield client
    await client.close()
    await api.stop()


async def until(read):
    """The first result of `read` that is not None."""
    async with asyncio.timeout(SECONDS):
        while (result := await read()) is None:  # noqa: ASYNC110 - the API is another process in effect
            await asyncio.sleep(0.02)
        return result


def kueue(kind, name, spec, namespace=""):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


async def test_the_populator_creates_a_queue_in_a_new_namespace(client):
    await client.create(resources.CLUSTER_QUEUE, kueue("ClusterQueue", "cq", {"namespaceSelector": {}}))
    process = SideProcess(client, "populator").populate(side_controllers.populator_options({"localQueueName": "main"}))
    await process.start()
    await client.create(resources.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})

    async def read():
        try:
            return await client.get(resources.LOCAL_QUEUE, "main", "team")
        except errors.ApiError:
            return None

    assert (await until(read))["spec"]["clusterQueue"] == "cq"
    await process.stop()


async def test_the_booster_lowers_an_admitted_workload(client):
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    workload = kueue("Workload", "w", {"podSets": [pod_set], "queueName": "q"}, "default")
    await client.create(resources.WORKLOAD, workload, "default")
    condition = {
        "type": "Admitted",
        "status": "True",
        "reason": "Admitted",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [condition]}}
    await client.patch(resources.WORKLOAD, "w", "default", status, subresource="status")
    options = side_controllers.booster_options({"timeSharing": {"interval": "1m", "negativeBoost": 9}})
    process = SideProcess(client, "booster").boost(options)
    await process.start()

    async def read():
        metadata = (await client.get(resources.WORKLOAD, "w", "default"))["metadata"]
        return (metadata.get("annotations") or {}).get(PRIORITY_BOOST)

    assert await until(read) == "-9"
    await process.stop()


@pytest.mark.parametrize(
    ("read", "document", "message"),
    [
        (side_controllers.populator_options, {"queue": "x"}, "queue: unknown field"),
        (side_controllers.populator_options, {"localQueueNameMode": "Random"}, "localQueueNameMode: 'Random' is not"),
        (side_controllers.booster_options, {"timeSharing": {"interval": "soon"}}, "timeSharing.interval:"),
    ],
)
def test_a_faulty_option_is_named(read, document, message):
    with pytest.raises(OptionsError) as caught:
        read(document)
    assert str(caught.value).startswith(message)
