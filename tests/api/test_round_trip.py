"""An object that is read and written in the same version is unchanged, except for defaults."""

import copy

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api import generate

from pykueue.api import manifests, registry, schema, schema_validation, structural, yaml_text
from pykueue.api.kueue import v1beta2

KINDS = [kind for kind in registry.scheme() if kind.group == "kueue.x-k8s.io"]
CURRENT = [kind for kind in KINDS if kind.version == "v1beta2"]
RELAXED = settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def name(kind):
    return f"{kind.version}-{kind.kind}"


@pytest.mark.parametrize("kind", KINDS, ids=name)
@RELAXED
@given(st.data())
def test_nothing_is_lost_or_refused(kind, data):
    obj = data.draw(generate.objects(kind))
    before = copy.deepcopy(obj)
    assert schema.unknown_fields(kind.schema, obj) == []
    assert schema.prune(kind.schema, obj) == before
    schema.apply_defaults(kind.schema, obj)
    assert contains(obj, before)
    assert list(schema_validation._structure(kind.schema, obj, schema_validation._ABSENT, "")) == []


@pytest.mark.parametrize("kind", KINDS, ids=name)
@RELAXED
@given(st.data())
def test_defaulting_twice_is_defaulting_once(kind, data):
    once = schema.apply_defaults(kind.schema, data.draw(generate.objects(kind)))
    assert schema.apply_defaults(kind.schema, copy.deepcopy(once)) == once


@pytest.mark.parametrize("kind", KINDS, ids=name)
@RELAXED
@given(st.data())
def test_yaml_holds_the_object(kind, data):
    obj = data.draw(generate.objects(kind))
    (document,), faults = manifests.read(yaml_text.dump([obj]))
    assert (document.object, faults) == (obj, [])


@pytest.mark.parametrize("kind", CURRENT, ids=name)
@RELAXED
@given(st.data())
def test_the_struct_says_what_the_object_says(kind, data):
    struct = getattr(v1beta2, kind.kind)
    obj = data.draw(
        generate.objects(kind).filter(lambda drawn: "spec" in drawn or "spec" not in kind.schema["properties"])
    )
    schema.apply_defaults(kind.schema, obj)
    encoded = msgspec.json.decode(msgspec.json.encode(structural.decode(obj, struct)))
    assert contains(obj, encoded)


def contains(whole, part):
    """Whether everything in `part` is in `whole`; an empty object is nothing."""
    if isinstance(part, dict):
        return all(
            contains(whole.get(key, {} if isinstance(inner, dict) else None), inner) for key, inner in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return whole == part


@given(st.dictionaries(st.text(), st.text()))
def test_text_stays_text_in_yaml(labels):
    (document,), _ = manifests.read(yaml_text.dump([{"kind": "A", "labels": labels}]))
    assert document.object["labels"] == labels


@pytest.mark.parametrize(
    "text", ["yes", "0644", "1e3", "null", "~", "", " x", "a\nb", "a: b", "- a", "#", "1_0", ".inf", "\t", "2026-01-01"]
)
def test_awkward_text_stays_text_in_yaml(text):
    (document,), _ = manifests.read(yaml_text.dump([{"a": text}]))
    assert document.object == {"a": text}
