"""Claims of devices as resources of quota, and what makes them uncountable."""

import pytest

from pykueue.translate import devices
from pykueue.translate.devices import DeviceCounts, DeviceFault, DeviceRules

RULES = DeviceRules(resource_of={"gpu.example.com": "gpu"})


class Inventory:
    def __init__(self, *requests, classes=(), devices=()):
        self._template = {"spec": {"spec": {"devices": {"requests": list(requests)}}}}
        self._classes = classes
        self._devices = list(devices)

    def template(self, namespace, name):
        return self._template if (namespace, name) == ("ns", "t") else None

    def classes(self):
        return self._classes

    def slices(self):
        return [{"spec": {"driver": "gpu.example.com", "devices": self._devices}}]


def device_class(name="gpu.example.com", **spec):
    return {"metadata": {"name": name, "creationTimestamp": None}, "spec": spec}


def workload(**container):
    spec = {"containers": [{"name": "c", **container}]}
    if not container:
        spec["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    return {
        "metadata": {"namespace": "ns"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]},
    }


def exactly(**fields):
    return {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", **fields}}


def selecting(model, count=1):
    text = f'device.attributes["gpu.example.com"].model == "{model}"'
    return exactly(count=count, selectors=[{"cel": {"expression": text}}])


def of_model(model):
    return {"name": "d", "attributes": {"model": {"string": model}}}


def test_requests_of_one_class_are_summed():
    counted = devices.count(workload(), RULES, Inventory(exactly(count=2), exactly()))
    assert counted == DeviceCounts(added={"main": {"gpu": 3}})


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        ({"name": "r", "firstAvailable": []}, "FirstAvailable device selection is not supported"),
        (exactly(allocationMode="All"), "AllocationMode 'All' is not supported"),
        (exactly(adminAccess=True), "AdminAccess is not supported"),
    ],
    ids=["alternatives", "all", "admin"],
)
def test_some_ways_of_asking_are_not_supported(request_, detail):
    fault = devices.count(workload(), RULES, Inventory(request_))
    assert fault.text.endswith(f"ResourceClaimTemplate t: {detail}")


@pytest.mark.parametrize(("count", "is_faulty"), [(2, False), (3, True)])
def test_devices_that_a_claim_describes_must_exist(count, is_faulty):
    inventory = Inventory(
        selecting("a", count), classes=[device_class()], devices=[of_model("a"), of_model("b"), of_model("a")]
    )
    assert isinstance(devices.count(workload(), RULES, inventory), DeviceFault) is is_faulty


def test_an_extended_resource_with_a_class_behind_it_counts_under_its_name():
    inventory = Inventory(classes=[device_class(extendedResourceName="example.com/gpu")])
    counted = devices.count(workload(resources={"requests": {"example.com/gpu": "2"}}), RULES, inventory)
    assert counted == DeviceCounts(added={"main": {"gpu": 2}}, replaced={"main": frozenset({"example.com/gpu"})})


def test_an_extended_resource_without_a_class_is_left_alone():
    assert (
        devices.count(workload(resources={"requests": {"example.com/gpu": "2"}}), RULES, Inventory()) == DeviceCounts()
    )
