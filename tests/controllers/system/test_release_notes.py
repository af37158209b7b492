"""The ways past quota that Kueue's release notes name: none of them works here."""

import pytest
from msgspec import structs
from tests.controllers.system.cluster import JOBS, job, kueue
from tests.translate.test_devices import RULES, Inventory, device_class, exactly
from tests.translate.test_devices import workload as claiming

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.resource_lists import LARGEST_AMOUNT
from pykueue.translate import devices, requests
from pykueue.translate.requests import RequestRules, ResourceTransformation


def workload_of(*cpus, count=1, **amounts):
    pod_sets = [
        {
            "name": f"set-{index}",
            "count": count,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu} | amounts}}]}},
        }
        for index, cpu in enumerate(cpus)
    ]
    return {"metadata": {"namespace": "ns"}, "spec": {"podSets": pod_sets}}


@pytest.mark.parametrize(
    "obj",
    [
        workload_of("9E"),
        workload_of("9223372036854775807", count=1000),
        workload_of("9223372036854775807", "9223372036854775807"),
        workload_of("99999999999999999999999999999"),
    ],
    ids=["thousandths", "many pods", "two pod sets", "beyond int64"],
)
def test_large_amounts_saturate(obj):
    usage = requests.usage(requests.requests_of_pod_sets(obj, RequestRules()))
    assert usage["", "cpu"] == LARGEST_AMOUNT


def test_a_large_product_of_a_transformation_saturates():
    rule = ResourceTransformation(outputs={"credits": "9E"})
    rules = RequestRules(transformations={"cpu": rule})
    obj = workload_of("9000000000000000000", count=3)
    [pod_set] = requests.requests_of_pod_sets(obj, rules)
    assert pod_set.requests["credits"] == LARGEST_AMOUNT


def test_negative_outputs_of_a_transformation_lower_nothing():
    rules = RequestRules(transformations={"cpu": ResourceTransformation(outputs={"memory": "-5Gi"})})
    [pod_set] = requests.requests_of_pod_sets(workload_of("1", memory="1Gi"), rules)
    assert pod_set.requests["memory"] == 2**30


@pytest.mark.parametrize("count", [2**31 - 1, 2**63 - 1, 2**70])
def test_many_devices_do_not_wrap_around(count):
    counted = devices.count(claiming(), RULES, Inventory(exactly(count=count), exactly(count=count)))
    if not isinstance(counted, devices.DeviceFault):
        obj = {"metadata": {}, "spec": claiming()["spec"]}
        [pod_set] = requests.requests_of_pod_sets(obj, RequestRules(), counted)
        assert pod_set.requests["gpu"] >= min(2 * count, LARGEST_AMOUNT)


def test_a_negative_extended_resource_offsets_no_devices():
    inventory = Inventory(exactly(count=2), classes=[device_class(extendedResourceName="example.com/gpu")])
    obj = claiming(resources={"requests": {"example.com/gpu": "-2"}})
    obj["spec"]["podSets"][0]["template"]["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    counted = devices.count(obj, RULES, inventory)
    assert isinstance(counted, devices.DeviceFault) or counted.added["main"]["gpu"] == 2


def test_two_extended_resources_of_one_quota_resource_are_both_counted():
    classes = [
        device_class(extendedResourceName="example.com/a"),
        device_class("large.example.com", extendedResourceName="example.com/b"),
    ]
    rules = structs.replace(RULES, resource_of={"gpu.example.com": "gpu", "large.example.com": "gpu"})
    obj = claiming(resources={"requests": {"example.com/a": "2"}})
    containers = obj["spec"]["podSets"][0]["template"]["spec"]["containers"]
    containers.append({"name": "d", "resources": {"requests": {"example.com/b": "3"}}})
    counted = devices.count(obj, rules, Inventory(classes=classes))
    assert counted.added["main"]["gpu"] == 5


@pytest.mark.parametrize("queue", [None, "other"], ids=["removed", "changed"])
async def test_the_queue_of_a_workload_with_quota_stays(cluster, queue):
    await cluster.make_queue(cpu="1")
    await cluster.create(JOBS, job("a"), "default")
    await cluster.runs("a", JOBS)
    name = (await cluster.workload_of("a"))["metadata"]["name"]
    with pytest.raises(ApiError):
        await cluster.merge(resources.WORKLOAD, name, {"spec": {"queueName": queue}}, namespace="default")


async def test_devices_are_not_free_without_the_integration(cluster):
    """A Workload that claims devices which nobody counts is not admitted."""
    await cluster.make_queue(cpu="1")
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}],
    }
    obj = kueue("Workload", "w", queueName="cq", podSets=[{"name": "main", "count": 1, "template": {"spec": spec}}])
    obj["metadata"]["namespace"] = "default"
    await cluster.create(resources.WORKLOAD, obj, "default")

    async def is_refused():
        stored = await cluster.get(resources.WORKLOAD, "w", "default")
        conditions = stored.get("status", {}).get("conditions") or ()
        return any(item["type"] == "QuotaReserved" and item["status"] == "False" for item in conditions)

    await cluster.until(is_refused)
