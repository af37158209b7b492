"""Six Jobs in a queue for four: when four are admitted, all are deleted. No quota and no Workload may be left."""

import asyncio

import pytest

from pykueue.api import conditions, resources
from pykueue.kube.client import DeleteOptions
from pykueue.simulate import invariants
from pykueue.simulate.campaign import Campaign

SHORT, LONG = range(25), range(25, 200)


def _queue():
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return {"metadata": {"name": "queue"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}


def _job(number):
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    return {"metadata": {"name": f"job-{number}", "labels": labels}, "spec": {"template": template}}


async def _delete_race(campaign):
    system = campaign.system
    await system.start()
    await system.client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "default"}})
    await system.client.create(resources.CLUSTER_QUEUE, _queue())
    queue = {"metadata": {"name": "queue"}, "spec": {"clusterQueue": "queue"}}
    await system.client.create(resources.LOCAL_QUEUE, queue, "default")
    await campaign.rest(5)
    system.faults.is_calm = False
    await asyncio.gather(*(system.client.create(resources.JOB, _job(number), "default") for number in range(6)))
    while await _admitted(system) < 4:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.001)
    options = DeleteOptions(propagation_policy="Background")
    names = [f"job-{number}" for number in range(6)]
    await asyncio.gather(*(system.client.delete(resources.JOB, name, "default", options) for name in names))
    await campaign.rest(40)
    await campaign.check_rest()
    assert invariants.leftovers(system) == []


async def _admitted(system):
    workloads = (await system.client.list(resources.WORKLOAD, "default")).items
    return sum(conditions.is_true(workload, "Admitted") for workload in workloads)


@pytest.mark.parametrize("seed", SHORT)
def test_deleted_jobs_leave_nothing(seed):
    Campaign(seed).run(_delete_race)


@pytest.mark.torture
@pytest.mark.parametrize("seed", LONG)
def test_deleted_jobs_leave_nothing_in_many_orders(seed):
    Campaign(seed).run(_delete_race)
