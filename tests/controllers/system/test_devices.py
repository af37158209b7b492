"""Devices that pods claim, in a whole cluster: counted against quota under the name that the
Configuration gives them.
"""

import pytest
from tests.controllers.system.cluster import CONFIGURATION, JOBS, job, kueue, running_cluster

from pykueue.api import resources

MAPPINGS = [{"name": "example.com/gpu", "deviceClassNames": ["gpu.example.com"]}]
NOT_FOUND = (
    "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for"
    ' ResourceClaimTemplate gpus in podset main: ResourceClaimTemplate.resource.k8s.io "gpus" not found'
)


@pytest.fixture
async def cluster():
    async with running_cluster({**CONFIGURATION, "resources": {"deviceClassMappings": MAPPINGS}}) as running:
        await running.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "default"))
        quotas = [{"name": "cpu", "nominalQuota": "9"}, {"name": "example.com/gpu", "nominalQuota": "4"}]
        flavor = {"name": "default", "resources": quotas}
        groups = [{"coveredResources": ["cpu", "example.com/gpu"], "flavors": [flavor]}]
        await running.create(
            resources.CLUSTER_QUEUE, kueue("ClusterQueue", "cq", namespaceSelector={}, resourceGroups=groups)
        )
        queue = kueue("LocalQueue", "cq", clusterQueue="cq")
        await running.create(resources.LOCAL_QUEUE, queue, "default")
        yield running


def claiming_job(name, pods):
    claiming = job(name, parallelism=pods, completions=pods)
    claiming["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    return claiming


def template(count):
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


async def condition(cluster, name, condition_type):
    workload = await cluster.workload_of(name)
    conditions = ((workload or {}).get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == condition_type and item["status"] == "False"), None)


async def test_claimed_devices_are_charged(cluster):
    await cluster.create(resources.RESOURCE_CLAIM_TEMPLATE, template(2), "default")
    await cluster.create(JOBS, claiming_job("train", 2), "default")
    await cluster.runs("train", JOBS)
    workload = await cluster.workload_of("train")
    [assignment] = workload["status"]["admission"]["podSetAssignments"]
    assert assignment["resourceUsage"] == {"cpu": "2", "example.com/gpu": "4"}


async def test_a_job_without_its_template_waits_for_it(cluster):
    await cluster.create(JOBS, claiming_job("train", 1), "default")
    requeued = await cluster.until(condition, cluster, "train", "Requeued")
    assert (requeued["reason"], requeued["message"]) == ("Inadmissible", NOT_FOUND)
    await cluster.create(resources.RESOURCE_CLAIM_TEMPLATE, template(1), "default")
    await cluster.runs("train", JOBS)
    assert await condition(cluster, "train", "Requeued") is None
