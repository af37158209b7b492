"""Devices of nodes: ResourceSlices beside the Node manifests of a local cluster."""

from tests.cluster.local_cluster.cluster_fixture import CONTAINER, has_condition, job

from pykueue.api import objects, resources

NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "gpus-of-n"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}


async def names(client, resource):
    return [objects.name(obj) for obj in (await client.list(resource)).items]


async def test_resource_slices_of_the_manifests_are_created(start_cluster, client):
    await start_cluster("simulated", NODE, SLICE)
    assert await names(client, resources.RESOURCE_SLICE) == ["gpus-of-n"]
    assert await names(client, resources.NODE) == ["n"]


async def test_resource_slices_of_another_runtime_are_deleted(start_cluster, client):
    cluster = await start_cluster("simulated", NODE, SLICE)
    await cluster.cluster.stop()
    await start_cluster("none")
    assert await names(client, resources.RESOURCE_SLICE) == []


DEVICE_CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}}
CLAIM = {
    "metadata": {"name": "mine", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}


async def test_a_process_sees_its_device_and_gives_it_back(start_cluster, client):
    cluster = await start_cluster("process", NODE, SLICE)
    await client.create(resources.DEVICE_CLASS, DEVICE_CLASS, "")
    await cluster.create(resources.RESOURCE_CLAIM, CLAIM)
    container = CONTAINER | {"command": ["sh", "-c", "echo $PYKUEUE_DEVICES"]}
    container |= {"resources": {"claims": [{"name": "device"}]}}
    pod = {"resourceClaims": [{"name": "device", "resourceClaimName": "mine"}], "containers": [container]}
    await cluster.create(resources.JOB, job(pod=pod))
    await cluster.until(resources.JOB, "train", has_condition("Complete"))
    (ended,) = await cluster.pods()
    log = cluster.cluster.kubelet.runtime.log(ended, "main", 0).read_text()
    assert log == "gpu.example.com/n/gpu-0\n"
    await cluster.until(resources.RESOURCE_CLAIM, "mine", lambda claim: not objects.status(claim).get("allocation"))
