"""Workloads of one second are tried in the order of their arrival."""

from tests.controllers.system.cluster import status_of
from tests.controllers.system.test_requeue import workload

from pykueue.api import resources


async def test_the_first_of_several_workloads_of_one_second_is_admitted(cluster):
    """By uid, which Kueue and the engine fall back to, another one is first half of the time."""
    for number in range(8):
        queue = f"cq-{number}"
        await cluster.make_queue(queue, cpu="1")
        for name in (f"first-{number}", f"second-{number}"):
            await cluster.create(resources.WORKLOAD, workload(name, queue=queue), "default")

    async def is_first_admitted(number):
        obj = await cluster.get(resources.WORKLOAD, f"first-{number}", "default")
        return status_of(obj, "Admitted") == "True"

    for number in range(8):
        await cluster.until(is_first_admitted, number)
