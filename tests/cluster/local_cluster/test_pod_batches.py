"""When a Job counts its pods, in virtual time: as Kubernetes does if others write their statuses."""

import asyncio
import random

import pytest
from tests.cluster.local_cluster.cluster_fixture import ClusterFixture, job

from pykueue.api import objects, registry, resources
from pykueue.apiserver import bootstrap
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock


async def run_beside_a_cluster(scenario):
    """Runs the scenario with a cluster without a runtime, in virtual time."""
    scheme = registry.scheme()
    core = Core(Store(MemoryLog()), scheme)
    await core.start()
    await bootstrap.ensure(core, scheme, 6443)
    client = LocalClient(core, scheme, shows_managers=False)
    cluster = LocalCluster(client, VirtualClock(asyncio.get_running_loop()), ClusterOptions(runtime="none"))
    await cluster.start()
    try:
        return await scenario(ClusterFixture(client, cluster))
    finally:
        await cluster.stop()
        await core.stop()


async def numbers_succeeded(cluster):
    """Every value that `status.succeeded` has until the Job is complete."""
    numbers = set()
    async for event in cluster.client.watch(resources.JOB, "default"):
        status = objects.status(event.object)
        numbers.add(status.get("succeeded", 0))
        if status.get("completionTime"):
            return numbers
    raise AssertionError


@pytest.mark.parametrize(("pause_seconds", "numbers"), [(0.9, {0, 2}), (1.5, {0, 1, 2})])
@pytest.mark.parametrize("seed", range(5))
def test_pods_that_end_within_a_second_are_counted_together(pause_seconds, numbers, seed):
    async def scenario(cluster):
        await cluster.create(resources.JOB, job(parallelism=2, completions=2))
        await cluster.until(resources.JOB, "train", lambda obj: objects.status(obj).get("active") == 2)
        await asyncio.sleep(3)
        history = asyncio.ensure_future(numbers_succeeded(cluster))
        first, second = await cluster.pods()
        await cluster.play_kubelet(first, "Succeeded")
        await asyncio.sleep(pause_seconds)
        await cluster.play_kubelet(second, "Succeeded")
        return await history

    loop = SimulationLoop(random.Random(seed))  # type: ignore[abstract] # without I/O
    assert loop.run_until_complete(run_beside_a_cluster(scenario)) == numbers
