import logging

from pykueue.node import kinds, mirrors, pods
from pykueue.node.kubelet import logs


async def test_the_parts_inside_appear_as_deployments_with_their_real_log(furnish):
    house = await furnish("simulated")
    await mirrors.ensure(house.client)
    name = "kueue-controller-manager"
    await house.until(kinds.DEPLOYMENT, name, lambda obj: pods.is_true(obj, "Available"), "kueue-system")
    (pod,) = (await house.client.list(kinds.POD, "kueue-system")).items
    logging.getLogger("pykueue.controllers").warning("a word from the scheduler")
    found = logs.find(pod, logs.Query(), house.room.log_of)
    assert "a word from the scheduler" in found.read_text()


def test_a_pod_elsewhere_is_no_mirror():
    place = {"name": "p", "namespace": "default", "annotations": {"pykueue.dev/mirror": "kueue-controller-manager"}}
    assert mirrors.of({"metadata": place}) is None
