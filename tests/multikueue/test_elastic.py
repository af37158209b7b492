"""Elastic jobs, topologies and quotas of dispatched Workloads."""

import asyncio

import pytest
from tests.multikueue.fleet import job, play
from tests.multikueue.test_faults import has_no_copies, running_on

from pykueue.api import conditions, objects, resources

ELASTIC = {"featureGates": {"ElasticJobsViaWorkloadSlices": True}}


def elastic_job(name, parallelism):
    manifest = job(name, seconds="until-deleted", parallelism=parallelism, completions=100)
    manifest["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return manifest


@pytest.mark.parametrize("seed", range(3))
def test_an_elastic_job_grows_and_shrinks_on_its_worker(seed):
    async def story(fleet):
        client = fleet.manager.client
        await client.create(resources.JOB, elastic_job("job", 1), "default")
        worker = await fleet.until(running_on, fleet, "job")

        async def runs(count):
            return len(fleet[worker].machine.running()) == count

        await client.patch(resources.JOB, "job", "default", {"spec": {"parallelism": 3}})
        await fleet.until(runs, 3)
        other = next(name for name in fleet.workers if name != worker)
        assert await fleet[other].workloads() == []
        await client.patch(resources.JOB, "job", "default", {"spec": {"parallelism": 2}})
        await fleet.until(runs, 2)
        assert fleet[other].started == []
        await client.delete(resources.JOB, "job", "default")
        await fleet.until(has_no_copies, fleet, "job")

    play(story, seed=seed, configuration=ELASTIC, worker_configuration=ELASTIC)


def test_the_quota_of_the_manager_is_the_sum_of_its_workers_with_the_gate():
    gate = {"featureGates": {"MultiKueueManagerQuotaAutomation": True}}

    async def story(fleet):
        client = fleet.manager.client
        name = "MultiKueueManagerQuotaAutomation"

        async def automation():
            queue = await client.get(resources.CLUSTER_QUEUE, "queue")
            quota = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
            return (conditions.find(queue, name) or {}).get("reason"), quota

        async def becomes(*state):
            return await automation() == state

        await fleet.until(becomes, "NotRequested", "1")
        automated = {"spec": {"quotaManagement": "Automated"}}
        await client.patch(resources.MULTI_KUEUE_CONFIG, "config", "", automated)
        await fleet.until(becomes, "QuotaAutomated", "8")
        queue = await fleet["worker1"].client.get(resources.CLUSTER_QUEUE, "queue")
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "500m"
        await fleet["worker1"].client.update(resources.CLUSTER_QUEUE, queue)
        await fleet.until(becomes, "QuotaAutomated", "4500m")

    play(story, configuration=gate, manager_cpu="1")


def test_metrics_count_dispatched_and_admitted_workloads():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("job"), "default")
        await fleet.until(fleet.is_finished, "job")
        await asyncio.sleep(1)
        text = fleet.controllers["manager"].metrics.text().decode()
        lines = [line for line in text.splitlines() if line.startswith("multikueue_workloads_")]
        admitted = [line for line in lines if "admitted_total" in line and line.endswith(" 1.0")]
        assert len(admitted) == 1
        assert 'cluster_queue="queue"' in admitted[0]
        assert len([line for line in lines if "dispatched_total{" in line]) == 2

    play(story)


def test_the_pods_of_a_topology_are_placed_by_the_worker():
    topology = {"metadata": {"name": "hosts"}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}

    async def story(fleet):
        for cluster in (fleet.manager, *fleet.workers.values()):
            await cluster.client.create(resources.TOPOLOGY, topology)
            flavor = {
                "metadata": {"name": "tas"},
                "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "hosts"},
            }
            await cluster.client.create(resources.RESOURCE_FLAVOR, flavor)
            queue = await cluster.client.get(resources.CLUSTER_QUEUE, "queue")
            queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "tas"
            await cluster.client.update(resources.CLUSTER_QUEUE, queue)
        manifest = job("job", seconds="30")
        annotations = manifest["spec"]["template"]["metadata"]["annotations"]
        annotations["kueue.x-k8s.io/podset-required-topology"] = "kubernetes.io/hostname"
        await fleet.manager.client.create(resources.JOB, manifest, "default")
        worker = await fleet.until(running_on, fleet, "job")
        [copy] = await fleet[worker].workloads()
        assert copy["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
        [assignment] = (await fleet.workload_of("job"))["status"]["admission"]["podSetAssignments"]
        assert assignment["delayedTopologyRequest"] == "Ready"
        assert "topologyAssignment" not in assignment
        await fleet.until(fleet.is_finished, "job")
        assert objects.name(copy) == objects.name(await fleet.workload_of("job"))

    play(story)
