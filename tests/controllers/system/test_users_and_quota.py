"""A user who may change jobs and pods gets no more quota by it: what only controllers write."""

import copy

import pytest
from tests.controllers.system.cluster import (
    JOBS,
    PYTORCH_JOBS,
    is_suspended,
    job,
    pytorch_job,
    running_cluster,
    status_of,
)
from tests.controllers.system.test_no_free_capacity import WITH_PODS, is_gated, pod

from pykueue.api import objects, registry, resources
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.local_client import LocalClient
from pykueue.kube.client import DeleteOptions

JANE = UserInfo(name="jane", groups=("system:authenticated",))
ROBOT = UserInfo(name="system:serviceaccount:default:robot", groups=("system:serviceaccounts",))
OPERATOR = UserInfo(name="system:serviceaccount:operators:operator", groups=("system:serviceaccounts",))


def client_of(cluster, user):
    return LocalClient(cluster.client._core, registry.scheme(), user=user)


def controlled_by(owner):
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": objects.name(owner),
            "uid": objects.uid(owner),
            "controller": True,
        }
    ]


async def refused(call, match):
    with pytest.raises(ApiError, match=match):
        await call


@pytest.mark.parametrize("user", [JANE, ROBOT], ids=["user", "service account of the namespace"])
async def test_a_forged_controller_gives_no_quota(cluster, user):
    """A Job that says that it belongs to an admitted Job would run with its quota."""
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("parent"), "default")
    await cluster.runs("parent", JOBS)
    parent = await cluster.get(JOBS, "parent", "default")
    client = client_of(cluster, user)
    forged = job("child", cpu="100")
    forged["metadata"]["ownerReferences"] = controlled_by(parent)
    await refused(client.create(JOBS, forged, "default"), "metadata.ownerReferences: Forbidden")
    await client.create(JOBS, job("child", cpu="100"), "default")
    patch = {"metadata": {"ownerReferences": controlled_by(parent)}}
    await refused(client.patch(JOBS, "child", "default", patch), "metadata.ownerReferences: Forbidden")
    assert is_suspended(await cluster.get(JOBS, "child", "default"))


async def test_an_operator_may_own_its_jobs(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("parent"), "default")
    await cluster.runs("parent", JOBS)
    child = job("child", cpu="1")
    child["metadata"]["ownerReferences"] = controlled_by(await cluster.get(JOBS, "parent", "default"))
    created = await client_of(cluster, OPERATOR).create(JOBS, child, "default")
    assert not is_suspended(created)


async def test_pods_are_not_taken_from_their_job(cluster):
    """A pod without its controller goes on, and the controller starts another one."""
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("a"), "default")
    await cluster.runs("a", JOBS)
    owner = await cluster.get(JOBS, "a", "default")
    child = pod("child")
    child["metadata"] |= {"ownerReferences": controlled_by(owner), "labels": {"job-name": "a", "mine": "yes"}}
    child["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = objects.uid(owner)
    await cluster.create(resources.POD, child, "default")
    jane = client_of(cluster, JANE)
    for change in (
        {"ownerReferences": None},
        {"labels": {"batch.kubernetes.io/controller-uid": "other"}},
        {"labels": {"job-name": None}},
    ):
        await refused(jane.patch(resources.POD, "child", "default", {"metadata": change}), "Forbidden")
    changed = await jane.patch(resources.POD, "child", "default", {"metadata": {"labels": {"mine": "no"}}})
    assert changed["metadata"]["labels"]["mine"] == "no"


async def test_the_pods_of_a_job_in_a_queue_are_not_orphaned(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("a"), "default")
    await cluster.runs("a", JOBS)
    jane = client_of(cluster, JANE)
    options = DeleteOptions(propagation_policy="Orphan")
    await refused(jane.delete(JOBS, "a", "default", options), "cannot be orphaned")
    patch = {"metadata": {"finalizers": ["orphan"]}}
    await refused(jane.patch(JOBS, "a", "default", patch), "cannot be orphaned")
    child = pod("child")
    child["metadata"] |= {"ownerReferences": controlled_by(await cluster.get(JOBS, "a", "default")), "labels": {}}
    await cluster.create(resources.POD, child, "default")
    await jane.delete(JOBS, "a", "default")

    async def is_gone():
        return await cluster.get(resources.POD, "child", "default") is None

    await cluster.until(is_gone)


async def test_gates_and_marks_of_kueue_stay():
    async with running_cluster(WITH_PODS) as cluster:
        await cluster.make_queue(cpu="1")
        jane = client_of(cluster, JANE)
        await jane.create(resources.POD, pod("big", cpu="100"), "default")
        for change in (
            {"spec": {"schedulingGates": None}},
            {"metadata": {"finalizers": None}},
            {"metadata": {"labels": {"kueue.x-k8s.io/managed": None}}},
            {"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": "other"}}},
        ):
            await refused(jane.patch(resources.POD, "big", "default", change), "Forbidden")
        assert await is_gated(cluster, "big")


