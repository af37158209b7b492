from tests.controllers.system.cluster import CONFIGURATION, PYTORCH_JOBS, pytorch_job, running_cluster

from pykueue.api import resources

SAMPLED = {**CONFIGURATION, "admissionFairSharing": {"usageHalfLifeTime": "1s", "usageSamplingInterval": "100ms"}}


async def consumed(cluster):
    queue = await cluster.get(resources.LOCAL_QUEUE, "cq", "default")
    sharing = (queue.get("status") or {}).get("fairSharing") or {}
    return (sharing.get("admissionFairSharingStatus") or {}).get("consumedResources")


async def test_the_usage_of_a_local_queue_is_in_its_status_and_survives_a_restart():
    async with running_cluster(SAMPLED) as cluster:
        scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        await cluster.make_queue(admissionScope=scope)
        await cluster.create(PYTORCH_JOBS, pytorch_job("a"), "default")
        await cluster.runs("a")

        async def something_was_consumed():
            return "cpu" in (await consumed(cluster) or {})

        await cluster.until(something_was_consumed)
        await cluster.stop()
        await cluster.start()
        view = cluster.controllers.scheduler.engine.view

        async def it_is_remembered():
            return view.consumed("default/cq").get("cpu")

        await cluster.until(it_is_remembered)
