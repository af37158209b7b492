"""Devices of nodes: ResourceSlices beside the Node manifests of a local cluster."""

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
