"""Six Jobs in a queue for four: when four are admitted, all are deleted.

No quota and no Workload may be left.
"""

import asyncio

import pytest
from tests.simulation.manifests import admitted, job, set_up

from pykueue.api import resources
from pykueue.kube.client import DeleteOptions
from pykueue.simulate import invariants
from pykueue.simulate.campaign import Campaign

SHORT, LONG = range(25), range(25, 200)
NAMES = [f"job-{number}" for number in range(6)]


async def _delete_race(campaign):
    system = campaign.system
    await set_up(campaign)
    system.faults.is_calm = False
    await asyncio.gather(*(system.client.create(resources.JOB, job(name), "default") for name in NAMES))
    while await admitted(system) < 4:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.001)
    options = DeleteOptions(propagation_policy="Background")
    await asyncio.gather(*(system.client.delete(resources.JOB, name, "default", options) for name in NAMES))
    await campaign.rest(40)
    await campaign.check_rest()
    assert invariants.leftovers(system) == []


@pytest.mark.parametrize("seed", SHORT)
def test_deleted_jobs_leave_nothing(seed):
    Campaign(seed).run(_delete_race)


@pytest.mark.torture
@pytest.mark.parametrize("seed", LONG)
def test_deleted_jobs_leave_nothing_in_many_orders(seed):
    Campaign(seed).run(_delete_race)
