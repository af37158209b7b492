"""Devices that are counted by counters of partitions, or by the capacity that a claim takes."""

import pytest

from pykueue.translate import device_sources, devices, policy
from pykueue.translate.devices import DeviceCounts, DeviceFault

CLASS = "gpu.example.com"
GIB = 2**30
PATH = "spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0]"


def source(kind, name, expression="true", driver="driver.example.com"):
    return {kind: {"name": name, "driver": driver, "deviceSelector": {"cel": {"expression": expression}}}}


def mapping(resource, *sources):
    return {"name": resource, "deviceClassNames": [CLASS], "sources": list(sources)}


def rules(*mappings, **gates):
    return policy.device_rules({"resources": {"deviceClassMappings": list(mappings)}, "featureGates": gates})


MEMORY = rules(mapping("gpu.memory", source("counter", "memory")))
SHARES = rules(
    mapping("gpu.memory", source("capacity", "memory")),
    KueueDRAIntegrationConsumableCapacity=True,
)


def device(name="d", **fields):
    return {"name": name, **fields}


def partition(memory, name="p", **attributes):
    return device(
        name,
        attributes={key: {"string": value} for key, value in attributes.items()},
        consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": memory}}}],
    )


def shared(value, **request_policy):
    capacity = {"value": value, **({"requestPolicy": request_policy} if request_policy else {})}
    return device(capacity={"memory": capacity})


def resource_slice(*members, pool="pool", generation=1, of=1, driver="driver.example.com"):
    pool_spec = {"name": pool, "generation": generation, "resourceSliceCount": of}
    return {"spec": {"driver": driver, "pool": pool_spec, "devices": list(members)}}


class Inventory:
    def __init__(self, request, *slices, class_spec=None):
        self._request = {"name": "r", "exactly": {"deviceClassName": CLASS, **request}}
        self._slices = slices
        self._class = {"metadata": {"name": CLASS}, "spec": class_spec or {}}

    def template(self, _namespace, _name):
        return {"spec": {"spec": {"devices": {"requests": [self._request]}}}}

    def classes(self):
        return [self._class]

    def slices(self):
        return self._slices


