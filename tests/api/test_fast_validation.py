"""A fast yes is never wrong: the full check finds nothing in what `is_certainly_valid` accepts."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api import generate

from pykueue.api import registry, schema, schema_validation
from pykueue.api.fast_validation import is_certainly_valid

pytestmark = pytest.mark.untraced

SCHEME = registry.scheme()
KINDS = [
    SCHEME.for_kind(version, kind)
    for version, kind in (
        ("v1", "Pod"),
        ("v1", "Event"),
        ("v1", "ConfigMap"),
        ("batch/v1", "Job"),
        ("kueue.x-k8s.io/v1beta2", "Workload"),
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    )
]
RELAXED = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
ODD = st.sampled_from(
    [None, True, -1, 2**40, 1.0, 0.5, "", "x" * 300, "Not A Name", {}, [], {"odd": 1}, [None], ["x", "x"]]
)


def parts(value):
    """Every dict and list in a value, itself included."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from parts(inner)


def spoil(data, obj):
    place = data.draw(st.sampled_from(list(parts({name: obj[name] for name in obj if name != "metadata"}))))
    odd = copy.deepcopy(data.draw(ODD))  # a list must not contain itself
    if isinstance(place, dict):
        place[data.draw(st.sampled_from([*place, "unheardOf"]))] = odd
    else:
        place.insert(0, odd)


def structure_faults(kind, obj):
    body = {name: value for name, value in obj.items() if name != "metadata"}
    return list(schema_validation._structure(kind.schema, body, schema_validation._ABSENT, ""))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@RELAXED
@given(st.data())
def test_what_is_accepted_has_no_fault_and_needs_only_defaults(kind, data):
    obj = data.draw(generate.objects(kind))
    for _ in range(data.draw(st.integers(0, 2))):
        spoil(data, obj)
    if is_certainly_valid(kind.schema, obj):
        assert schema.unknown_fields(kind.schema, obj) == []
        assert structure_faults(kind, obj) == []
        walked = schema.apply_defaults(kind.schema, copy.deepcopy(obj))
        schema.fill_in_defaults(kind.schema, obj)
        assert obj == walked


CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": 1024}}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
TIME = "2026-11-16T00:14:01Z"
USUAL = [
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"suspend": True, "template": TEMPLATE},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": TEMPLATE["spec"],
        "status": {"startTime": TIME},
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"text": "x"}},
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "a"},
        "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}]},
    },
]


@pytest.mark.parametrize("obj", USUAL, ids=lambda obj: obj["kind"])
def test_usual_objects_are_accepted_without_a_walk(obj):
    assert is_certainly_valid(SCHEME.for_object(obj).schema, obj)


def test_a_settled_field_is_not_looked_into():
    job = {**USUAL[0], "spec": {"template": None}}
    kind = SCHEME.for_object(job)
    assert is_certainly_valid(kind.schema, job, {"spec"})
    assert not is_certainly_valid(kind.schema, job)
