"""Six one-CPU Jobs in a queue of four: when four are admitted, all are deleted, over HTTP.

A job that starts because another one leaves is deleted at the same moment. No Workload, pod or
quota may be left, whatever runs the pods.
"""

import asyncio

import pytest
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE, Cluster

from pykueue.api import conditions, resources
from pykueue.kube.client import DeleteOptions

NAMES = [f"job-{number}" for number in range(6)]
LONG = [pytest.mark.torture, pytest.mark.timeout(3600)]


def job(name):
    container = {"name": "main", "image": "image", "command": ["sleep", "60"]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    pod["containers"] = [container | {"resources": {"requests": {"cpu": "1"}}}]
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": pod}}}


async def until(holds):
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def race(client):
    async def four_are_admitted():
        workloads = (await client.list(resources.WORKLOAD, "default")).items
        return sum(conditions.is_true(workload, "Admitted") for workload in workloads) >= 4

    async def nothing_is_left():
        lists = [await client.list(kind, "default") for kind in (resources.WORKLOAD, resources.JOB, resources.POD)]
        return not any(page.items for page in lists)

    await asyncio.gather(*(client.create(resources.JOB, job(name), "default") for name in NAMES))
    await until(four_are_admitted)
    options = DeleteOptions(propagation_policy="Background")
    await asyncio.gather(*(client.delete(resources.JOB, name, "default", options) for name in NAMES))
    await until(nothing_is_left)


@pytest.fixture
def cluster(tmp_path, runtime):
    started = Cluster(tmp_path / "data").start("--runtime", runtime)
    yield started
    started.run("down", "--data-dir", str(started.directory))
    if started.process.returncode is None:
        started.process.communicate(timeout=30)


@pytest.mark.parametrize("runtime", ["simulated", "process", "none"])
@pytest.mark.parametrize("rounds", [2, pytest.param(200, marks=LONG)])
def test_deleted_jobs_leave_nothing(cluster, rounds):
    async def play(client):
        for _ in range(rounds):
            await race(client)

        async def all_quota_is_free():
            status = (await client.get(resources.CLUSTER_QUEUE, "shared"))["status"]
            return status["reservingWorkloads"] == status["pendingWorkloads"] == 0

        await until(all_quota_is_free)

    kubeconfig = cluster.directory / "kubeconfig"
    api_calls.create(kubeconfig, QUEUE.replace("nominalQuota: 1", "nominalQuota: 4"))
    asyncio.run(api_calls.with_client(kubeconfig, play))
