"""A scenario for faults: two queues that lend to each other, a preemption, a finish, and everybody back."""

import asyncio
from contextlib import asynccontextmanager

from tests.controllers.system.cluster import PYTORCH_JOBS, is_suspended, priority_class, pytorch_job, status_of

from pykueue.api import resources

QUOTA = 3
COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
SUCCEEDED = {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "done"}]}}


async def play(cluster):
    """Two of three jobs borrow, the lender's job takes its quota back, ends, and both return."""
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
    """How it ended, without times and UIDs; None while something still moves."""
    queues = {name: await cluster.get(resources.CLUSTER_QUEUE, name) for name in ("lender", "borrower")}
    statuses = {name: queue.get("status") or {} for name, queue in queues.items()}
    counts = {name: [status.get(count) for count in COUNTS] for name, status in statuses.items()}
    if counts != {"lender": [0, 0, 0], "borrower": [0, 3, 3]}:
        return None
    workloads = (await cluster.client.list(resources.WORKLOAD, "default")).items
    if not all(status_of(each, "PodsReady") for each in workloads):
        return None
    jobs = (await cluster.client.list(PYTORCH_JOBS, "default")).items
    return {
        "queues": {name: _without_conditions(status) for name, status in statuses.items()},
        "jobs": {job["metadata"]["name"]: is_suspended(job) for job in jobs},
        "workloads": {each["metadata"]["ownerReferences"][0]["name"]: _ended(each) for each in workloads},
    }


def _without_conditions(status):
    return {name: value for name, value in status.items() if name != "conditions"}


def _ended(workload):
    status = workload["status"]
    conditions = sorted((each["type"], each["status"], each["reason"]) for each in status["conditions"])
    return {"conditions": conditions, "admission": status.get("admission")}


class QuotaWatcher:
    """The most that was ever held at one moment: by Workloads with a reservation, and by jobs that may run."""

    def __init__(self, client):
        self._client = client
        self.most_reserved = 0
        self.most_running = 0

    async def watch_workloads(self):
        async for held in self._held(resources.WORKLOAD, _reserved):
            self.most_reserved = max(self.most_reserved, held)

    async def watch_jobs(self):
        async for held in self._held(PYTORCH_JOBS, _running):
            self.most_running = max(self.most_running, held)

    async def _held(self, resource, amount):
        """An API server may end a watch at any time: then everything is counted anew."""
        while True:
            found = await self._client.list(resource, "default")
            holding = {each["metadata"]["name"]: amount(each) for each in found.items}
            yield sum(holding.values())
            async for event in self._client.watch(resource, "default", resource_version=found.resource_version):
                if event.type != "BOOKMARK":
                    holding[event.object["metadata"]["name"]] = 0 if event.type == "DELETED" else amount(event.object)
                    yield sum(holding.values())


def _reserved(workload):
    if status_of(workload, "QuotaReserved") != "True" or status_of(workload, "Finished") == "True":
        return 0
    return sum(int(each["resourceUsage"]["cpu"]) for each in workload["status"]["admission"]["podSetAssignments"])


def _running(job):
    if is_suspended(job) or status_of(job, "Succeeded") == "True":
        return 0
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    return int(template["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@asynccontextmanager
async def quota_watched(client):
    """Nobody holds more than there is, at any moment inside."""
    watcher = QuotaWatcher(client)
    watching = [asyncio.create_task(watcher.watch_workloads()), asyncio.create_task(watcher.watch_jobs())]
    yield
    assert [task.result() for task in watching if task.done()] == []
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    assert (watcher.most_reserved, watcher.most_running) == (QUOTA, QUOTA)
