"""The in-tree autoscaler of a RayJob, played by the test: its sizes count against quota."""

import pytest
from tests.controllers.system.cluster import running_cluster

from pykueue.api import objects, resources
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.kube.clock import WallClock


@pytest.fixture
async def cluster(tmp_path):
    frameworks = ["pod", "ray.io/rayjob", "ray.io/raycluster"]
    async with running_cluster({"integrations": {"frameworks": frameworks}}) as cluster:
        await cluster.make_queue(cpu="8")
        options = ClusterOptions(runtime="simulated", directory=tmp_path)
        local_cluster = LocalCluster(cluster.client, WallClock(), options)
        await local_cluster.start()
        yield cluster
        await local_cluster.stop()


def ray_job():
    container = {"name": "ray", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    group = {"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 50, "rayStartParams": {}}
    options = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": "tune",
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "cq"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        },
        "spec": {
            "entrypoint": "sleep 600",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": options,
                "headGroupSpec": {"rayStartParams": {}, "template": template},
                "workerGroupSpecs": [group | {"template": template}],
            },
        },
    }


async def running_workers(cluster):
    pods = (await cluster.client.list(resources.POD, "default")).items
    return sum(
        objects.labels(pod).get("ray.io/node-type") == "worker" and objects.status(pod).get("phase") == "Running"
        for pod in pods
    )


async def used_cpu(cluster):
    queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
    return queue["status"]["flavorsUsage"][0]["resources"][0]["total"]


async def scale(cluster, replicas):
    (ray_cluster,) = (await cluster.client.list(resources.RAY_CLUSTER, "default")).items
    group = ray_cluster["spec"]["workerGroupSpecs"][0] | {"replicas": replicas}
    patch = {"spec": {"workerGroupSpecs": [group]}}
    await cluster.client.patch(resources.RAY_CLUSTER, objects.name(ray_cluster), "default", patch)


async def test_what_the_autoscaler_adds_is_counted_and_waits_for_quota(cluster):
    await cluster.create(resources.RAY_JOB, ray_job(), "default")

    async def runs(workers, cpu):
        return await running_workers(cluster) == workers and await used_cpu(cluster) == cpu

    await cluster.until(runs, 1, "3")
    await scale(cluster, 3)
    await cluster.until(runs, 3, "5")
    await scale(cluster, 30)

    async def waits():
        workloads = (await cluster.client.list(resources.WORKLOAD, "default")).items
        return any(workload["spec"]["podSets"][1]["count"] == 30 for workload in workloads)

    await cluster.until(waits)
    assert await runs(3, "5")
