"""Concurrent admission: a job is tried with all flavors at a time, and moves to a better one."""

import time

import pytest
from tests.controllers.system.cluster import (
    CONFIGURATION,
    PYTORCH_JOBS,
    kueue,
    priority_class,
    pytorch_job,
    running_cluster,
    status_of,
)

from pykueue.api import conditions, objects, resources
from pykueue.controllers.scheduler import job_facts
from pykueue.controllers.scheduler.job_facts import JobReference
from pykueue.translate import job_explanations, variants

GATES = {**CONFIGURATION, "featureGates": {"ConcurrentAdmission": True}}


@pytest.fixture
async def cluster():
    async with running_cluster(GATES) as running:
        yield running


async def make_queue(cluster, quotas, *, mode="TryPreferredFlavors", last=None, **spec):
    for name in quotas:
        await cluster.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", name))
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for name, cpu in quotas.items()]
    migration = {"mode": mode, **({"constraints": {"lastAcceptableFlavorName": last}} if last else {})}
    await cluster.create(
        resources.CLUSTER_QUEUE,
        kueue(
            "ClusterQueue",
            "cq",
            namespaceSelector={},
            resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}],
            concurrentAdmissionPolicy={"migration": migration},
            **spec,
        ),
    )
    queue = kueue("LocalQueue", "cq", clusterQueue="cq")
    queue["metadata"]["namespace"] = "default"
    await cluster.create(resources.LOCAL_QUEUE, queue, "default")


