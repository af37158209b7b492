"""pykueue is killed many times while short jobs run: each job runs once and finishes."""

import asyncio
import random
import signal
import time

import pytest
from tests.cli.test_submit import OPTIONS
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE

from pykueue.api import conditions, resources
from pykueue.cli import job_request
from pykueue.cluster import pods
from pykueue.cluster.job_controller import job_view


def submit_all(cluster, names, runs):
    async def work(client):
        for name in names:
            command = ("sh", "-c", f"echo {name} >> {runs}; sleep 0.{random.randint(1, 9)}")
            await client.create(
                resources.JOB,
                job_request.job_of(OPTIONS | {"name": name, "queue": "user-queue", "command": command, "cpu": "100m"}),
                "default",
            )

    asyncio.run(api_calls.with_client(cluster.directory / "kubeconfig", work))


def wait_for_all(cluster, names):
    async def work(client):
        async with asyncio.timeout(100):
            while True:
                jobs = (await client.list(resources.JOB, "default")).items
                if sum(job_view.finished_condition(job) is not None for job in jobs) == len(names):
                    return jobs, (await client.list(resources.POD, "default")).items
                await asyncio.sleep(0.3)

    return asyncio.run(api_calls.with_client(cluster.directory / "kubeconfig", work))


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=[pytest.mark.torture, pytest.mark.timeout(1200)])])
def test_every_job_runs_once(cluster, tmp_path, kills):
    api_calls.create(cluster.directory / "kubeconfig", QUEUE)
    runs = tmp_path / "runs"
    names = []
    for number in range(kills):
        batch = [f"job-{number}-{index}" for index in range(8)]
        submit_all(cluster, batch, runs)
        names += batch
        time.sleep(random.uniform(0, 1))  # the moment of a kill is the point of this test
        cluster.stop(signal.SIGKILL)
        cluster.start()
    jobs, remaining = wait_for_all(cluster, names)
    assert sorted(runs.read_text().split()) == sorted(names)
    assert all(conditions.is_true(job, "Complete") for job in jobs)
    assert all(pods.phase(pod) == "Succeeded" for pod in remaining)
    assert len(remaining) == len(names)
