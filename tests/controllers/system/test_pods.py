"""Pods and pod groups on the API in memory."""

import time

import pytest
from tests.controllers.system.cluster import priority_class, running_cluster, status_of
from tests.controllers.system.test_requeue import workload

from pykueue.api import resources
from pykueue.controllers.scheduler import job_facts
from pykueue.controllers.scheduler.job_facts import JobReference
from pykueue.translate import job_explanations

PODS = {"integrations": {"frameworks": ["pod"]}}
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def pod(name, *, queue="cq", labels=None, annotations=None):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": queue} | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def is_gated(obj):
    return bool(obj["spec"].get("schedulingGates"))


async def test_a_single_pod_runs_on_its_prebuilt_workload():
    async with running_cluster(PODS) as cluster:
        await cluster.make_queue()
        created = await cluster.create(resources.POD, pod("p", labels={PREBUILT: "pre"}), "default")
        assert is_gated(created)
        prebuilt = workload("pre")
        prebuilt["spec"]["podSets"][0]["template"]["spec"] = created["spec"]
        await cluster.create(resources.WORKLOAD, prebuilt, "default")

        async def is_started():
            return not is_gated(await cluster.get(resources.POD, "p", "default"))

        await cluster.until(is_started)
        prebuilt = await cluster.get(resources.WORKLOAD, "pre", "default")
        assert [owner["name"] for owner in prebuilt["metadata"]["ownerReferences"]] == ["p"]
        assert status_of(prebuilt, "Admitted") == "True"


async def test_a_prebuilt_workload_is_named_by_its_label_alone_without_the_gate():
    gates = {"featureGates": {"WorkloadIdentifierAnnotations": False}}
    async with running_cluster(PODS | gates) as cluster:
        await cluster.make_queue()
        await cluster.create(resources.POD, pod("p", annotations={PREBUILT: "pre"}), "default")
        workload_of_pod = await cluster.until(cluster.workload_of, "p", "Pod")
        assert workload_of_pod["metadata"]["name"].startswith("pod-p-")


async def test_a_group_is_named_by_its_label_alone_without_the_gate():
    gates = {"featureGates": {"WorkloadIdentifierAnnotations": False}}
    async with running_cluster(PODS | gates) as cluster:
        await cluster.make_queue()
        annotations = {"kueue.x-k8s.io/pod-group-name": "g"}
        await cluster.create(resources.POD, pod("p", annotations=annotations), "default")
        assert await cluster.until(cluster.workload_of, "p", "Pod")


async def test_a_group_without_a_workload_is_explained_by_its_name():
    async with running_cluster(PODS) as cluster:
        await cluster.make_queue()
        labels, count = {"kueue.x-k8s.io/pod-group-name": "g"}, {"kueue.x-k8s.io/pod-group-total-count": "2"}
        await cluster.create(resources.POD, pod("p", labels=labels, annotations=count), "default")
        view, reference = cluster.controllers.scheduler.engine.view, JobReference(namespace="default", name="g")
        facts = await job_facts.read(cluster.client, view, reference, now_ns=time.time_ns())
        summary = job_explanations.report(facts).summary
        assert summary == "Pod default/p is in no queue: its group g has 1 of 2 pods."


async def requeued_after_preemption(configuration):
    async with running_cluster(configuration) as cluster:
        await cluster.make_queue(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
        for name, value in (("low", 1), ("high", 9)):
            await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class(name, value))

        async def workload_with(name, condition_type):
            workload_of_pod = await cluster.workload_of(name, "Pod")
            return workload_of_pod if workload_of_pod and status_of(workload_of_pod, condition_type) else None

        low = {"kueue.x-k8s.io/priority-class": "low"}
        preempted = pod("low", labels=low)
        preempted["metadata"]["finalizers"] = ["example.com/keeps-the-pod"]
        await cluster.create(resources.POD, preempted, "default")
        await cluster.until(workload_with, "low", "Admitted")
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await cluster.create(resources.POD, pod("high", labels=high), "default")
        return status_of(await cluster.until(workload_with, "low", "Requeued"), "Requeued")


async def test_the_workload_of_an_evicted_single_pod_is_not_queued_again():
    assert await requeued_after_preemption(PODS) == "False"


async def test_the_workload_of_an_evicted_single_pod_is_queued_again_without_the_gate():
    gates = {"featureGates": {"SkipReassignmentForPodOwnedWorkloads": False}}
    assert await requeued_after_preemption(PODS | gates) == "True"


def member(name, **labels):
    group = {"kueue.x-k8s.io/pod-group-name": "g"}
    return pod(name, labels=group | labels, annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})


