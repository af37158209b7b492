"""A queue of four CPUs, and Jobs of one CPU for it."""

from pykueue.api import conditions, resources

RUNTIME = "pykueue.dev/runtime"
EXIT_CODE = "pykueue.dev/exit-code"


async def set_up(campaign):
    """Start everything and return when the queue is active and nothing happens any more."""
    client = await _started(campaign.system)
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    preemption = {"withinClusterQueue": "LowerPriority"}
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption}
    await client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "default"}})
    await client.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "queue"}, "spec": spec})
    queue = {"metadata": {"name": "queue"}, "spec": {"clusterQueue": "queue"}}
    await client.create(resources.LOCAL_QUEUE, queue, "default")
    high = {"metadata": {"name": "high"}, "value": 1000}
    await client.create(resources.WORKLOAD_PRIORITY_CLASS, high)
    await campaign.rest(5)


async def _started(system):
    await system.start()
    return system.client


def job(name, *, seconds="until-deleted", priority="", **spec):
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"annotations": {RUNTIME: seconds}}, "spec": pod}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": template, **spec}}


async def admitted(system):
    workloads = (await system.client.list(resources.WORKLOAD, "default")).items
    return sum(conditions.is_true(workload, "Admitted") for workload in workloads)


async def running_pods(system):
    pods = (await system.client.list(resources.POD, "default")).items
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
