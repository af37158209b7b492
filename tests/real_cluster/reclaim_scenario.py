"""A scenario for fault tests: two queues of a cohort borrow, reclaim, finish and borrow again."""

import asyncio
from contextlib import asynccontextmanager

from tests.controllers.system.cluster import PYTORCH_JOBS, is_suspended, priority_class, pytorch_job, status_of

from pykueue.api import resources

QUOTA = 3
COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
SUCCEEDED = {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "done"}]}}


async def run(cluster):
    """Two of three jobs borrow; the lender's job reclaims its quota and ends; both run again."""
    await cluster.make_queue("lender", "2", cohortName="both", preemption={"reclaimWithinCohort": "Any"})
    await cluster.make_queue("borrower", "1", cohortName="both")
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("low", 1))
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    for name, priority in (("own", "high"), ("one", "low"), ("two", "low")):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, queue="borrower", priority=priority), "default")
        await cluster.runs(name)
    await cluster.create(PYTORCH_JOBS, pytorch_job("reclaimer", cpu="2", queue="lender"), "default")
    await cluster.runs("reclaimer")
    await cluster.merge(PYTORCH_JOBS, "reclaimer", SUCCEEDED, namespace="default", subresource="status")
    await cluster.runs("one")
    await cluster.runs("two")
    return await cluster.until(settled_state, cluster)


async def settled_state(cluster):
    """The final state without times and UIDs; None while something still changes."""
    queues = {name: await cluster.get(resources.CLUSTER_QUEUE, name) for name in ("lender", "borrower")}
    statuses = {name: queue.get("status") or {} for name, queue in queues.items()}
    counts = {name: [status.get(count) for count in COUNTS] for name, status in statuses.items()}
    if counts != {"lender": [0, 0, 0], "borrower": [0, 3, 3]}:
        return None
    workloads = (await cluster.client.list(resources.WORKLOAD, "default")).items
    if not all(status_of(workload, "PodsReady") for workload in workloads):
        return None
    jobs = (await cluster.client.list(PYTORCH_JOBS, "default")).items
    return {
        "queues": {name: _without_conditions(status) for name, status in statuses.items()},
        "jobs": {job["metadata"]["name"]: is_suspended(job) for job in jobs},
        "workloads": {
            workload["metadata"]["ownerReferences"][0]["name"]: _final_status(workload) for workload in workloads
        },
    }


def _without_conditions(status):
    return {name: value for name, value in status.items() if name != "conditions"}


def _final_status(workload):
    status = workload["status"]
    conditions = sorted(
        (condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]
    )
    return {"conditions": conditions, "admission": status.get("admission")}


class QuotaWatcher:
    """The highest usage at any moment, of Workloads with quota and of jobs that may run."""

    def __init__(self, client):
        self._client = client
        self.most_reserved = 0
        self.most_running = 0

    async def watch_workloads(self):
        async for used in self._usage(resources.WORKLOAD, _reserved):
            self.most_reserved = max(self.most_reserved, used)

    async def watch_jobs(self):
        async for used in self._usage(PYTORCH_JOBS, _running):
            self.most_running = max(self.most_running, used)

    async def _usage(self, resource, amount):
        """The total after every change; when the API server ends the watch, list again."""
        while True:
            listed = await self._client.list(resource, "default")
            amounts = {obj["metadata"]["name"]: amount(obj) for obj in listed.items}
            yield sum(amounts.values())
            async for event in self._client.watch(resource, "default", resource_version=listed.resource_version):
                if event.type != "BOOKMARK":
                    amounts[event.object["metadata"]["name"]] = 0 if event.type == "DELETED" else amount(event.object)
                    yield sum(amounts.values())


def _reserved(workload):
    if status_of(workload, "QuotaReserved") != "True" or status_of(workload, "Finished") == "True":
        return 0
    assignments = workload["status"]["admission"]["podSetAssignments"]
    return sum(int(assignment["resourceUsage"]["cpu"]) for assignment in assignments)


def _running(job):
    if is_suspended(job) or status_of(job, "Succeeded") == "True":
        return 0
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    return int(template["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@asynccontextmanager
async def quota_watched(client):
    """Assert that usage never exceeds the quota inside the block."""
    watcher = QuotaWatcher(client)
    watching = [asyncio.create_task(watcher.watch_workloads()), asyncio.create_task(watcher.watch_jobs())]
    yield
    assert [task.result() for task in watching if task.done()] == []
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    assert (watcher.most_reserved, watcher.most_running) == (QUOTA, QUOTA)
