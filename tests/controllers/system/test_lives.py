"""Jobs from label to end, on the API in memory."""

from tests.controllers.system.cluster import (
    JOBS,
    PYTORCH_JOBS,
    is_suspended,
    job,
    kueue,
    priority_class,
    pytorch_job,
    running_cluster,
    status_of,
)

from pykueue.api import resources


async def test_a_labelled_job_waits_until_there_is_quota(cluster):
    await cluster.make_queue(cpu="1")
    await cluster.create(PYTORCH_JOBS, pytorch_job("first"), "default")
    await cluster.runs("first")
    await cluster.create(PYTORCH_JOBS, pytorch_job("second"), "default")
    await cluster.pends("second")
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    await cluster.merge(resources.CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": groups}})
    await cluster.runs("second")


async def test_a_preempted_job_comes_back(cluster):
    await cluster.make_queue(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("low", 1))
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    await cluster.create(PYTORCH_JOBS, pytorch_job("victim", priority="low"), "default")
    await cluster.runs("victim")
    await cluster.create(PYTORCH_JOBS, pytorch_job("winner", priority="high"), "default")
    await cluster.runs("winner")
    assert is_suspended(await cluster.get(PYTORCH_JOBS, "victim", "default"))
    done = {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "done"}]}}
    await cluster.merge(PYTORCH_JOBS, "winner", done, namespace="default", subresource="status")
    await cluster.runs("victim")


async def test_an_unlabelled_job_is_left_alone(cluster):
    plain = job("plain")
    del plain["metadata"]["labels"]
    await cluster.create(JOBS, plain, "default")
    await cluster.make_queue()
    await cluster.create(PYTORCH_JOBS, pytorch_job("other"), "default")
    await cluster.runs("other")
    assert await cluster.workload_of("plain") is None
    assert not is_suspended(await cluster.get(JOBS, "plain", "default"))


async def test_a_kind_described_in_the_configuration_is_queued():
    described = {
        "group": "example.com",
        "version": "v1",
        "kind": "Simulation",
        "podSets": [{"name": "main", "template": "spec.template", "count": "spec.workers"}],
    }
    configuration = {"integrations": {"frameworks": ["batch/job"], "custom": [described]}}
    async with running_cluster(configuration, starts=False) as cluster:
        from pykueue.api.scheme import Kind, Resource

        cluster.client._scheme.register(
            Kind(group="example.com", version="v1", kind="Simulation", plural="simulations", namespaced=True)
        )
        await cluster.start()
        await cluster.make_queue(cpu="2")
        simulations = Resource("example.com", "v1", "simulations", "Simulation", namespaced=True)
        template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
        simulation = {
            "apiVersion": "example.com/v1",
            "kind": "Simulation",
            "metadata": {
                "name": "mine",
                "namespace": "default",
                "labels": {"kueue.x-k8s.io/queue-name": "cq"},
            },
            "spec": {"suspend": True, "workers": 2, "template": template},
        }
        await cluster.create(simulations, simulation, "default")
        await cluster.until(cluster.is_running, "mine", simulations)
        workload = await cluster.workload_of("mine", "Simulation")
        assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "2"}


async def test_a_cluster_queue_in_use_cannot_go(cluster):
    await cluster.make_queue()
    await cluster.create(PYTORCH_JOBS, pytorch_job("a"), "default")
    await cluster.runs("a")
    await cluster.client.delete(resources.CLUSTER_QUEUE, "cq")

    async def is_terminating():
        queue = await cluster.get(resources.CLUSTER_QUEUE, "cq")
        return status_of(queue, "Active") == "False" and queue

    queue = await cluster.until(is_terminating)
    assert queue["status"]["conditions"][0]["reason"] == "Terminating"
    done = {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": ""}]}}
    await cluster.merge(PYTORCH_JOBS, "a", done, namespace="default", subresource="status")

    async def is_gone():
        return await cluster.get(resources.CLUSTER_QUEUE, "cq") is None

    await cluster.until(is_gone)


async def test_a_priority_class_takes_its_workloads_along(cluster):
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("p", 1))
    await cluster.make_queue(cpu="0")
    await cluster.create(PYTORCH_JOBS, pytorch_job("a", priority="p"), "default")
    await cluster.pends("a")
    await cluster.merge(resources.WORKLOAD_PRIORITY_CLASS, "p", {"value": 7})

    async def has_new_priority():
        return (await cluster.workload_of("a", "PyTorchJob"))["spec"]["priority"] == 7

    await cluster.until(has_new_priority)


async def test_a_flavor_in_use_keeps_its_finalizer(cluster):
    await cluster.make_queue()
    await cluster.client.delete(resources.RESOURCE_FLAVOR, "default")
    await cluster.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "unused"))
    await cluster.client.delete(resources.RESOURCE_FLAVOR, "unused")

    async def is_gone():
        return await cluster.get(resources.RESOURCE_FLAVOR, "unused") is None

    await cluster.until(is_gone)
    assert await cluster.get(resources.RESOURCE_FLAVOR, "default") is not None
