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


async def test_a_workload_of_a_cluster_queue_without_spec_has_a_reason(cluster, caplog):
    """The API requires no spec of a ClusterQueue, and none of a LocalQueue."""
    await cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "empty"}})
    await cluster.client.patch(resources.CLUSTER_QUEUE, "empty", "", {"spec": None})
    local_queue = {"metadata": {"name": "empty"}, "spec": {"clusterQueue": "empty"}}
    await cluster.create(resources.LOCAL_QUEUE, local_queue, "default")
    await cluster.create(resources.LOCAL_QUEUE, {"metadata": {"name": "nowhere"}}, "default")
    for queue in ("empty", "nowhere"):
        await cluster.create(resources.WORKLOAD, workload(queue, queue=queue), "default")

    async def has_reason(name):
        obj = await cluster.get(resources.WORKLOAD, name, "default")
        return status_of(obj, "QuotaReserved") == "False"

    for name in ("empty", "nowhere"):
        await cluster.until(has_reason, name)
    assert not [record for record in caplog.records if record.exc_info]
