"""Extended resources that a DeviceClass provides: the scheduler makes a claim, and binds the pod."""

import pytest
from tests.cluster.fake_api import Crash
from tests.cluster.scheduler.scheduler_fixture import node, pod
from tests.cluster.scheduler.test_claimed_devices import DeviceFixture, devices_of

from pykueue.api import objects, resources
from pykueue.cluster.kubelet import admission, claimed_devices, devices
from pykueue.cluster.resource_claims import ResourceClaimController
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache

GPU = "example.com/gpu"


def device_class(name="gpu", resource=GPU):
    spec = {"selectors": [{"cel": {"expression": "true"}}], **({"extendedResourceName": resource} if resource else {})}
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def claims(fixture):
    return fixture.api.of("ResourceClaim")


def devices_in(claim):
    return [
        (result["request"], result["device"])
        for result in objects.nested_list(claim, "status", "allocation", "devices", "results")
    ]


@pytest.fixture
def two_nodes():
    """Only the second node has devices."""
    fixture = DeviceFixture(node("n1"), node("n2"))
    return fixture.schedule(device_class(), devices_of("n2", {"name": "g0"}, {"name": "g1"}))


def test_a_claim_is_made_for_a_resource_that_a_class_provides(two_nodes):
    two_nodes.schedule(pod("p", {GPU: "2"}))
    (claim,) = claims(two_nodes)
    assert two_nodes.node_names() == {"p": "n2"}
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert objects.controller_of(claim)["name"] == "p"
    assert sorted(devices_in(claim)) == [("container-0-request-0", "g0"), ("container-0-request-0", "g1")]
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p"]
    assert two_nodes.api.get("Pod", "p")["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": objects.name(claim),
        "requestMappings": [{"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}],
    }


def test_the_name_of_a_class_is_a_resource(two_nodes):
    two_nodes.schedule(device_class("other", resource=""), pod("p", {"deviceclass.resource.kubernetes.io/other": "1"}))
    assert two_nodes.node_names() == {"p": "n2"}


def test_a_node_that_offers_the_resource_needs_no_claim():
    fixture = DeviceFixture(node("n1", **{GPU: "1"}), node("n2"))
    fixture.schedule(device_class(), pod("p", {GPU: "1"}))
    assert (fixture.node_names(), claims(fixture)) == ({"p": "n1"}, [])


def test_without_a_class_the_resource_is_missing():
    fixture = DeviceFixture(node("n1")).schedule(devices_of("n1", {"name": "g0"}), pod("p", {GPU: "1"}))
    assert (fixture.node_names(), claims(fixture)) == ({"p": ""}, [])
    assert f"Insufficient {GPU}" in fixture.message("p")


def test_a_device_has_one_user(two_nodes):
    two_nodes.schedule(*(pod(name, {GPU: "1"}) for name in "pqr"))
    assert sorted(two_nodes.node_names().values()) == ["", "n2", "n2"]
    assert sorted(device for claim in claims(two_nodes) for _, device in devices_in(claim)) == ["g0", "g1"]
    assert "cannot allocate all claims" in two_nodes.message("r")


def test_containers_have_devices_of_their_own_and_init_containers_share_them(two_nodes):
    def container(name):
        return {"name": name, "resources": {"requests": {GPU: "1"}}}

    both = {"initContainers": [container("first")], "containers": [container("a"), container("b")]}
    two_nodes.schedule(pod("p", **both))
    (claim,) = claims(two_nodes)
    mappings = two_nodes.api.get("Pod", "p")["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert {entry["containerName"]: entry["requestName"] for entry in mappings} == {
        "first": "container-1-request-0",
        "a": "container-1-request-0",
        "b": "container-2-request-0",
    }
    assert len(devices_in(claim)) == 2


@pytest.mark.parametrize("crash_after", range(5))
def test_a_crash_after_any_write_leaves_one_claim_and_a_pod_that_is_bound(two_nodes, crash_after):
    """A claim without an allocation, or one that no status names, is used again."""
    run = two_nodes.api.run
    two_nodes.api.run = lambda sync: run(sync, crash_after=crash_after)
    try:
        two_nodes.schedule(pod("p", {GPU: "1"}))
    except Crash:
        two_nodes.fleet.remove_pod(objects.uid(two_nodes.api.get("Pod", "p")))
    two_nodes.api.run = run
    two_nodes.schedule()
    (claim,) = claims(two_nodes)
    assert two_nodes.node_names() == {"p": "n2"}
    assert len(devices_in(claim)) == 1
    status = two_nodes.api.get("Pod", "p")["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == objects.name(claim)


def test_a_pod_whose_claim_is_refused_is_not_bound(two_nodes):
    two_nodes.api.refuse = lambda write: isinstance(write, writes.Create)
    two_nodes.schedule(pod("p", {GPU: "1"}))
    assert two_nodes.node_names() == {"p": ""}
    two_nodes.api.refuse = lambda _write: False
    two_nodes.schedule()
    assert two_nodes.node_names() == {"p": "n2"}


def test_a_pod_is_preempted_for_one_with_claimed_devices(two_nodes):
    two_nodes.fleet.set_pod(two_nodes.api.add(pod("small", {"cpu": "4"}, nodeName="n2")))
    two_nodes.schedule(pod("p", {"cpu": "4", GPU: "1"}, priority=10))
    assert "deletionTimestamp" in two_nodes.api.get("Pod", "small")["metadata"]


# The kubelet


def test_the_kubelet_accepts_the_pod_and_shows_it_its_devices(two_nodes):
    two_nodes.schedule(pod("p", {GPU: "1"}))
    bound, (claim,) = two_nodes.api.get("Pod", "p"), claims(two_nodes)
    assert admission.rejection(bound, two_nodes.api.get("Node", "n2"), []) is None
    variables = claimed_devices.variables(bound, bound["spec"]["containers"][0], lambda _kind, _name: claim)
    assert variables == {"PYKUEUE_DEVICES": "gpu.example.com/n2/g0"}
    unclaimed = {**bound, "status": {}}
    assert admission.rejection(unclaimed, two_nodes.api.get("Node", "n2"), [])[0] == f"OutOf{GPU}"


def test_claimed_gpus_are_none_of_the_node():
    claimed = {"requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}]}
    gpu_pod = pod("p", {"nvidia.com/gpu": "2"})
    assert devices.requested(gpu_pod) == {"nvidia.com/gpu": 2}
    assert devices.requested({**gpu_pod, "status": {"extendedResourceClaimStatus": claimed}}) == {}


# The resource claim controller


class Clock:
    def now_ns(self):
        return 0


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_the_claim_ends_with_its_pod(two_nodes, phase):
    two_nodes.schedule(pod("p", {GPU: "1"}))
    cache, actions = ObjectCache(), []

    class Executor:
        async def run(self, sync):
            try:
                results = None
                while True:
                    batch = sync.send(results)
                    actions.extend(batch)
                    results = [{}] * len(batch)
            except StopIteration as stop:
                return stop.value

    controller = ResourceClaimController(cache, Executor(), Clock())
    stored = two_nodes.api.get("Pod", "p")
    stored["status"]["phase"] = phase
    cache.observe(resources.POD, stored)
    for claim in claims(two_nodes):
        cache.observe(resources.RESOURCE_CLAIM, claim)
    assert not controller.queue.is_idle
    await controller.reconcile(("default", "p"))
    ended = [type(action) for action in actions]
    assert ended == ([writes.Patch, writes.Delete] if phase == "Succeeded" else [])
