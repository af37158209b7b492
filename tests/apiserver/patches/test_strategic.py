"""The directives of strategic merge patches."""

import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver.patches import merge_schema, strategic

POD = merge_schema.of_builtin("v1", "Pod").child("spec")
CONTAINER = POD.child("containers").item()
SERVICE = merge_schema.of_builtin("v1", "Service").child("spec")
DEPLOYMENT = merge_schema.of_builtin("apps/v1", "Deployment").child("spec")
METADATA = merge_schema.of_builtin("v1", "Pod").child("metadata")
POLICY = merge_schema.of_builtin("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy").child("spec")


def containers(*names):
    return [{"name": name} for name in names]


def names(pod):
    return [container["name"] for container in pod["containers"]]


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
    assert strategic.apply(METADATA, {"finalizers": ["a", "b"]}, patch) == {"finalizers": ["b"]}


def test_finalizers_are_a_set():
    assert strategic.apply(METADATA, {"finalizers": ["a"]}, {"finalizers": ["b", "a"]}) == {"finalizers": ["a", "b"]}


def test_keys_are_retained():
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    old = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    assert strategic.apply(DEPLOYMENT, old, patch) == {"strategy": {"type": "Recreate"}}


def test_ports_of_a_service_merge_by_port():
    old = {"ports": [{"port": 80, "targetPort": 1}]}
    assert strategic.apply(SERVICE, old, {"ports": [{"port": 80, "targetPort": 2}]}) == {
        "ports": [{"port": 80, "targetPort": 2}]
    }


def test_plain_lists_are_replaced():
    assert strategic.apply(CONTAINER, {"args": ["a"]}, {"args": ["b"]}) == {"args": ["b"]}


def test_validations_of_a_policy_are_replaced():
    old = {"validations": [{"expression": "a"}, {"expression": "b"}]}
    patch = {"validations": [{"expression": "c"}]}
    assert strategic.apply(POLICY, old, patch) == patch


def test_an_item_needs_its_key():
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic.apply(POD, {"containers": []}, {"containers": [{"image": "x"}]})