@pytest.mark.parametrize(
    "growth",
    [
        {"overhead": {"cpu": "3"}},
        {"resources": {"requests": {"cpu": "3"}}},
        {"runtimeClassName": "kata"},
        {"containers": [{"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": "3"}}}]},
    ],
    ids=lambda growth: next(iter(growth)),
)
async def test_a_template_that_grows_after_its_admission_is_counted_anew(cluster, growth):
    await cluster.make_queue(cpu="1")
    await cluster.create(PYTORCH_JOBS, pytorch_job("a"), "default")
    await cluster.runs("a")
    obj = await cluster.get(PYTORCH_JOBS, "a", "default")
    specs = copy.deepcopy(obj["spec"]["pytorchReplicaSpecs"])
    for replica in specs.values():
        replica["template"]["spec"] |= growth
    patch = {"spec": {"pytorchReplicaSpecs": specs}}
    await client_of(cluster, JANE).patch(PYTORCH_JOBS, "a", "default", patch)

    [(field, value)] = growth.items()

    async def is_counted_anew():
        """The job is stopped. One that still fits starts again at once, with another Workload."""
        workloads = (await client_of(cluster, JANE).list(resources.WORKLOAD, "default")).items
        specs = [workload["spec"]["podSets"][0]["template"]["spec"] for workload in workloads]
        return is_suspended(await cluster.get(PYTORCH_JOBS, "a", "default")) or any(
            field != "containers" and spec.get(field) == value for spec in specs
        )

    await cluster.until(is_counted_anew)


async def test_a_job_that_could_not_start_does_not_run_by_hand(cluster):
    """Its Workload is finished, so that nothing else would stop it."""
    await cluster.make_queue(cpu="1")
    obj = job("a")
    obj["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/workload": "mine"}}
    jane = client_of(cluster, JANE)
    await jane.create(JOBS, obj, "default")

    async def has_failed():
        workload = await cluster.workload_of("a")
        return workload is not None and status_of(workload, "Finished") == "True"

    await cluster.until(has_failed)
    resumed = await jane.patch(JOBS, "a", "default", {"spec": {"suspend": False}})

    async def is_stopped():
        obj = await cluster.get(JOBS, "a", "default")
        return obj["metadata"]["generation"] > resumed["metadata"]["generation"] and is_suspended(obj)

    await cluster.until(is_stopped)


@pytest.mark.parametrize("change", [{"parallelism": 16}, {"suspend": False}], ids=lambda change: next(iter(change)))
async def test_the_child_of_a_job_is_changed_by_its_controller_only(cluster, change):
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("parent"), "default")
    child = job("child", completions=16)
    child["metadata"]["ownerReferences"] = controlled_by(await cluster.get(JOBS, "parent", "default"))
    await cluster.create(JOBS, child | {"spec": child["spec"] | {"suspend": True}}, "default")
    call = client_of(cluster, JANE).patch(JOBS, "child", "default", {"spec": change})
    await refused(call, "spec: Forbidden: is changed by its controller only")
