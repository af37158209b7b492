"""Objects of the same shape share the text of their managed fields; it is what they would get."""

import random

import msgspec
import pytest

from pykueue.api import registry
from pykueue.apiserver.patches import managed_fields, merge_schema, typed

SCHEME = registry.scheme()
WRITER = managed_fields.Writer(name="test", api_version="v1", time="2026-01-15T12:00:00Z")


def random_pod(source):
    containers = [
        {
            "name": name,
            "env": [{"name": source.choice("AB"), "value": "x"} for _ in range(source.randint(0, 2))],
            "ports": [{"containerPort": source.randint(1, 2)} for _ in range(source.randint(0, 2))],
            "resources": source.choice(({}, {"requests": {"cpu": "1"}}, {"limits": {"memory": "1Gi"}})),
        }
        for name in source.sample("ab", source.randint(1, 2))
    ]
    metadata = {"name": "p", "labels": {source.choice("xy"): "1"}, "finalizers": source.sample(("a/b", "c/d"), 1)}
    spec = {"containers": containers, "tolerations": [{"key": "k"}], "nodeSelector": source.choice(({}, {"a": "b"}))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def random_workload(source):
    pod_sets = [{"name": name, "count": 1, "template": {"spec": {}}} for name in source.sample("ab", 1)]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "ownerReferences": [{"uid": source.choice("uv"), "kind": "Job"}]},
        "spec": {"podSets": pod_sets, **source.choice(({}, {"priority": 1}))},
    }


@pytest.mark.parametrize("make", [random_pod, random_workload])
def test_the_fields_of_a_shape_are_those_of_each_object(make):
    source = random.Random(5)
    for _ in range(300):
        obj = make(source)
        schema = merge_schema.of(SCHEME.for_kind(obj["apiVersion"], obj["kind"]))
        before = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {}}
        expected = managed_fields.strip(typed.compare(schema, before, obj)[0])
        managers = managed_fields.after_update(schema, None, obj, managers={}, writer=WRITER)
        assert managers[WRITER.updater()].fields == expected


def test_an_object_without_fields_has_no_manager():
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    schema = merge_schema.of(SCHEME.for_kind("v1", "ConfigMap"))
    assert managed_fields.after_update(schema, None, obj, managers={}, writer=WRITER) == {}


def test_few_shapes_are_remembered(monkeypatch):
    monkeypatch.setattr(managed_fields, "_MOST_SHAPES", 4)
    schema = merge_schema.of(SCHEME.for_kind("v1", "ConfigMap"))
    for number in range(20):
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {f"key-{number}": ""}}
        managers = managed_fields.after_update(schema, None, obj, managers={}, writer=WRITER)
        assert msgspec.json.encode(managers[WRITER.updater()].fields).count(b"key-") == 1
    assert len(schema.texts_by_shape) <= 4


def test_large_shapes_are_not_remembered():
    schema = merge_schema.of(SCHEME.for_kind("v1", "Secret"))
    obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {},
        "data": {f"key-{number}": "" for number in range(2000)},
    }
    before = len(schema.texts_by_shape)
    managers = managed_fields.after_update(schema, None, obj, managers={}, writer=WRITER)
    assert len(managers[WRITER.updater()].fields["f:data"]) == 2001
    assert len(schema.texts_by_shape) == before
