"""TrainJobs and their runtimes, on the API in memory; the test plays the Trainer."""

import pytest
from tests.controllers.system.cluster import running_cluster, status_of

from pykueue.api import resources
from pykueue.translate.jobs import train_job

TRAIN_JOBS = train_job.FRAMEWORK.resource
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


@pytest.fixture
async def cluster():
    async with running_cluster({"integrations": {"frameworks": [train_job.FRAMEWORK.name]}}) as cluster:
        await cluster.make_queue(cpu="4")
        yield cluster


async def submitted(cluster):
    labels = {"kueue.x-k8s.io/queue-name": "cq"}
    job = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "tune", "namespace": "default", "labels": labels},
        "spec": {"runtimeRef": {"name": "plain"}, "trainer": {"numNodes": 3}},
    }
    return await cluster.create(TRAIN_JOBS, job, "default")


async def with_runtime(cluster):
    container = {"name": "node", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {STEP: "trainer"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    runtime = {
        "apiVersion": resources.CLUSTER_TRAINING_RUNTIME.api_version,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "plain"},
        "spec": {"mlPolicy": {}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}}},
    }
    await cluster.create(resources.CLUSTER_TRAINING_RUNTIME, runtime)


def replicated_jobs(job):
    [patch] = job["spec"]["runtimePatches"]
    return patch["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs")


async def test_a_job_waits_for_its_runtime_and_then_runs_with_the_patches_of_kueue(cluster):
    await submitted(cluster)
    await with_runtime(cluster)
    await cluster.until(cluster.is_running, "tune", TRAIN_JOBS)
    [replicated_job] = replicated_jobs(await cluster.get(TRAIN_JOBS, "tune", "default"))
    labels = replicated_job["template"]["spec"]["template"]["metadata"]["labels"]
    assert (replicated_job["name"], labels["kueue.x-k8s.io/podset"]) == ("node", "node")
    workload = await cluster.workload_of("tune", "TrainJob")
    assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "3"}


async def test_an_evicted_job_keeps_its_gifts_until_it_has_no_pods(cluster):
    await with_runtime(cluster)
    await submitted(cluster)
    await cluster.until(cluster.is_running, "tune", TRAIN_JOBS)
    active = {"status": {"jobsStatus": [{"name": "node", "active": 1}]}}
    await cluster.merge(TRAIN_JOBS, "tune", active, namespace="default", subresource="status")
    workload = await cluster.workload_of("tune", "TrainJob")
    name = workload["metadata"]["name"]
    await cluster.merge(resources.WORKLOAD, name, {"spec": {"active": False}}, namespace="default")

    async def is_suspended():
        return (await cluster.get(TRAIN_JOBS, "tune", "default"))["spec"]["suspend"]

    await cluster.until(is_suspended)
    assert replicated_jobs(await cluster.get(TRAIN_JOBS, "tune", "default"))
    idle = {"status": {"jobsStatus": [{"name": "node", "active": 0}]}}
    await cluster.merge(TRAIN_JOBS, "tune", idle, namespace="default", subresource="status")

    async def is_tidy():
        return replicated_jobs(await cluster.get(TRAIN_JOBS, "tune", "default")) is None

    await cluster.until(is_tidy)

    async def has_given_back():
        return status_of(await cluster.workload_of("tune", "TrainJob"), "QuotaReserved") == "False"

    await cluster.until(has_given_back)
