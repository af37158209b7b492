"""No workload gets capacity that was not admitted."""

import pytest
from tests.controllers.system.cluster import CONFIGURATION, JOBS, is_suspended, job, kueue, running_cluster, status_of

from pykueue.api import resources
from pykueue.api.errors import ApiError

WITH_PODS = {"integrations": {"frameworks": [*CONFIGURATION["integrations"]["frameworks"], "pod"]}}


def pod(name, *, cpu="1", group="", total=1, annotations=None):
    labels = {"kueue.x-k8s.io/queue-name": "cq"}
    if group:
        labels["kueue.x-k8s.io/pod-group-name"] = group
        annotations = {"kueue.x-k8s.io/pod-group-total-count": str(total), **(annotations or {})}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [container]},
    }


async def is_gated(cluster, name):
    pod = await cluster.get(resources.POD, name, "default")
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    return "kueue.x-k8s.io/admission" in gates


async def test_a_job_resumed_by_hand_is_stopped_again(cluster):
    await cluster.make_queue(cpu="0")
    await cluster.create(JOBS, job("a"), "default")
    await cluster.pends("a", "Job")
    await cluster.merge(JOBS, "a", {"spec": {"suspend": False}}, namespace="default")

    async def is_stopped():
        obj = await cluster.get(JOBS, "a", "default")
        return obj["metadata"]["generation"] > 2 and is_suspended(obj)

    await cluster.until(is_stopped)


async def test_a_job_cannot_be_created_running(cluster):
    await cluster.make_queue(cpu="0")
    created = await cluster.create(JOBS, job("a", suspend=False), "default")
    assert is_suspended(created)


async def test_the_queue_name_of_a_running_job_cannot_be_removed(cluster):
    await cluster.make_queue()
    await cluster.create(JOBS, job("a"), "default")
    await cluster.runs("a", JOBS)
    with pytest.raises(ApiError, match="field is immutable"):
        await cluster.merge(
            JOBS, "a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}, namespace="default"
        )


async def test_growing_after_admission_stops_the_job_and_counts_it_anew(cluster):
    await cluster.make_queue(cpu="2")
    await cluster.create(JOBS, job("a", parallelism=1, completions=9), "default")
    await cluster.runs("a", JOBS)
    await cluster.merge(JOBS, "a", {"spec": {"parallelism": 5}}, namespace="default")

    async def waits_for_five():
        workload = await cluster.workload_of("a")
        counted = workload is not None and workload["spec"]["podSets"][0]["count"] == 5
        return counted and status_of(workload, "QuotaReserved") == "False"

    await cluster.until(waits_for_five)
    assert is_suspended(await cluster.get(JOBS, "a", "default"))


async def test_negative_requests_are_worth_nothing(cluster):
    await cluster.make_queue(cpu="1")
    with pytest.raises(ApiError):
        await cluster.create(JOBS, job("a", cpu="-5"), "default")


async def test_requests_beyond_all_numbers_do_not_wrap_around(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("a", cpu="9E", parallelism=1000, completions=1000), "default")
    await cluster.pends("a", "Job")


async def test_a_group_cannot_take_over_somebody_elses_workload():
    async with running_cluster(WITH_PODS) as cluster:
        await cluster.make_queue(cpu="1")
        await cluster.create(JOBS, job("a"), "default")
        await cluster.runs("a", JOBS)
        theirs = (await cluster.workload_of("a"))["metadata"]["name"]
        await cluster.create(resources.POD, pod("thief", group=theirs), "default")
        await cluster.create(JOBS, job("b", cpu="0"), "default")
        await cluster.runs("b", JOBS)
        assert await is_gated(cluster, "thief")
        workload = await cluster.workload_of("a")
        assert len(workload["metadata"]["ownerReferences"]) == 1


async def test_a_forged_role_hash_does_not_release_a_bigger_pod():
    async with running_cluster(WITH_PODS) as cluster:
        await cluster.make_queue(cpu="1")
        await cluster.create(resources.POD, pod("small", cpu="1", group="g"), "default")

        async def is_released():
            return not await is_gated(cluster, "small")

        await cluster.until(is_released)
        role = (await cluster.get(resources.POD, "small", "default"))["metadata"]["annotations"][
            "kueue.x-k8s.io/role-hash"
        ]
        big = pod("big", cpu="64", group="g", annotations={"kueue.x-k8s.io/role-hash": role})
        await cluster.create(resources.POD, big, "default")

        async def is_removed():
            pod = await cluster.get(resources.POD, "big", "default")
            return pod is None or pod["metadata"].get("deletionTimestamp")

        await cluster.until(is_removed)


async def test_a_forged_role_hash_does_not_release_a_bigger_pod_of_the_group():
    async with running_cluster(WITH_PODS) as cluster:
        await cluster.make_queue(cpu="2")
        probe = await cluster.create(resources.POD, pod("probe", cpu="1"), "default")
        role = probe["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"]
        await cluster.client.delete(resources.POD, "probe", "default")
        forged = pod("big", cpu="64", group="g", total=2, annotations={"kueue.x-k8s.io/role-hash": role})
        await cluster.create(resources.POD, forged, "default")
        await cluster.create(resources.POD, pod("a-small", cpu="1", group="g", total=2), "default")

        async def small_is_released():
            return not await is_gated(cluster, "a-small")

        await cluster.until(small_is_released)
        assert await is_gated(cluster, "big")


async def test_a_group_with_too_few_pods_stays_gated():
    async with running_cluster(WITH_PODS) as cluster:
        await cluster.make_queue(cpu="4")
        await cluster.create(resources.POD, pod("one", group="g", total=2), "default")
        await cluster.create(JOBS, job("other"), "default")
        await cluster.runs("other", JOBS)
        assert await is_gated(cluster, "one")
        await cluster.create(resources.POD, pod("two", group="g", total=2), "default")

        async def both_are_released():
            return not await is_gated(cluster, "one") and not await is_gated(cluster, "two")

        await cluster.until(both_are_released)


async def test_a_workload_written_by_hand_cannot_admit_itself(cluster):
    await cluster.make_queue(cpu="0")
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    workload = kueue("Workload", "mine", queueName="cq", podSets=[{"name": "main", "count": 1, "template": template}])
    workload["metadata"]["namespace"] = "default"
    workload["status"] = {"conditions": [{"type": "Admitted", "status": "True", "reason": "R", "message": ""}]}
    created = await cluster.create(resources.WORKLOAD, workload, "default")
    assert not (created.get("status") or {}).get("conditions")
