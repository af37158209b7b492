"""A change of any input of validity, requests or queue wakes the Workloads it concerns."""

from tests.controllers.system.cluster import JOBS, job, kueue, priority_class, running_cluster, status_of
from tests.controllers.system.test_pods import PODS, is_gated, pod
from tests.controllers.system.test_topology import HOSTNAME, node, placed_job

from pykueue.api import resources


async def is_reserved(cluster, name):
    workload = await cluster.workload_of(name)
    return workload is not None and status_of(workload, "QuotaReserved") == "True"


async def pending_with(cluster, name, text):
    """Wait until the Workload of a Job is pending with this text in its condition."""

    async def says():
        workload = await cluster.workload_of(name)
        for condition in ((workload or {}).get("status") or {}).get("conditions") or ():
            if condition["type"] == "QuotaReserved":
                return condition["status"] == "False" and text in condition["message"]
        return False

    await cluster.until(says)


def limit_range(maximum, name="limits"):
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": maximum}}]},
    }


async def test_a_relaxed_limit_range(cluster):
    await cluster.make_queue()
    await cluster.create(resources.LIMIT_RANGE, limit_range("500m"), "default")
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "resources validation failed")
    await cluster.merge(resources.LIMIT_RANGE, "limits", {"spec": limit_range("2")["spec"]}, namespace="default")
    await cluster.until(is_reserved, cluster, "j")


async def test_a_deleted_limit_range(cluster):
    await cluster.make_queue()
    await cluster.create(resources.LIMIT_RANGE, limit_range("500m"), "default")
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "resources validation failed")
    await cluster.client.delete(resources.LIMIT_RANGE, "limits", "default")
    await cluster.until(is_reserved, cluster, "j")


async def test_one_of_two_limit_ranges_that_still_refuses(cluster):
    await cluster.make_queue()
    await cluster.create(resources.LIMIT_RANGE, limit_range("500m"), "default")
    await cluster.create(resources.LIMIT_RANGE, limit_range("600m", "second"), "default")
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "resources validation failed")
    await cluster.client.delete(resources.LIMIT_RANGE, "limits", "default")
    await cluster.create(JOBS, job("small", cpu="100m"), "default")
    await cluster.until(is_reserved, cluster, "small")
    assert not await is_reserved(cluster, "j")


async def test_a_smaller_overhead_of_a_runtime_class(cluster):
    await cluster.make_queue(cpu="2")
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "heavy"},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "4"}},
    }
    await cluster.create(resources.RUNTIME_CLASS, runtime_class)
    heavy = job("j")
    heavy["spec"]["template"]["spec"]["runtimeClassName"] = "heavy"
    await cluster.create(JOBS, heavy, "default")
    await pending_with(cluster, "j", "insufficient quota")
    await cluster.merge(resources.RUNTIME_CLASS, "heavy", {"overhead": {"podFixed": {"cpu": "1"}}})
    await cluster.until(is_reserved, cluster, "j")


async def test_labels_of_a_namespace(cluster):
    await cluster.make_queue()
    selector = {"spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}
    await cluster.merge(resources.CLUSTER_QUEUE, "cq", selector)
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "namespace doesn't match ClusterQueue selector")
    await cluster.merge(resources.NAMESPACE, "default", {"metadata": {"labels": {"team": "a"}}})
    await cluster.until(is_reserved, cluster, "j")


async def test_an_admission_check_that_appears(cluster):
    await cluster.make_queue(admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "ClusterQueue cq is inactive")
    check = kueue("AdmissionCheck", "check", controllerName="example.com/mine")
    await cluster.create(resources.ADMISSION_CHECK, check)
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.merge(resources.ADMISSION_CHECK, "check", {"status": {"conditions": [active]}}, subresource="status")
    await cluster.until(is_reserved, cluster, "j")


async def test_a_flavor_that_appears(cluster):
    await cluster.make_queue()
    other = {"name": "other", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [other]}]
    await cluster.merge(resources.CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": groups}})
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "ClusterQueue cq is inactive")
    await cluster.create(resources.RESOURCE_FLAVOR, kueue("ResourceFlavor", "other"))
    await cluster.until(is_reserved, cluster, "j")


async def test_node_labels_of_a_flavor(cluster):
    await cluster.make_queue()
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    await cluster.merge(resources.RESOURCE_FLAVOR, "default", {"spec": {"nodeTaints": [taint]}})
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "untolerated taint")
    await cluster.merge(resources.RESOURCE_FLAVOR, "default", {"spec": {"nodeTaints": []}})
    await cluster.until(is_reserved, cluster, "j")


async def test_a_cohort_that_gets_quota(cluster):
    await cluster.make_queue(cpu="0", cohortName="all")
    await cluster.create(JOBS, job("j"), "default")
    await pending_with(cluster, "j", "insufficient quota")
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    cohort = kueue("Cohort", "all", resourceGroups=[{"coveredResources": ["cpu"], "flavors": [flavor]}])
    await cluster.create(resources.COHORT, cohort)
    await cluster.until(is_reserved, cluster, "j")


async def test_a_topology_and_a_node_that_appear(cluster):
    flavor = kueue("ResourceFlavor", "default", nodeLabels={"pool": "tas"}, topologyName="hosts")
    await cluster.create(resources.RESOURCE_FLAVOR, flavor)
    await cluster.make_queue()
    await cluster.create(JOBS, placed_job("j", 1), "default")
    await pending_with(cluster, "j", "ClusterQueue cq is inactive")
    await cluster.create(resources.TOPOLOGY, kueue("Topology", "hosts", levels=[{"nodeLabel": HOSTNAME}]))
    await pending_with(cluster, "j", "topology")
    await cluster.create(resources.NODE, node("n1"))
    await cluster.until(is_reserved, cluster, "j")


async def test_a_priority_class_that_appears_wakes_the_job_that_names_it(cluster):
    await cluster.make_queue()
    waiting = job("j")
    waiting["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("low", 1))
    await cluster.create(JOBS, waiting, "default")
    message = 'Cannot create the Workload: workloadpriorityclasses.kueue.x-k8s.io "high" not found (existing ones: low)'
    await cluster.until(has_event, cluster, "j", message)
    await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))
    await cluster.until(is_reserved, cluster, "j")


async def has_event(cluster, name, message):
    events = (await cluster.client.list(resources.EVENT, "default")).items
    return any((event["regarding"]["name"], event["note"]) == (name, message) for event in events)


async def test_a_priority_class_that_appears_wakes_a_pod():
    async with running_cluster(PODS) as cluster:
        await cluster.make_queue()
        labels = {"kueue.x-k8s.io/priority-class": "high"}
        await cluster.create(resources.POD, pod("p", labels=labels), "default")
        message = 'Cannot create the Workload: workloadpriorityclasses.kueue.x-k8s.io "high" not found (there are none)'
        await cluster.until(has_event, cluster, "p", message)
        await cluster.create(resources.WORKLOAD_PRIORITY_CLASS, priority_class("high", 9))

        async def is_started():
            return not is_gated(await cluster.get(resources.POD, "p", "default"))

        await cluster.until(is_started)
