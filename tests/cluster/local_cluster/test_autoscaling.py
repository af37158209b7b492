import asyncio

from tests.cluster.local_cluster.cluster_fixture import CONTAINER, has_condition, job

from pykueue.api import resources

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
