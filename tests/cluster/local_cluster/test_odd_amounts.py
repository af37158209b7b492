"""Amounts that the API stores can be read again: otherwise one object stops all pods of a namespace."""

import copy

import pytest
from tests.cost import object_templates

from pykueue.api import quantity, resources
from pykueue.api.errors import ApiError

AMOUNTS = [None, 0, -1, 1.5, 1e300, 10**30, 10**4000, "1" * 300, "1e99999", "1e-99999", "1e5", "5.", ".5", "", "x", {}]


async def created(client, resource, obj):
    """The status code, and the object if it was created."""
    try:
        return 201, await client.create(resource, {"metadata": {"name": "a"}, **obj}, "default")
    except ApiError as error:
        return error.code, None


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: repr(amount)[:12])
async def test_a_stored_amount_can_be_read(client, amount):
    limits = {"limits": [{"type": "Container", "default": {"cpu": amount}}]}
    code, stored = await created(client, resources.LIMIT_RANGE, {"spec": limits})
    assert code in (201, 400, 422)
    if stored is not None:
        quantity.parse(stored["spec"]["limits"][0].get("default", {}).get("cpu"))
    code, _ = await created(client, resources.POD, {"spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert code in (201, 403, 422)


@pytest.mark.parametrize(
    "containers", ["a", ["a"], [["a"]], {}, [{"name": "a", "resources": "b"}], [{"name": 1}]], ids=repr
)
async def test_a_workload_has_a_pod_template(client, containers):
    workload = copy.deepcopy(object_templates.WORKLOAD)
    workload["spec"]["podSets"][0]["template"]["spec"]["containers"] = containers
    assert await created(client, resources.WORKLOAD, workload) == (422, None)


async def test_unknown_fields_of_a_pod_template_survive(client):
    workload = copy.deepcopy(object_templates.WORKLOAD)
    workload["spec"]["podSets"][0]["template"]["spec"]["newField"] = {"a": [1]}
    _, stored = await created(client, resources.WORKLOAD, workload)
    assert stored["spec"]["podSets"][0]["template"]["spec"]["newField"] == {"a": [1]}
