"""What campaigns found, each told as a short story of its own."""

import asyncio

import pytest
from tests.simulation.manifests import job, running_pods, set_up

from pykueue.api import conditions, resources
from pykueue.kube.client import DeleteOptions
from pykueue.simulate import invariants
from pykueue.simulate.campaign import Campaign
from pykueue.simulate.faults import FaultRates

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kubelet_repeats_writes_that_fail(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        campaign.system.faults.is_calm = False
        await client.create(resources.JOB, job("job", seconds="5", parallelism=3, completions=3), "default")
        await asyncio.sleep(60)
        await campaign.rest()
        await campaign.check_rest()
        assert conditions.is_true(await client.get(resources.JOB, "job", "default"), "Complete")

    Campaign(seed, rates=FaultRates(server_error=0.4)).run(story)


@pytest.mark.parametrize("seed", range(8))
def test_a_queue_status_forgets_an_admission_that_came_too_late(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        campaign.system.faults.is_calm = False
        for name in ("one", "two", "three"):
            await client.create(resources.JOB, job(name), "default")
            await asyncio.sleep(3)
            await client.delete(resources.JOB, name, "default", DeleteOptions(propagation_policy="Background"))
        await campaign.rest()
        await campaign.check_rest()

    Campaign(seed, rates=FaultRates(very_slow=1.0)).run(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_of_a_job_that_was_orphaned_while_its_controller_was_down_can_be_deleted(seed):
    async def story(campaign):
        system = campaign.system
        await set_up(campaign)
        await system.client.create(resources.JOB, job("job"), "default")
        await campaign.rest(30)
        [pod] = await running_pods(system)
        system.cluster.kill()
        options = DeleteOptions(propagation_policy="Orphan")
        await system.client.delete(resources.JOB, "job", "default", options)
        await asyncio.sleep(5)
        system.cluster.start()
        await campaign.rest(30)
        await system.client.delete(resources.POD, pod, "default")
        await campaign.rest(30)
        assert invariants.leftovers(system) == []

    Campaign(seed).run(story)


@pytest.mark.parametrize("seed", range(12))
def test_a_job_that_loses_its_pods_to_an_orphaning_deletion_creates_no_others(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        names = ("one", "two", "three", "four")
        for name in names:
            await client.create(resources.JOB, job(name), "default")
        campaign.system.faults.is_calm = False
        while await _pods(client) < len(names):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        for name in names:
            await client.delete(resources.JOB, name, "default", DeleteOptions(propagation_policy="Orphan"))
        await asyncio.sleep(10)
        await campaign.rest(30)
        assert await _pods(client) == len(names)

    Campaign(seed, rates=FaultRates(slow=1.0, very_slow=0.1)).run(story)


async def _pods(client):
    return len((await client.list(resources.POD, "default")).items)
