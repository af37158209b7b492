"""Every job kind is copied to a worker, and its status comes back."""

import asyncio

import pytest
from tests.multikueue.fleet import play, template
from tests.multikueue.test_faults import LOST_AFTER

from pykueue.api import conditions, objects, resources
from pykueue.api.rules.jobs import job_kinds

QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}


def named(name, **labels):
    return {"name": name, "labels": QUEUE | labels}


def pod(name, seconds="5", **metadata):
    labels = {**QUEUE, **metadata.get("labels", {})}
    annotations = {"pykueue.dev/runtime": seconds, **metadata.get("annotations", {})}
    spec = template(seconds, "1")["spec"]
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def job_set(name):
    jobs = {"template": {"spec": {"template": template("5", "1"), "parallelism": 1, "completions": 1}}}
    return {"metadata": named(name), "spec": {"replicatedJobs": [{"name": "main", "replicas": 1, **jobs}]}}


def pytorch_job(name):
    replica = {"replicas": 1, "restartPolicy": "Never", "template": template("5", "1")}
    replica["template"]["spec"]["containers"][0]["name"] = "pytorch"
    return {"metadata": named(name), "spec": {"pytorchReplicaSpecs": {"Master": replica}}}


def ray_cluster(name):
    head = {"rayStartParams": {}, "template": template("until-deleted", "1")}
    head["template"]["spec"].pop("restartPolicy")
    group = {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 5, "rayStartParams": {}}
    group["template"] = head["template"]
    return {"metadata": named(name), "spec": {"headGroupSpec": head, "workerGroupSpecs": [group]}}


async def until_finished(fleet, resource, name, condition):
    async def is_finished():
        return conditions.is_true(await fleet.manager.get(resource, name) or {}, condition)

    await fleet.until(is_finished)


async def is_clean(fleet, resource):
    for worker in fleet.workers.values():
        if await worker.workloads() or (await worker.client.list(resource, "default")).items:
            return False
    return True


