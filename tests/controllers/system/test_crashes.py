"""A controller that dies at any write, or loses its watches, changes nothing in the end; quota is
never exceeded.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.controllers.system.cluster import (
    PYTORCH_JOBS,
    is_suspended,
    priority_class,
    pytorch_job,
    running_cluster,
    status_of,
)
from tests.controllers.system.disturbed import DyingClient, LosingClient

from pykueue.api import resources

QUOTA = 2
SUCCEEDED = {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "done"}]}}


async def play(cluster):
    """Two victims run, a winner preempts both, ends, and both come back."""
    await cluster.make_queue(cpu=str(QUOTA), preemption={"withinClusterQueue": "LowerPriority"})
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("low", 1))
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    for name in ("one", "two"):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, priority="low"), "default")
        await cluster.runs(name)
    await cluster.create(PYTORCH_JOBS, pytorch_job("winner", cpu="2", priority="high"), "default")
    await cluster.runs("winner")
    await cluster.merge(PYTORCH_JOBS, "winner", SUCCEEDED, namespace="default", subresource="status")
    await cluster.runs("one")
    await cluster.runs("two")
    return await cluster.until(settled_state, cluster)


async def settled_state(cluster):
    queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
    status = queue.get("status") or {}
    if (status.get("admittedWorkloads"), status.get("pendingWorkloads")) != (2, 0):
        return None
    workloads = (await cluster.client.list(resources.WORKLOAD, "default")).items
    if not all(status_of(workload, "PodsReady") for workload in workloads):
        return None
    jobs = (await cluster.client.list(PYTORCH_JOBS, "default")).items
    return {
        "queue": {name: value for name, value in status.items() if name != "conditions"},
        "jobs": {job["metadata"]["name"]: is_suspended(job) for job in jobs},
        "workloads": {
            workload["metadata"]["ownerReferences"][0]["name"]: sorted(
                (condition["type"], condition["status"], condition["reason"])
                for condition in workload["status"]["conditions"]
            )
            for workload in workloads
        },
    }


class QuotaWatcher:
    def __init__(self, client):
        self._client = client
        self._reserved = {}
        self.most = 0

    async def run(self):
        async for event in self._client.watch(resources.WORKLOAD, "default"):
            workload = event.object
            name = workload["metadata"]["name"]
            holds = event.type != "DELETED" and status_of(workload, "QuotaReserved") == "True"
            holds = holds and status_of(workload, "Finished") != "True"
            assignments = workload.get("status", {}).get("admission", {}).get("podSetAssignments", [])
            self._reserved[name] = (
                sum(int(assignment["resourceUsage"]["cpu"]) for assignment in assignments) if holds else 0
            )
            self.most = max(self.most, sum(self._reserved.values()))


@asynccontextmanager
async def watched_cluster():
    async with running_cluster(starts=False) as cluster:
        watcher = QuotaWatcher(cluster.client)
        task = asyncio.create_task(watcher.run())
        try:
            yield cluster, watcher
        finally:
            task.cancel()


@pytest.fixture(scope="module")
def undisturbed():
    """How it ends, and with how many writes."""
    return asyncio.run(_undisturbed())


async def _undisturbed():
    async with watched_cluster() as (cluster, _):
        client = DyingClient(cluster.client)
        await cluster.start(client)
        return await play(cluster), client.writes


async def with_a_death_at(write, *, writes_first):
    async with watched_cluster() as (cluster, watcher):
        client = DyingClient(cluster.client, write, writes_first=writes_first)

        async def replace_the_dead():
            await client.died.wait()
            await cluster.stop()
            await cluster.start()

        await cluster.start(client)
        replacement = asyncio.create_task(replace_the_dead())
        try:
            state = await play(cluster)
        finally:
            replacement.cancel()
        assert watcher.most <= QUOTA
        return state


@pytest.mark.parametrize("writes_first", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("write", [2, 9, 17, 25])
async def test_a_death_at_a_write_changes_nothing(write, writes_first, undisturbed):
    expected, _ = undisturbed
    state = await with_a_death_at(write, writes_first=writes_first)
    assert state == expected


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("writes_first", [True, False], ids=["after", "before"])
async def test_a_death_at_every_write_changes_nothing(writes_first, undisturbed):
    expected, writes = undisturbed
    for write in range(1, writes + 1):
        state = await with_a_death_at(write, writes_first=writes_first)
        assert state == expected, f"died at write {write} of {writes}"


async def test_lost_and_late_watches_change_nothing(undisturbed):
    expected, _ = undisturbed
    async with watched_cluster() as (cluster, watcher):
        await cluster.start(LosingClient(cluster.client))
        state = await play(cluster)
        assert watcher.most <= QUOTA
    assert state == expected
