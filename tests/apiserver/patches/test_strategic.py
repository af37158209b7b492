"""The directives of strategic merge patches."""

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind
from pykueue.apiserver.patches import shapes, strategic

POD = shapes.of(Kind(group="", version="v1", kind="Pod", plural="pods", namespaced=True))
SERVICE = shapes.of(Kind(group="", version="v1", kind="Service", plural="services", namespaced=True))


def containers(*names):
    return [{"name": name} for name in names]


def names(pod):
    return [each["name"] for each in pod["containers"]]


def test_an_item_is_deleted_by_key():
    patch = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert names(strategic.apply(POD, {"containers": containers("a", "b")}, patch)) == ["b"]


def test_a_list_is_replaced():
    patch = {"containers": [{"$patch": "replace"}, {"name": "c"}]}
    assert names(strategic.apply(POD, {"containers": containers("a", "b")}, patch)) == ["c"]


def test_a_map_is_replaced():
    patch = {"limits": {"$patch": "replace", "cpu": "1"}}
    assert strategic.apply(POD, {"limits": {"cpu": "2", "memory": "1Gi"}}, patch) == {"limits": {"cpu": "1"}}


def test_a_map_is_deleted():
    assert strategic.apply(POD, {"limits": {"cpu": "2"}}, {"limits": {"$patch": "delete"}}) == {}


def test_order_is_set():
    patch = {"$setElementOrder/containers": containers("b", "a"), "containers": [{"name": "a", "image": "x"}]}
    assert names(strategic.apply(POD, {"containers": containers("a", "b")}, patch)) == ["b", "a"]


def test_values_are_deleted_from_a_list():
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert strategic.apply(POD, {"finalizers": ["a", "b"]}, patch) == {"finalizers": ["b"]}


def test_finalizers_are_a_set():
    assert strategic.apply(POD, {"finalizers": ["a"]}, {"finalizers": ["b", "a"]}) == {"finalizers": ["a", "b"]}


def test_keys_are_retained():
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    old = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    assert strategic.apply(POD, old, patch) == {"strategy": {"type": "Recreate"}}


def test_ports_of_a_service_merge_by_port():
    old = {"ports": [{"port": 80, "targetPort": 1}]}
    assert strategic.apply(SERVICE, old, {"ports": [{"port": 80, "targetPort": 2}]}) == {
        "ports": [{"port": 80, "targetPort": 2}]
    }


def test_plain_lists_are_replaced():
    assert strategic.apply(POD, {"args": ["a"]}, {"args": ["b"]}) == {"args": ["b"]}


def test_an_item_needs_its_key():
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic.apply(POD, {"containers": []}, {"containers": [{"image": "x"}]})
