"""Evicted Workloads that no job controller of ours looks after come back after their backoff."""

from tests.controllers.system.cluster import (
    PYTORCH_JOBS,
    kueue,
    priority_class,
    pytorch_job,
    running_cluster,
    status_of,
)

from pykueue.api import resources

PODS_READY = {"timeout": "1s", "requeuingStrategy": {"backoffBaseSeconds": 1}}


def workload(name, *, cpu="1", queue="cq"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    obj = kueue("Workload", name, queueName=queue, podSets=[pod_set])
    obj["metadata"]["namespace"] = "default"
    return obj


async def test_quota_released_before_requeue_at_is_reserved_again():
    async with running_cluster({"waitForPodsReady": PODS_READY}) as cluster:
        await cluster.make_queue()
        await cluster.create(resources.WORKLOAD, workload("plain"), "default")

        async def has_condition(condition_type):
            obj = await cluster.get(resources.WORKLOAD, "plain", "default")
            return obj if status_of(obj, condition_type) == "True" else None

        evicted = await cluster.until(has_condition, "Evicted")
        assert "requeueAt" in evicted["status"]["requeueState"]
        pending = [
            condition | {"status": "False", "reason": "Pending"}
            if condition["type"] in ("QuotaReserved", "Admitted")
            else condition
            for condition in evicted["status"]["conditions"]
        ]
        await cluster.merge(
            resources.WORKLOAD,
            "plain",
            {"status": {"admission": None, "conditions": pending}},
            namespace="default",
            subresource="status",
        )
        await cluster.until(has_condition, "QuotaReserved")


async def test_a_preempted_job_comes_back_by_itself_after_the_requeue_interval(cluster):
    await cluster.make_queue(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 100))
    await cluster.create(PYTORCH_JOBS, pytorch_job("low"), "default")
    await cluster.runs("low")
    await cluster.create(PYTORCH_JOBS, pytorch_job("urgent", priority="high"), "default")
    await cluster.runs("urgent")
    await cluster.pends("low")
    await cluster.client.delete(PYTORCH_JOBS, "urgent", "default")
    await cluster.runs("low")