async def set_quota(cluster, **quotas):
    queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
    (group,) = queue["spec"]["resourceGroups"]
    for flavor in group["flavors"]:
        flavor["resources"][0]["nominalQuota"] = quotas.get(flavor["name"].replace("-", "_"), "0")
    await cluster.merge(resources.CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": [group]}})


async def variants_of(cluster, name):
    """The variants of a job's Workload by flavor."""
    parent = await cluster.workload_of(name, "PyTorchJob")
    workloads = (await cluster.client.list(resources.WORKLOAD, "default")).items
    uid = objects.uid(parent) if parent else None
    return {variants.flavor(workload): workload for workload in workloads if variants.parent_uid(workload) == uid}


async def is_running_on(cluster, name, flavor):
    parent = await cluster.workload_of(name, "PyTorchJob")
    if parent is None or status_of(parent, "Admitted") != "True" or status_of(parent, "Evicted") == "True":
        return False
    (assignment,) = parent["status"]["admission"]["podSetAssignments"]
    return assignment["flavors"] == {"cpu": flavor} and await cluster.is_running(name)


async def usage(cluster):
    queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
    flavors = (queue.get("status") or {}).get("flavorsReservation") or ()
    return {flavor["name"]: flavor["resources"][0]["total"] for flavor in flavors}


async def uses(cluster, **expected):
    return await usage(cluster) == {name.replace("_", "-"): total for name, total in expected.items()}


async def is_inactive(cluster, name, flavor):
    members = await variants_of(cluster, name)
    return flavor in members and members[flavor]["spec"].get("active") is False


async def test_a_job_runs_with_the_first_flavor_that_has_quota(cluster):
    await make_queue(cluster, {"on-demand": "0", "spot": "5"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_running_on, cluster, "train", "spot")
    members = await variants_of(cluster, "train")
    assert set(members) == {"on-demand", "spot"}
    assert status_of(members["on-demand"], "QuotaReserved") == "False"
    parent = await cluster.workload_of("train", "PyTorchJob")
    message = f"The variant {objects.name(members['spot'])} is admitted"
    assert conditions.find(parent, "Admitted")["message"] == message
    await cluster.until(lambda: uses(cluster, on_demand="0", spot="2"))


async def test_a_job_moves_to_a_better_flavor_when_quota_comes(cluster):
    await make_queue(cluster, {"on-demand": "0", "spot": "5"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_running_on, cluster, "train", "spot")
    await set_quota(cluster, on_demand="5", spot="5")
    await cluster.until(is_running_on, cluster, "train", "on-demand")
    await cluster.until(is_inactive, cluster, "train", "spot")
    await cluster.until(lambda: uses(cluster, on_demand="2", spot="0"))
    members = await variants_of(cluster, "train")
    evictions = members["spot"]["status"]["schedulingStats"]["evictions"]
    assert ("FlavorMigration", 1) in [(eviction["reason"], eviction["count"]) for eviction in evictions]


async def test_an_explanation_is_that_of_the_variant_with_quota(cluster):
    await make_queue(cluster, {"on-demand": "0", "spot": "5"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_running_on, cluster, "train", "spot")
    view, job = cluster.controllers.scheduler.engine.view, JobReference(namespace="default", name="train")
    facts = await job_facts.read(cluster.client, view, job, now_ns=time.time_ns())
    report = job_explanations.report(facts)
    assert report.state == "admitted"
    assert report.summary.endswith("is admitted in ClusterQueue cq on spot.")


async def test_a_job_stays_where_it_was_admitted_first(cluster):
    await make_queue(cluster, {"on-demand": "0", "spot": "5"}, mode="RetainFirstAdmission")
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_inactive, cluster, "train", "on-demand")
    await set_quota(cluster, on_demand="5", spot="5")
    await cluster.create(PYTORCH_JOBS, pytorch_job("other", cpu="1"), "default")
    await cluster.until(is_running_on, cluster, "other", "on-demand")
    assert await is_running_on(cluster, "train", "spot")


async def test_a_job_does_not_move_behind_the_last_acceptable_flavor(cluster):
    await make_queue(cluster, {"reservation": "0", "on-demand": "0", "spot": "5"}, last="reservation")
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_inactive, cluster, "train", "on-demand")
    await set_quota(cluster, on_demand="1", spot="5")
    await cluster.create(PYTORCH_JOBS, pytorch_job("other", cpu="1"), "default")
    await cluster.until(is_running_on, cluster, "other", "on-demand")
    assert await is_running_on(cluster, "train", "spot")
    await set_quota(cluster, reservation="2", on_demand="1", spot="5")
    await cluster.until(is_running_on, cluster, "train", "reservation")


async def test_one_variant_at_a_time_may_preempt(cluster):
    for name, value in (("low", 1), ("high", 100)):
        await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class(name, value))
    preemption = {"withinClusterQueue": "LowerPriority"}
    await make_queue(cluster, {"on-demand": "2", "spot": "2"}, mode="RetainFirstAdmission", preemption=preemption)
    for name, flavor in (("first", "on-demand"), ("second", "spot")):
        await cluster.create(PYTORCH_JOBS, pytorch_job(name, cpu="2", priority="low"), "default")
        await cluster.until(is_running_on, cluster, name, flavor)
    await cluster.create(PYTORCH_JOBS, pytorch_job("urgent", cpu="2", priority="high"), "default")
    await cluster.until(is_running_on, cluster, "urgent", "on-demand")
    members = await variants_of(cluster, "urgent")
    assert [gate["position"] for gate in members["on-demand"]["status"]["preemptionGates"]] == ["Open"]
    assert not members["spot"]["status"].get("preemptionGates")
    assert conditions.find(members["on-demand"], "BlockedOnPreemptionGates")["reason"] == "QuotaReserved"
    assert await is_running_on(cluster, "second", "spot")


async def test_variants_come_and_go_with_the_flavors(cluster):
    await make_queue(cluster, {"on-demand": "5", "spot": "5"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_running_on, cluster, "train", "on-demand")
    queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
    (group,) = queue["spec"]["resourceGroups"]
    group["flavors"] = [flavor for flavor in group["flavors"] if flavor["name"] == "spot"]
    await cluster.merge(resources.CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": [group]}})
    await cluster.until(is_running_on, cluster, "train", "spot")
    assert set(await variants_of(cluster, "train")) == {"spot"}


async def test_variants_finish_with_the_job(cluster):
    await make_queue(cluster, {"on-demand": "5"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.until(is_running_on, cluster, "train", "on-demand")
    done = {"type": "Succeeded", "status": "True", "reason": "x", "message": "done", "lastUpdateTime": None}
    patch = {"status": {"conditions": [done]}}
    await cluster.merge(PYTORCH_JOBS, "train", patch, namespace="default", subresource="status")

    async def is_finished():
        members = await variants_of(cluster, "train")
        return status_of(members["on-demand"], "Finished") == "True"

    await cluster.until(is_finished)
    await cluster.until(lambda: uses(cluster, on_demand="0"))


async def test_a_restart_charges_the_variant_once(cluster):
    await make_queue(cluster, {"on-demand": "3", "spot": "3"})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="3"), "default")
    await cluster.until(is_running_on, cluster, "train", "on-demand")
    await cluster.stop()
    await cluster.start()
    await cluster.create(PYTORCH_JOBS, pytorch_job("next", cpu="3"), "default")
    await cluster.until(is_running_on, cluster, "next", "spot")
    await cluster.until(lambda: uses(cluster, on_demand="3", spot="3"))


async def test_the_label_of_a_parent_takes_nothing_out_of_the_quota(cluster):
    """Users may label the Workloads of their jobs; without the policy it changes nothing."""
    await cluster.make_queue(cpu="2")
    await cluster.create(PYTORCH_JOBS, pytorch_job("train", cpu="2"), "default")
    await cluster.runs("train")
    workload = await cluster.workload_of("train", "PyTorchJob")
    label = {"metadata": {"labels": {"kueue.x-k8s.io/concurrent-admission-parent": "true"}}}
    await cluster.merge(resources.WORKLOAD, objects.name(workload), label, namespace="default")
    await cluster.create(PYTORCH_JOBS, pytorch_job("next", cpu="2"), "default")
    await cluster.pends("next")
    await cluster.until(lambda: uses(cluster, default="2"))
