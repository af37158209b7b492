"""Pods with claims are bound to nodes with free devices, and the claims say which."""

import pytest
from tests.cluster.scheduler.scheduler_fixture import SchedulerFixture, node, pod

from pykueue.api import objects, resources
from pykueue.cluster.scheduler import scheduling_pass
from pykueue.cluster.scheduler.device_allocation import DevicePass
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate.device_selectors import DeviceSelector

DRIVER = "gpu.example.com"
KINDS = {
    "DeviceClass": resources.DEVICE_CLASS,
    "ResourceClaim": resources.RESOURCE_CLAIM,
    "ResourceSlice": resources.RESOURCE_SLICE,
}


def devices_of(node_name, *devices, **spec):
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"devices-of-{node_name}"},
        "spec": {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": list(devices)} | spec,
    }


def device_class(expression="true"):
    selectors = [{"cel": {"expression": expression}}]
    return {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}


def claim(name, *requests, **spec):
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"} | request} for request in requests or ({},)]
    return {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": {"requests": requests} | spec}}


def claiming(name, *claims):
    return pod(name, resourceClaims=[{"name": claim, "resourceClaimName": claim} for claim in claims])


class DeviceFixture(SchedulerFixture):
    def schedule(self, *new):
        for obj in new:
            self.api.add(obj)
        cache = ObjectCache()
        for kind, resource in KINDS.items():
            cache.add_kind(resource)
            for obj in self.api.of(kind):
                cache.observe(resource, obj)
        waiting = filter(scheduling_pass.is_waiting, self.api.of("Pod"))
        self.api.run(scheduling_pass.schedule(waiting, self.fleet, self.api.now, DevicePass(cache)))
        return self

    def devices(self, name):
        results = objects.nested_list(self.api.get("ResourceClaim", name), "status", "allocation", "devices", "results")
        return [result["device"] for result in results]


@pytest.fixture
def two_nodes():
    return DeviceFixture(node("n1"), node("n2"))


def test_a_pod_goes_where_its_device_is(two_nodes):
    two_nodes.schedule(device_class(), devices_of("n2", {"name": "g0"}), claim("c"), claiming("p", "c"))
    assert two_nodes.node_names() == {"p": "n2"}
    status = two_nodes.api.get("ResourceClaim", "c")["status"]
    assert status["allocation"]["devices"]["results"] == [
        {"request": "r", "driver": DRIVER, "pool": "n2", "device": "g0"}
    ]
    assert [entry["name"] for entry in status["reservedFor"]] == ["p"]


@pytest.mark.parametrize("count", [2, 2**31 - 1, 2**63 - 1])
def test_more_devices_than_there_are_fit_nowhere(two_nodes, count):
    two_nodes.schedule(device_class(), devices_of("n1", {"name": "g0"}), claim("c", {"count": count}))
    two_nodes.schedule(claiming("p", "c"))
    assert two_nodes.node_names() == {"p": ""}


def test_a_device_has_one_user(two_nodes):
    two_nodes.schedule(device_class(), devices_of("n1", {"name": "g0"}), claim("c"), claim("d"))
    two_nodes.schedule(claiming("p", "c"), claiming("q", "d"))
    assert sorted(two_nodes.node_names().values()) == ["", "n1"]
    assert "2 cannot allocate all claims" in two_nodes.message("q")


def test_a_claim_may_be_shared_by_pods_of_its_node(two_nodes):
    two_nodes.schedule(device_class(), devices_of("n1", {"name": "g0"}), claim("c"), claiming("p", "c"))
    two_nodes.schedule(claiming("q", "c"))
    assert two_nodes.node_names() == {"p": "n1", "q": "n1"}


def test_partitions_share_their_counters(two_nodes):
    def part(name, amount):
        return {"name": name, "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": amount}}}]}

    counters = [{"name": "s", "counters": {"memory": {"value": "40Gi"}}}]
    parts = devices_of("n1", part("whole", "40Gi"), part("half", "20Gi"), sharedCounters=counters)
    two_nodes.schedule(device_class(), parts, claim("c", {"count": 2}), claiming("p", "c"))
    assert two_nodes.node_names() == {"p": ""}


def test_shares_of_a_device_fit_its_capacity(two_nodes):
    shared = {"name": "g", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
    request = {"capacity": {"requests": {"memory": "15Gi"}}}
    two_nodes.schedule(device_class(), devices_of("n1", shared), *(claim(name, request) for name in "cde"))
    two_nodes.schedule(claiming("p", "c"), claiming("q", "d"), claiming("r", "e"))
    assert sorted(two_nodes.node_names().values()) == ["", "n1", "n1"]


def test_selectors_choose_devices(two_nodes):
    sizes = [{"name": name, "attributes": {"size": {"string": name}}} for name in ("small", "big")]
    selector = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == 'big'"}}]}
    two_nodes.schedule(device_class(), devices_of("n1", *sizes), claim("c", selector), claiming("p", "c"))
    assert two_nodes.devices("c") == ["big"]


def test_devices_of_one_claim_match_an_attribute(two_nodes):
    bus = [{"name": f"g{index}", "attributes": {"bus": {"int": value}}} for index, value in enumerate((1, 2, 3, 2))]
    constraints = [{"matchAttribute": f"{DRIVER}/bus"}]
    two_nodes.schedule(
        device_class(),
        devices_of("n1", *bus),
        claim("c", {"count": 2}, constraints=constraints),
        claiming("p", "c"),
    )
    assert two_nodes.devices("c") == ["g1", "g3"]


def test_the_first_alternative_that_is_free_is_taken(two_nodes):
    alternatives = [{"name": "many", "deviceClassName": "gpu", "count": 3}, {"name": "one", "deviceClassName": "gpu"}]
    request = {"name": "r", "firstAvailable": alternatives}
    spec = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    two_nodes.schedule(device_class(), devices_of("n1", {"name": "g0"}), spec, claiming("p", "c"))
    status = two_nodes.api.get("ResourceClaim", "c")["status"]
    assert [result["request"] for result in status["allocation"]["devices"]["results"]] == ["r/one"]


def test_a_claim_that_is_not_made_yet_is_waited_for(two_nodes):
    two_nodes.schedule(pod("p", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]))
    assert "waiting for resource claim controller" in two_nodes.message("p")


@pytest.mark.parametrize("needs", [9, 30])
def test_alternatives_that_all_fail_are_not_tried_without_end(two_nodes, monkeypatch, needs):
    """The expressions and the number of combinations are a user's."""
    tried = []
    matches = DevicePass._matches
    monkeypatch.setattr(DevicePass, "_matches", lambda *given: tried.append(1) or matches(*given))
    evaluated = []
    evaluate = DeviceSelector.matches
    monkeypatch.setattr(DeviceSelector, "matches", lambda *given: evaluated.append(1) or evaluate(*given))
    requests = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                {
                    "name": f"s{option}",
                    "deviceClassName": "gpu",
                    "count": 2,
                    "selectors": [{"cel": {"expression": f"device.driver != 'x{number}{option}'"}}],
                }
                for option in range(2)
            ],
        }
        for number in range(needs)
    ]
    spec = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    two_nodes.schedule(device_class(), devices_of("n1", *({"name": f"g{index}"} for index in range(16))), spec)
    two_nodes.schedule(claiming("p", "c"))
    assert two_nodes.node_names() == {"p": ""}
    assert len(evaluated) <= 1000
    assert len(tried) <= 10_100