COPIES = {"integrations": {"frameworks": ["pod"], "labelKeysToCopy": ["team"]}}


async def test_the_workload_of_a_group_has_the_labels_of_any_pod():
    async with running_cluster(COPIES) as cluster:
        await cluster.make_queue()
        await cluster.create(resources.POD, member("p1"), "default")
        await cluster.create(resources.POD, member("p2", team="blue"), "default")
        group = await cluster.until(cluster.get, resources.WORKLOAD, "g", "default")
        assert group["metadata"]["labels"] == {"team": "blue"}


async def test_pods_of_a_group_with_different_labels_get_no_workload():
    async with running_cluster(COPIES) as cluster:
        await cluster.make_queue()
        await cluster.create(resources.POD, member("p1", team="red"), "default")
        await cluster.create(resources.POD, member("p2", team="blue"), "default")

        async def is_refused():
            events = (await cluster.client.list(resources.EVENT, "default")).items
            return any(event["note"] == "constructing workload: pods have different label values" for event in events)

        await cluster.until(is_refused)
        assert await cluster.get(resources.WORKLOAD, "g", "default") is None


SHOWN = {
    "integrations": {"frameworks": ["pod"]},
    "featureGates": {"CustomMetricLabels": True},
    "metrics": {
        "customLabels": [
            {"name": "team", "sourceKind": "Workload"},
            {"name": "cost", "sourceKind": "Workload", "sourceAnnotationKey": "cost-center"},
            {"name": "site", "sourceKind": "ClusterQueue", "sourceLabelKey": "site"},
        ]
    },
}


async def test_a_workload_has_the_labels_and_annotations_that_metrics_show():
    async with running_cluster(SHOWN) as cluster:
        await cluster.make_queue()
        single = pod("p", labels={"team": "red", "site": "x"}, annotations={"cost-center": "7", "other": "1"})
        await cluster.create(resources.POD, single, "default")
        created = await cluster.until(cluster.workload_of, "p", "Pod")
        assert created["metadata"]["labels"].keys() == {"team", "kueue.x-k8s.io/job-uid"}
        assert created["metadata"]["annotations"] == {"cost-center": "7"}


@pytest.mark.parametrize(("cost", "is_created"), [("7", True), ("8", False)])
async def test_pods_of_a_group_agree_about_annotations_that_metrics_show(cost, is_created):
    async with running_cluster(SHOWN) as cluster:
        await cluster.make_queue()
        for name, center in (("p1", "7"), ("p2", cost)):
            obj = member(name)
            obj["metadata"]["annotations"]["cost-center"] = center
            await cluster.create(resources.POD, obj, "default")

        async def result():
            group = await cluster.get(resources.WORKLOAD, "g", "default")
            events = (await cluster.client.list(resources.EVENT, "default")).items
            fault = "constructing workload: pods have different annotation values"
            return group or any(event["note"] == fault for event in events)

        group = await cluster.until(result)
        assert (group is not True) == is_created
        if is_created:
            assert group["metadata"]["annotations"]["cost-center"] == "7"


async def test_the_last_pod_of_a_group_that_is_complete_is_deleted():
    async with running_cluster(PODS) as cluster:
        await cluster.make_queue(cpu="4")
        for name in ("p1", "p2"):
            await cluster.create(resources.POD, member(name), "default")

        async def are_started():
            group = [await cluster.get(resources.POD, name, "default") for name in ("p1", "p2")]
            return not any(map(is_gated, group))

        await cluster.until(are_started)
        await cluster.create(resources.POD, member("excess"), "default")

        async def deleted_pods():
            events = (await cluster.client.list(resources.EVENT, "default")).items
            return [event["regarding"]["name"] for event in events if event["reason"] == "ExcessPodDeleted"]

        assert await cluster.until(deleted_pods) == ["excess"]


FOREIGN = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "g"},
    "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}]},
}


@pytest.mark.parametrize(
    ("is_checked", "reason"), [(True, "WorkloadNameConflict"), (False, "UpdatedWorkload")], ids=["on", "off"]
)
async def test_a_group_takes_a_workload_of_its_name_only_if_that_is_not_checked(is_checked, reason):
    gates = {"PodIntegrationValidateGroupOwner": is_checked}
    async with running_cluster({**PODS, "featureGates": gates}) as cluster:
        await cluster.create(resources.WORKLOAD, FOREIGN, "default")
        for name in ("p1", "p2"):
            await cluster.create(resources.POD, member(name), "default")

        async def has_event():
            events = (await cluster.client.list(resources.EVENT, "default")).items
            return any(event["reason"] == reason for event in events)

        await cluster.until(has_event)
