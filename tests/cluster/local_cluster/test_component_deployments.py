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


def test_a_pod_in_another_namespace_is_no_component():
    metadata = {"name": "p", "namespace": "default", "annotations": {"pykueue.dev/mirror": "kueue-controller-manager"}}
    assert component_deployments.of({"metadata": metadata}) is None
