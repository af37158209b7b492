import logging

from pykueue.api import conditions, resources
from pykueue.cluster import component_deployments
from pykueue.cluster.kubelet import logs


async def test_components_appear_as_deployments_with_their_real_log(start_cluster):
    local_cluster = await start_cluster("simulated")
    await component_deployments.ensure(local_cluster.client)
    name = "kueue-controller-manager"
    await local_cluster.until(
        resources.DEPLOYMENT, name, lambda obj: conditions.is_true(obj, "Available"), "kueue-system"
    )
    (pod,) = (await local_cluster.client.list(resources.POD, "kueue-system")).items
    logging.getLogger("pykueue.controllers").warning("a word from the scheduler")
    log = logs.find(pod, logs.Query(), local_cluster.cluster.log_of)
    assert "a word from the scheduler" in log.read_text()


async def test_the_manifests_of_kueue_may_be_applied_over_its_deployment(start_cluster):
    """Its selector is Kueue's, and the pod that comes of Kueue's template is still a component."""
    local_cluster = await start_cluster("simulated")
    await component_deployments.ensure(local_cluster.client)
    selected = {"control-plane": "controller-manager"}
    template = {
        "metadata": {"labels": selected},
        "spec": {"containers": [{"name": "manager", "image": "kueue:v0.19.2"}]},
    }
    spec = {"selector": {"matchLabels": selected}, "template": template}
    name, namespace = "kueue-controller-manager", "kueue-system"
    await local_cluster.client.patch(resources.DEPLOYMENT, name, namespace, {"spec": spec})

    def is_rolled_out(deployment):
        status = deployment.get("status") or {}
        is_current = status.get("observedGeneration") == deployment["metadata"]["generation"]
        return is_current and status.get("availableReplicas") == status.get("updatedReplicas") == status["replicas"]

    await local_cluster.until(resources.DEPLOYMENT, name, is_rolled_out, namespace)
    pods = (await local_cluster.client.list(resources.POD, namespace)).items
    images = [pod["spec"]["containers"][0]["image"] for pod in pods if component_deployments.of(pod) is not None]
    assert "kueue:v0.19.2" in images


def test_a_pod_in_another_namespace_is_no_component():
    metadata = {"name": "p", "namespace": "default", "annotations": {"pykueue.dev/mirror": "kueue-controller-manager"}}
    assert component_deployments.of({"metadata": metadata}) is None
