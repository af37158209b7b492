"""A new process knows what the old one knew before it decides anything."""

from tests.controllers.system.cluster import JOBS, PYTORCH_JOBS, job, pytorch_job
from tests.controllers.system.disturbed import LateClient

from pykueue.api import resources
from pykueue.controllers.system import Controllers


def state_of(controllers):
    view = controllers.scheduler.engine.view
    return {
        queue.name: (
            sorted(
                (reserved.workload.key, sorted(reserved.usage.items())) for reserved in view.reservations(queue.name)
            ),
            sorted(workload.key for workload in view.pending_in_order(queue.name)),
        )
        for queue in view.cluster_queues()
    }


async def test_the_state_is_rebuilt_from_the_objects(cluster):
    await cluster.make_queue(cpu="2")
    for name in ("a", "b"):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name), "default")
        await cluster.runs(name)
    await cluster.create(PYTORCH_JOBS, pytorch_job("c"), "default")
    await cluster.pends("c")
    before = state_of(cluster.controllers)
    rebuilt = Controllers(cluster.client, cluster.configuration)
    decided = []
    rebuilt.scheduler._cycles._apply = decided.append
    await rebuilt.start()
    try:
        assert state_of(rebuilt) == before
    finally:
        await rebuilt.stop()


async def test_a_chain_of_owners_without_end_is_recorded(cluster):
    await cluster.make_queue()
    owner = await cluster.create(JOBS, job("job-0", queue="cq"), "default")
    for depth in range(1, 13):
        child = job(f"job-{depth}", queue="cq")
        child["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
        owner = await cluster.create(JOBS, child, "default")

    async def is_recorded():
        events = await cluster.client.list(resources.EVENT, "default")
        return any(event["reason"] == "JobNestingTooDeep" for event in events.items)

    await cluster.until(is_recorded)


async def test_jobs_that_are_listed_late_are_not_taken_for_gone(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(PYTORCH_JOBS, pytorch_job("a"), "default")
    await cluster.runs("a")
    await cluster.stop()
    late = LateClient(cluster.client, PYTORCH_JOBS)
    await cluster.start(late)
    await cluster.create(JOBS, job("b"), "default")
    await cluster.pends("b", "Job")
    late.may_list.set()
    workload = await cluster.workload_of("a", "PyTorchJob")
    assert [condition for condition in workload["status"]["conditions"] if condition["type"] == "Finished"] == []
