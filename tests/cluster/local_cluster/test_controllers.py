"""The controllers of the cluster on the embedded API, without a runtime."""

import asyncio

from tests.cluster.local_cluster.cluster_fixture import has_condition, job

from pykueue.api import resources


def counts(*, succeeded):
    """Whether some pods are active and `succeeded` were counted."""

    def holds(obj):
        status = obj.get("status", {})
        return status.get("active") and status.get("succeeded", 0) == succeeded

    return holds


async def test_a_job_runs_to_completion(local_cluster):
    await local_cluster.create(resources.JOB, job(parallelism=2, completions=3))
    for done in range(3):
        await local_cluster.until(resources.JOB, "train", counts(succeeded=done))
        pod = next(pod for pod in await local_cluster.pods() if pod["status"]["phase"] == "Pending")
        await local_cluster.play_kubelet(pod, "Succeeded")
    done = await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"]["succeeded"] == 3
    assert len(await local_cluster.pods()) == 3
    assert not any(pod["metadata"].get("finalizers") for pod in await local_cluster.pods())


async def test_a_deadline_far_away_hides_no_change_of_pods(local_cluster):
    await local_cluster.create(resources.JOB, job(activeDeadlineSeconds=3600))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active"))
    await local_cluster.play_kubelet((await local_cluster.pods())[0], "Succeeded")
    await local_cluster.until(resources.JOB, "train", has_condition("Complete"))


async def test_a_failed_job_ends_though_its_other_pod_goes_without_a_node(local_cluster):
    await local_cluster.create(resources.JOB, job(parallelism=2, completions=2, backoffLimit=0))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active") == 2)
    await local_cluster.play_kubelet((await local_cluster.pods())[0], "Failed", exit_code=1)
    await local_cluster.until(resources.JOB, "train", has_condition("Failed"))


async def test_a_suspended_job_waits_until_it_is_resumed(local_cluster):
    await local_cluster.create(resources.JOB, job(suspend=True))
    await local_cluster.until(resources.JOB, "train", has_condition("Suspended"))
    assert await local_cluster.pods() == []
    await local_cluster.client.patch(resources.JOB, "train", "default", {"spec": {"suspend": False}})
    running = await local_cluster.until(resources.JOB, "train", lambda obj: obj["status"].get("active"))
    assert running["status"]["startTime"]


async def test_no_pod_is_made_twice_in_a_crowd(local_cluster):
    names = [f"job-{number}" for number in range(20)]
    await asyncio.gather(
        *(local_cluster.create(resources.JOB, job(name, parallelism=5, completions=5)) for name in names)
    )
    for name in names:
        await local_cluster.until(resources.JOB, name, lambda obj: obj.get("status", {}).get("active") == 5)
    assert len(await local_cluster.pods()) == 100


async def test_pods_go_with_their_job(local_cluster):
    await local_cluster.create(resources.JOB, job())
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active"))
    (pod,) = await local_cluster.pods()
    await local_cluster.client.raw("DELETE", "/apis/batch/v1/namespaces/default/jobs/train")
    await local_cluster.client.delete(resources.POD, pod["metadata"]["name"], "default")
    await local_cluster.until_gone(resources.POD, pod["metadata"]["name"])


async def test_a_finished_job_goes_when_its_time_is_over(local_cluster):
    await local_cluster.create(resources.JOB, job(ttlSecondsAfterFinished=0))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active"))
    await local_cluster.play_kubelet((await local_cluster.pods())[0], "Succeeded")
    await local_cluster.until(resources.JOB, "train", lambda obj: "deletionTimestamp" in obj["metadata"])


async def test_a_job_managed_elsewhere_is_left_alone(local_cluster):
    await local_cluster.create(resources.JOB, job("foreign", managedBy="kueue.x-k8s.io/multikueue"))
    await local_cluster.create(resources.JOB, job("ours"))
    await local_cluster.until(resources.JOB, "ours", lambda obj: obj.get("status", {}).get("active"))
    assert "active" not in (await local_cluster.client.get(resources.JOB, "foreign", "default")).get("status", {})


async def test_a_deployment_gets_its_pods(local_cluster):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    await local_cluster.create(
        resources.DEPLOYMENT,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    await local_cluster.until(
        resources.DEPLOYMENT, "web", lambda obj: obj.get("status", {}).get("updatedReplicas") == 2
    )
    assert len(await local_cluster.pods()) == 2


async def test_events_are_recorded(local_cluster):
    await local_cluster.create(resources.JOB, job())
    async with asyncio.timeout(30):
        async for event in local_cluster.client.watch(resources.CORE_EVENT, "default"):
            if event.object["reason"] == "SuccessfulCreate":
                break
    assert event.object["message"].startswith("Created pod: train-")
    assert event.object["source"] == {"component": "job-controller"}