@pytest.mark.parametrize(
    ("kind", "obj", "condition"),
    [
        (job_kinds.JOB_SET, job_set("sample"), "Completed"),
        (job_kinds.PYTORCH_JOB, pytorch_job("sample"), "Succeeded"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_job_ends_here_as_there(kind, obj, condition):
    async def story(fleet):
        await fleet.manager.client.create(kind.resource, obj, "default")
        await until_finished(fleet, kind.resource, "sample", condition)
        assert fleet.manager.started == []
        await fleet.until(is_clean, fleet, kind.resource)

    play(story)


def test_a_ray_cluster_shows_the_state_of_its_copy():
    async def story(fleet):
        await fleet.manager.client.create(resources.RAY_CLUSTER, ray_cluster("ray"), "default")

        async def is_ready():
            return objects.status(await fleet.manager.get(resources.RAY_CLUSTER, "ray")).get("state") == "ready"

        await fleet.until(is_ready)
        assert fleet.manager.started == []
        await fleet.manager.client.delete(resources.RAY_CLUSTER, "ray", "default")
        await fleet.until(is_clean, fleet, resources.RAY_CLUSTER)

    play(story)


def test_a_pod_stays_gated_here_and_ends_as_its_copy():
    async def story(fleet):
        await fleet.manager.client.create(resources.POD, pod("single"), "default")

        async def has_succeeded():
            return objects.status(await fleet.manager.get(resources.POD, "single")).get("phase") == "Succeeded"

        await fleet.until(has_succeeded)
        local = await fleet.manager.get(resources.POD, "single")
        assert "nodeName" not in local["spec"]
        assert fleet.manager.started == []
        await fleet.until(is_clean, fleet, resources.POD)

    play(story)


def test_all_pods_of_a_group_run_on_one_worker():
    async def story(fleet):
        group = {"kueue.x-k8s.io/pod-group-name": "group"}
        count = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        for number in range(3):
            member = pod(f"member-{number}", "20", labels=group, annotations=count | group)
            await fleet.manager.client.create(resources.POD, member, "default")

        async def have_succeeded():
            pods = (await fleet.manager.client.list(resources.POD, "default")).items
            return [objects.status(pod).get("phase") for pod in pods] == ["Succeeded"] * 3

        await fleet.until(have_succeeded)
        assert sorted(len(worker.started) for worker in fleet.workers.values()) == [0, 3]
        await fleet.until(is_clean, fleet, resources.POD)

    play(story)


def test_a_stateful_set_runs_on_one_worker_until_it_is_deleted():
    async def story(fleet):
        labels = {"app": "web"}
        pods = template("until-deleted", "1")
        pods["metadata"]["labels"] = labels
        pods["spec"].pop("restartPolicy")
        spec = {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": labels}, "template": pods}
        await fleet.manager.client.create(resources.STATEFUL_SET, {"metadata": named("web"), "spec": spec}, "default")

        async def runs():
            return sorted(len(worker.machine.running()) for worker in fleet.workers.values()) == [0, 2]

        await fleet.until(runs)
        await asyncio.sleep(30)
        assert await runs()
        assert fleet.manager.started == []
        await fleet.manager.client.delete(resources.STATEFUL_SET, "web", "default")
        await fleet.until(is_clean, fleet, resources.STATEFUL_SET)

    play(story, configuration=LOST_AFTER)


def leader_worker_set(name, replicas):
    pods = template("until-deleted", "1")
    pods["spec"].pop("restartPolicy")
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}}
    return {"metadata": named(name), "spec": spec}


def test_all_groups_of_a_leader_worker_set_run_on_one_worker():
    frameworks = ["pod", "statefulset", job_kinds.LEADER_WORKER_SET.name]
    enabled = {"integrations": {"frameworks": frameworks}, **LOST_AFTER}

    async def story(fleet):
        await fleet.manager.client.create(resources.LEADER_WORKER_SET, leader_worker_set("lws", 2), "default")

        async def runs():
            return sorted(len(worker.machine.running()) for worker in fleet.workers.values()) == [0, 4]

        await fleet.until(runs)
        workloads = await fleet.manager.workloads()
        assert len({objects.status(workload)["clusterName"] for workload in workloads}) == 1
        await fleet.manager.client.delete(resources.LEADER_WORKER_SET, "lws", "default")
        await fleet.until(is_clean, fleet, resources.LEADER_WORKER_SET)

    play(story, configuration=enabled, worker_configuration=enabled)


def test_a_kind_of_the_configuration_is_copied_without_managed_by():
    name = "JobSet.v1alpha2.jobset.x-k8s.io"
    only_jobs = {"integrations": {"frameworks": ["batch/job"]}}
    manager = only_jobs | {"multiKueue": {"externalFrameworks": [{"name": name}]}}

    async def story(fleet):
        manifest = job_set("own")
        manifest["metadata"].pop("labels")
        manifest["spec"] |= {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": True}
        created = await fleet.manager.client.create(resources.JOB_SET, manifest, "default")
        owner = objects.controller_reference(created)
        pod_set = {"name": "main", "count": 1, "template": {"spec": template("5", "1")["spec"]}}
        spec = {"queueName": "queue", "podSets": [pod_set]}
        workload = {"metadata": {"name": "own", "ownerReferences": [owner]}, "spec": spec}
        await fleet.manager.client.create(resources.WORKLOAD, workload, "default")

        async def copies():
            return [copy for worker in fleet.workers.values() if (copy := await worker.get(resources.JOB_SET, "own"))]

        [copy] = await fleet.until(copies)
        assert "managedBy" not in copy["spec"]
        assert objects.annotations(copy)["kueue.x-k8s.io/prebuilt-workload-name"] == "own"
        assert objects.labels(copy)["kueue.x-k8s.io/multikueue-origin"] == "multikueue"

    play(story, configuration=manager, worker_configuration=only_jobs)


def test_a_kind_without_an_adapter_is_rejected():
    async def story(fleet):
        workload = {
            "metadata": {"name": "own", "ownerReferences": [reference("example.com/v1", "Thing")]},
            "spec": {
                "queueName": "queue",
                "podSets": [{"name": "main", "count": 1, "template": {"spec": template("5", "1")["spec"]}}],
            },
        }
        await fleet.manager.client.create(resources.WORKLOAD, workload, "default")

        async def is_rejected():
            own = await fleet.manager.get(resources.WORKLOAD, "own")
            checks = objects.nested_list(own, "status", "admissionChecks")
            return checks and checks[0]["state"] == "Rejected" and checks[0]["message"]

        message = await fleet.until(is_rejected)
        kind = "example.com/v1, Kind=Thing"
        assert message == f'No multikueue adapter found for owner kind "{kind}", Previously: "Pending"'

    play(story)


def reference(api_version, kind):
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": True}
