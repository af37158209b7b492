import logging

from pykueue.api import conditions, resources
from pykueue.cluster import component_deployments
from pykueue.cluster.kubelet import logs


async def test_the_parts_inside_appear_as_deployments_with_their_real_log(furnish):
    house = await furnish("simulated")
    await component_deployments.ensure(house.client)
    name = "kueue-controller-manager"
    await house.until(resources.DEPLOYMENT, name, lambda obj: conditions.is_true(obj, "Available"), "kueue-system")
    (pod,) = (await house.client.list(resources.POD, "kueue-system")).items
    logging.getLogger("pykueue.controllers").warning("a word from the scheduler")
    found = logs.find(pod, logs.Query(), house.room.log_of)
    assert "a word from the scheduler" in found.read_text()


def test_a_pod_elsewhere_is_no_mirror():
    place = {"name": "p", "namespace": "default", "annotations": {"pykueue.dev/mirror": "kueue-controller-manager"}}
    assert component_deployments.of({"metadata": place}) is None
