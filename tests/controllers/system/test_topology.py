"""Pods on their places, in a whole cluster: placed after provisioning, and moved when a node is
lost.
"""

import asyncio
import time

import pytest
from tests.controllers.system.cluster import JOBS, job, kueue, running_cluster
from tests.controllers.system.test_provisioning import CONTROLLER, answer

from pykueue.api import resources
from pykueue.api.kueue import topology_encoding
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster

HOSTNAME = "kubernetes.io/hostname"


class HurriedClock:
    """Runs faster: the Job controller waits ten seconds before it replaces a failed pod."""

    factor = 20

    def __init__(self):
        self.start_ns = time.time_ns()

    def now_ns(self):
        return self.start_ns + (time.time_ns() - self.start_ns) * self.factor

    async def sleep(self, seconds):
        await asyncio.sleep(seconds / self.factor)


def node(name):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, "pool": "tas"}},
        "status": {
            "allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": None}],
        },
    }


async def make_topology(cluster, **queue):
    await cluster.create(resources.TOPOLOGY, kueue("Topology", "hosts", levels=[{"nodeLabel": HOSTNAME}]))
    await cluster.create(
        resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "default", nodeLabels={"pool": "tas"}, topologyName="hosts")
    )
    await cluster.make_queue(**queue)


def placed_job(name, pods):
    placed = job(name, parallelism=pods, completions=pods)
    annotations = {"kueue.x-k8s.io/podset-unconstrained-topology": "true", "pykueue.dev/runtime": "600"}
    placed["spec"]["template"]["metadata"] = {"annotations": annotations}
    return placed


async def places(cluster, name):
    """Node to pods, as the workload says."""
    workload = await cluster.workload_of(name)
    admission = ((workload or {}).get("status") or {}).get("admission")
    if not admission or "topologyAssignment" not in admission["podSetAssignments"][0]:
        return {}
    domains = topology_encoding.decode(admission["podSetAssignments"][0]["topologyAssignment"])
    return {domain.values[-1]: domain.count for domain in domains}


async def running_on(cluster):
    pods = (await cluster.client.list(resources.POD, "default")).items
    return sorted(pod["spec"]["nodeName"] for pod in pods if (pod.get("status") or {}).get("phase") == "Running")


@pytest.fixture
async def cluster_with_nodes(cluster, tmp_path):
    options = ClusterOptions(runtime="simulated", directory=tmp_path, nodes=tuple(node(name) for name in "abc"))
    local_cluster = LocalCluster(cluster.client, HurriedClock(), options)
    await local_cluster.start()
    yield cluster
    await local_cluster.stop()


async def test_a_lost_node_is_replaced_and_its_pod_runs_elsewhere(cluster_with_nodes):
    await make_topology(cluster_with_nodes)
    await cluster_with_nodes.create(JOBS, placed_job("train", 2), "default")

    async def runs_on(*names):
        return await running_on(cluster_with_nodes) == list(names)

    await cluster_with_nodes.until(runs_on, "a", "b")
    await cluster_with_nodes.client.delete(resources.NODE, "a")
    await cluster_with_nodes.until(runs_on, "b", "c")
    assert await places(cluster_with_nodes, "train") == {"b": 1, "c": 1}
    assert "unhealthyNodes" not in (await cluster_with_nodes.workload_of("train"))["status"]


async def test_the_pods_of_a_grown_elastic_job_run(cluster_with_nodes):
    await make_topology(cluster_with_nodes)
    elastic = placed_job("train", 2)
    elastic["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    elastic["spec"] |= {"parallelism": 1, "completions": 9}
    await cluster_with_nodes.create(JOBS, elastic, "default")

    async def runs(count):
        return len(await running_on(cluster_with_nodes)) == count

    await cluster_with_nodes.until(runs, 1)
    await cluster_with_nodes.client.patch(JOBS, "train", "default", {"spec": {"parallelism": 2}})
    await cluster_with_nodes.until(runs, 2)


async def test_without_another_node_the_workload_is_evicted(cluster_with_nodes):
    await make_topology(cluster_with_nodes)
    await cluster_with_nodes.create(JOBS, placed_job("train", 3), "default")

    async def runs():
        return len(await running_on(cluster_with_nodes)) == 3

    async def failures():
        workload = await cluster_with_nodes.workload_of("train")
        stats = (workload["status"].get("schedulingStats") or {}).get("evictions") or ()
        return [stat["count"] for stat in stats if stat["reason"] == "NodeFailures"]

    await cluster_with_nodes.until(runs)
    await cluster_with_nodes.client.delete(resources.NODE, "a")
    assert await cluster_with_nodes.until(failures) == [1]


async def test_a_job_is_placed_only_after_its_machines_are_there(cluster):
    await cluster.create(
        resources.PROVISIONING_REQUEST_CONFIG,
        kueue("ProvisioningRequestConfig", "config", provisioningClassName="best-effort"),
    )
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
    await cluster.create(
        resources.ADMISSION_CHECK, kueue("AdmissionCheck", "capacity", controllerName=CONTROLLER, parameters=parameters)
    )
    await make_topology(cluster, admissionChecksStrategy={"admissionChecks": [{"name": "capacity"}]})
    await cluster.create(JOBS, placed_job("train", 1), "default")
    await answer(cluster, "Provisioned", "machines are there")

    async def has_failed():
        events = (await cluster.client.list(resources.EVENT, "default")).items
        return [event for event in events if event["reason"] == "SecondPassFailed"]

    await cluster.until(has_failed)
    assert not await cluster.is_running("train", JOBS)
    await cluster.create(resources.NODE, node("a"))
    await cluster.runs("train", JOBS)
    assert await places(cluster, "train") == {"a": 1}
    [assignment] = (await cluster.workload_of("train"))["status"]["admission"]["podSetAssignments"]
    assert assignment["delayedTopologyRequest"] == "Ready"


async def test_a_spark_application_without_templates_starts_in_a_queue_with_a_topology():
    configuration = {
        "integrations": {"frameworks": ["sparkoperator.k8s.io/sparkapplication"]},
        "featureGates": {"SparkApplicationIntegration": True},
    }
    async with running_cluster(configuration) as cluster:
        await cluster.create(resources.NODE, node("a"))
        await make_topology(cluster)
        application = {
            "metadata": {"name": "pi", "labels": {"kueue.x-k8s.io/queue-name": "cq"}},
            "spec": {
                "type": "Python",
                "mode": "cluster",
                "sparkVersion": "3.5.0",
                "mainApplicationFile": "local:///opt/pi.py",
                "driver": {"coreRequest": "200m"},
                "executor": {"instances": 1, "coreRequest": "200m"},
            },
        }
        await cluster.create(resources.SPARK_APPLICATION, application, "default")

        async def is_started():
            current = await cluster.get(resources.SPARK_APPLICATION, "pi", "default")
            return current if current["spec"].get("suspend") is False else None

        started = await cluster.until(is_started)
        [gate] = started["spec"]["driver"]["template"]["spec"]["schedulingGates"]
        assert gate["name"] == "kueue.x-k8s.io/topology"