def workload(**spec):
    claims = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
    pod_spec = {"containers": [{"name": "c"}], **(spec or claims)}
    return {
        "metadata": {"namespace": "ns"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": pod_spec}}]},
    }


def charged(counting, request, *slices, **options):
    result = devices.count(workload(), counting, Inventory(request, *slices, **options))
    return result.text if isinstance(result, DeviceFault) else dict(result.added["main"])


def test_the_most_expensive_partition_that_matches_is_charged():
    pool = resource_slice(partition("10Gi"), partition("40Gi"), partition("20Gi"))
    assert charged(MEMORY, {}, pool) == {"gpu.memory": 40 * GIB}
    assert charged(MEMORY, {"count": 2}, pool) == {"gpu.memory": 80 * GIB}


def test_selectors_of_request_class_and_mapping_choose_partitions():
    pool = resource_slice(partition("10Gi", profile="small"), partition("40Gi", profile="big"))
    small = [{"cel": {"expression": 'device.attributes["driver.example.com"].profile == "small"'}}]
    assert charged(MEMORY, {"selectors": small}, pool) == {"gpu.memory": 10 * GIB}
    assert charged(MEMORY, {}, pool, class_spec={"selectors": small}) == {"gpu.memory": 10 * GIB}
    expression = small[0]["cel"]["expression"]
    by_mapping = rules(mapping("gpu.memory", source("counter", "memory", expression)))
    assert charged(by_mapping, {}, pool) == {"gpu.memory": 10 * GIB}


def test_a_class_may_be_charged_for_several_counters():
    both = rules(mapping("gpu.memory", source("counter", "memory")), mapping("gpu.slices", source("counter", "slices")))
    counters = {"memory": {"value": "10Gi"}, "slices": {"value": "2"}}
    pool = resource_slice(device(consumesCounters=[{"counterSet": "s", "counters": counters}]))
    assert charged(both, {}, pool) == {"gpu.memory": 10 * GIB, "gpu.slices": 2}


@pytest.mark.parametrize(("value", "amount"), [("-10Gi", 0), ("-9999999E", 0), ("99999E", 2**63 - 1)])
def test_values_of_a_driver_neither_lower_the_usage_nor_wrap_around(value, amount):
    partitions = [partition(value, name=f"p{number}") for number in range(100)]
    assert charged(MEMORY, {"count": 100}, resource_slice(*partitions)) == {"gpu.memory": amount}
    assert charged(SHARES, {}, resource_slice(shared(value))) == {"gpu.memory": amount}


@pytest.mark.parametrize(
    ("slices", "detail"),
    [
        ([], "insufficient matching devices for counter driver: 0 device(s) match but 1 requested"),
        ([resource_slice(partition("1Gi"), of=2)], "insufficient matching devices for counter driver: 0 device"),
        ([resource_slice(partition("1Gi"), driver="other")], "insufficient matching devices for counter driver: 0"),
        ([resource_slice(device())], 'matched devices have no consumesCounters entry for counter "memory"'),
    ],
    ids=["none", "incomplete pool", "other driver", "no counter"],
)
def test_what_cannot_be_charged_is_inadmissible(slices, detail):
    assert charged(MEMORY, {}, *slices).startswith(f"{PATH}: Internal error: {detail}")


def test_only_the_newest_generation_of_a_pool_counts():
    old, new = resource_slice(partition("80Gi")), resource_slice(partition("10Gi"), generation=2)
    assert charged(MEMORY, {}, old, new) == {"gpu.memory": 10 * GIB}


def test_without_the_gate_devices_are_counted():
    counting = rules(mapping("gpu.memory", source("counter", "memory")), KueueDRAIntegrationPartitionableDevices=False)
    assert charged(counting, {"count": 2}) == {"gpu.memory": 2}


def test_a_claim_takes_the_capacity_that_it_requests():
    request = {"capacity": {"requests": {"memory": "20Gi"}}, "count": 2}
    pool = resource_slice(shared("80Gi"), shared("80Gi"))
    assert charged(SHARES, request, pool) == {"gpu.memory": 40 * GIB}


def test_without_a_request_the_default_or_everything_is_taken():
    assert charged(SHARES, {}, resource_slice(shared("80Gi", default="40Gi"))) == {"gpu.memory": 40 * GIB}
    assert charged(SHARES, {}, resource_slice(shared("80Gi"))) == {"gpu.memory": 80 * GIB}
    pool = resource_slice(shared("80Gi", default="10Gi"), shared("80Gi", default="40Gi"))
    assert charged(SHARES, {}, pool) == {"gpu.memory": 40 * GIB}


def test_a_policy_that_no_device_can_satisfy_is_an_error():
    request = {"capacity": {"requests": {"memory": "90Gi"}}}
    text = charged(SHARES, request, resource_slice(shared("80Gi", validValues=["10Gi", "80Gi"])))
    assert text == (
        f"{PATH}: Invalid value: null: capacity request cannot be satisfied by any matched device's RequestPolicy"
        ' for dimension "memory"'
    )


def test_a_capacity_that_no_device_has_is_an_error():
    text = charged(SHARES, {}, resource_slice(device(capacity={})))
    assert text == f'{PATH}: Internal error: matched devices have no capacity dimension "memory"'


@pytest.mark.parametrize(
    ("request_", "values", "amount"),
    [
        ("20Gi", ["10Gi", "20Gi", "40Gi"], 20 * GIB),
        ("15Gi", ["10Gi", "20Gi", "40Gi"], 20 * GIB),
        ("5Gi", ["10Gi", "20Gi"], 10 * GIB),
        ("50Gi", ["10Gi", "20Gi"], None),
    ],
)
def test_requests_are_rounded_up_to_valid_values(request_, values, amount):
    capacity = {"value": "80Gi", "requestPolicy": {"validValues": values}}
    assert device_sources.rounded(capacity, request_) == amount


@pytest.mark.parametrize(
    ("request_", "limits", "amount"),
    [
        ("20Gi", {"min": "10Gi", "step": "5Gi", "max": "80Gi"}, 20 * GIB),
        ("15500Mi", {"min": "1Gi", "step": "1Gi", "max": "80Gi"}, 16 * GIB),
        ("512Mi", {"min": "1Gi", "step": "1Gi"}, GIB),
        ("80Gi", {"min": "1Gi", "step": "10Gi", "max": "80Gi"}, None),
        ("15500Mi", {"min": "1Gi", "max": "80Gi"}, 15500 * 2**20),
        ("15500Mi", {"step": "1Gi"}, 15500 * 2**20),
        ("21Gi", {"min": "10Gi", "step": "20Gi"}, 30 * GIB),
    ],
)
def test_requests_are_rounded_up_to_steps_of_a_range(request_, limits, amount):
    capacity = {"value": "80Gi", "requestPolicy": {"validRange": limits}}
    assert device_sources.rounded(capacity, request_) == amount


@pytest.mark.parametrize(
    ("counting", "words"),
    [
        (MEMORY, "with counters configured; use ResourceClaimTemplates with CEL selectors for counter-based quota"),
        (SHARES, "with capacity sources configured; use ResourceClaimTemplates with capacity.requests for capacity"),
    ],
)
def test_an_extended_resource_cannot_be_counted_by_sources(counting, words):
    inventory = Inventory({}, class_spec={"extendedResourceName": "example.com/gpu"})
    requests = {"requests": {"example.com/gpu": "1"}}
    result = devices.count(workload(containers=[{"name": "c", "resources": requests}]), counting, inventory)
    assert words in result.text
    assert result.text.startswith('spec.podSets[0].template.spec.containers[0]: Invalid value: "example.com/gpu"')


def test_other_classes_are_counted_beside_sources():
    plain = {"name": "tpu", "deviceClassNames": ["tpu.example.com"]}
    counting = rules(mapping("gpu.memory", source("counter", "memory")), plain)
    inventory = Inventory({"deviceClassName": "tpu.example.com", "count": 3})
    assert devices.count(workload(), counting, inventory) == DeviceCounts(added={"main": {"tpu": 3}})
