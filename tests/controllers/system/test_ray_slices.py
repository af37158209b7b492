"""Elastic jobs without the pod integration: their pods are watched, and lose their gates."""

from tests.controllers.system.cluster import CONFIGURATION, running_cluster, status_of

from pykueue.api import resources
from pykueue.translate.jobs import ray

RAY_CLUSTERS = next(framework.resource for framework in ray.FRAMEWORKS if framework.resource.kind == "RayCluster")


def ray_cluster(name, workers):
    container = {"name": "ray", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    group = {"groupName": "workers", "replicas": workers, "minReplicas": 0, "maxReplicas": 9, "template": template}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "cq"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        },
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [group | {"rayStartParams": {}}],
        },
    }


async def test_a_gated_pod_of_a_deleted_slice_is_ungated():
    async with running_cluster(CONFIGURATION) as cluster:
        await cluster.make_queue(cpu="9")
        owner = await cluster.create(RAY_CLUSTERS, ray_cluster("foo", 1), "default")

        async def slice_of(count):
            for workload in (await cluster.client.list(resources.WORKLOAD, "default")).items:
                if workload["spec"]["podSets"][1]["count"] == count and status_of(workload, "Admitted") == "True":
                    return workload
            return None

        origin = await cluster.until(slice_of, 1)
        live = await cluster.get(RAY_CLUSTERS, "foo", "default")
        groups = [live["spec"]["workerGroupSpecs"][0] | {"replicas": 2}]
        await cluster.merge(RAY_CLUSTERS, "foo", {"spec": {"workerGroupSpecs": groups}}, namespace="default")
        newest = await cluster.until(slice_of, 2)

        async def is_finished():
            workload = await cluster.get(resources.WORKLOAD, origin["metadata"]["name"], "default")
            return status_of(workload, "Finished") == "True"

        await cluster.until(is_finished)
        name = origin["metadata"]["name"]
        await cluster.merge(resources.WORKLOAD, name, {"metadata": {"finalizers": None}}, namespace="default")
        await cluster.client.delete(resources.WORKLOAD, name, "default")
        gate = {"name": "kueue.x-k8s.io/elastic-job"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "worker-0",
                "namespace": "default",
                "labels": {"kueue.x-k8s.io/podset": newest["spec"]["podSets"][1]["name"]},
                "annotations": {"kueue.x-k8s.io/workload": name, "kueue.x-k8s.io/workload-slice-name": name},
                "ownerReferences": [
                    {
                        "apiVersion": "ray.io/v1",
                        "kind": "RayCluster",
                        "name": "foo",
                        "uid": owner["metadata"]["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [gate]},
        }
        await cluster.create(resources.POD, pod, "default")

        async def is_ungated():
            return not (await cluster.get(resources.POD, "worker-0", "default"))["spec"].get("schedulingGates")

        await cluster.until(is_ungated)
