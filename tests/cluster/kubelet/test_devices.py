"""GPUs go to pods that request them, once, whatever the annotation of a pod says."""

import pytest

from pykueue.api.reserved_keys import GPU_INDEXES
from pykueue.cluster.kubelet.devices import DeviceManager, Devices

NODES = {"n": {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}}}


def pod(uid, count=0, annotation=None, node="n"):
    requests = {"nvidia.com/gpu": str(count)} if count else {}
    annotations = {} if annotation is None else {GPU_INDEXES: annotation}
    return {
        "metadata": {"uid": uid, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
    }


@pytest.mark.parametrize("annotation", ["0", "0,1", "zzz", "0,zzz", "-1", "", "99999999999999999999", "²", "0,0"])
def test_an_annotation_gives_no_devices(annotation):
    devices = Devices(2)
    devices.allocate(pod("victim", 1))
    assert devices.allocate(pod("thief", 0, annotation)) == ()
    assert devices.allocate(pod("other", 1, annotation)) == (1,)


def test_devices_that_run_already_are_not_free_after_a_restart():
    devices = DeviceManager(NODES.get)
    running = pod("running", 1, "1")
    devices.restore(running)
    assert devices.of(running).allocate(pod("new", 1)) == (0,)
    assert devices.of(running).allocate(running) == (1,)
    assert devices.of(running).allocate(pod("late", 1)) is None


def test_an_annotation_never_takes_the_devices_of_another_pod():
    devices = Devices(2)
    devices.restore(pod("first", 2, "0,1"))
    devices.restore(pod("second", 2, "0,1"))
    assert devices.allocated("second") == ()
    assert devices.allocate(pod("second", 2, "0,1")) is None


def test_a_node_that_appears_later_has_its_devices():
    nodes = {}
    devices = DeviceManager(nodes.get)
    early = pod("early", 1)
    assert devices.of(early).allocate(early) is None
    nodes |= NODES
    assert devices.of(early).allocate(early) == (0,)
