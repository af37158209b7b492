import asyncio

from tests.cluster.local_cluster.cluster_fixture import CONTAINER, has_condition, job

from pykueue.api import conditions, objects, resources
from pykueue.cluster.autoscaler.pool import MIN_NODES

POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu-node-pool"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g2-standard-4"]}
                ]
            }
        },
        "disruption": {"consolidateAfter": "0s"},
    },
}
SMALL = {"metadata": {"name": "small"}, "status": {"capacity": {"cpu": "1", "memory": "1Gi"}}}


async def test_a_pool_grows_for_a_pod_and_shrinks_after_it(start_cluster):
    local_cluster = await start_cluster("simulated", SMALL, POOL)
    gpu = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
    container = CONTAINER | {"command": ["sleep", "0.5"], "resources": gpu}
    await local_cluster.create(resources.JOB, job(pod={"containers": [container]}))
    await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert (await local_cluster.pods())[0]["spec"]["nodeName"].startswith("gpu-node-pool-")
    async with asyncio.timeout(30):
        while True:
            nodes = [node["metadata"]["name"] for node in (await local_cluster.client.list(resources.NODE)).items]
            if nodes == ["small"]:
                break
            await asyncio.sleep(0.1)


async def test_a_node_of_a_pool_has_a_claim_that_owns_it(start_cluster):
    pool = POOL | {"metadata": {"name": "pool", "annotations": {MIN_NODES: "1"}}}
    local_cluster = await start_cluster("simulated", SMALL, pool)
    client = local_cluster.client

    async def ready_claims():
        claims = (await client.list(resources.NODE_CLAIM)).items
        return {objects.name(claim) for claim in claims if conditions.is_true(claim, "Ready")}

    async def nodes():
        return {objects.name(node) for node in (await client.list(resources.NODE)).items} - {"small"}

    async def settled(besides=""):
        async with asyncio.timeout(30):
            while True:
                claims = await ready_claims()
                if len(claims) == 1 and claims == await nodes() and besides not in claims:
                    return claims.pop()
                await asyncio.sleep(0.1)

    first = await settled()
    await client.delete(resources.NODE_CLAIM, first)
    second = await settled(besides=first)
    await client.delete(resources.NODE, second)
    assert await settled(besides=second) != first
