"""The finalizer of objects in use: set when they are created, and not again."""

from tests.controllers.system.cluster import kueue

from pykueue.api import resources

IN_USE = "kueue.x-k8s.io/resource-in-use"


async def has_finalizer(cluster, resource, name):
    obj = await cluster.get(resource, name)
    return obj is not None and IN_USE in (obj["metadata"].get("finalizers") or ())


async def test_a_flavor_in_use_can_be_removed_by_hand(cluster):
    await cluster.make_queue()
    await cluster.until(has_finalizer, cluster, resources.RESOURCE_FLAVOR, "default")
    await cluster.merge(resources.RESOURCE_FLAVOR, "default", {"metadata": {"finalizers": None}})
    await cluster.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "later"))
    await cluster.until(has_finalizer, cluster, resources.RESOURCE_FLAVOR, "later")
    assert not await has_finalizer(cluster, resources.RESOURCE_FLAVOR, "default")
    await cluster.client.delete(resources.RESOURCE_FLAVOR, "default")
    assert await cluster.get(resources.RESOURCE_FLAVOR, "default") is None


async def test_the_finalizer_of_a_topology_is_put_back(cluster):
    await cluster.create(
        resources.TOPOLOGY, kueue("Topology", "hosts", levels=[{"nodeLabel": "kubernetes.io/hostname"}])
    )
    await cluster.until(has_finalizer, cluster, resources.TOPOLOGY, "hosts")
    await cluster.merge(resources.TOPOLOGY, "hosts", {"metadata": {"finalizers": None}})
    await cluster.until(has_finalizer, cluster, resources.TOPOLOGY, "hosts")
