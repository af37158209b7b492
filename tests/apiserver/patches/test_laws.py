"""Laws of patches, on generated values; the jsonpatch library is the oracle where there is one."""

import copy
import json

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.apiserver.patches import field_sets, json_patch, managed_fields, merge, merge_schema, strategic, typed
from pykueue.apiserver.patches.managed_fields import Writer
from pykueue.apiserver.patches.merge_schema import MergeSchema

pytestmark = pytest.mark.untraced

POD_SPEC = merge_schema.of_builtin("v1", "Pod").child("spec")

LISTS = {"type": "array", "items": {"type": "string"}}
SCHEMA = MergeSchema(
    {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "steps": LISTS,
                    "tags": {**LISTS, "x-kubernetes-list-type": "set"},
                    "notes": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                        },
                    },
                },
            },
        },
    }
)

words = st.sampled_from(["a", "b", "c"])
numbers = st.integers(0, 3)
parts = st.lists(
    st.fixed_dictionaries({"name": words}, optional={"count": numbers}), max_size=3, unique_by=lambda part: part["name"]
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": numbers,
        "steps": st.lists(words, min_size=1, max_size=3),
        "tags": st.lists(words, min_size=1, max_size=3, unique=True),
        "notes": st.dictionaries(words, words, min_size=1, max_size=3),
        "whole": st.dictionaries(words, words, min_size=1, max_size=2),
        "parts": parts.filter(bool),
    },
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(words, values, max_size=3)


def applied(**rest):
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, **rest}


def configuration(spec):
    return applied(spec=spec) if spec else applied()


def apply(live, spec, manager, *, force=True):
    writer = Writer(name=manager, api_version="example.dev/v1", time="2026-01-01T00:00:00Z")
    managers = managed_fields.read(live) if live else {}
    if live:
        live = live | {"metadata": {name: value for name, value in live["metadata"].items() if name != "managedFields"}}
    result, managers = managed_fields.apply(
        SCHEMA, live, configuration(spec), managers=managers, writer=writer, force=force
    )
    result = copy.deepcopy(result)
    managed_fields.write(result, managers)
    return msgspec.json.decode(msgspec.json.encode(result))


# Server-side apply


@given(specs, specs)
def test_applying_twice_changes_nothing(others, mine):
    live = apply(None, others, "other")
    once = apply(live, mine, "me")
    assert apply(once, mine, "me") == once


@given(specs, specs)
def test_what_is_applied_is_there(others, mine):
    result = apply(apply(None, others, "other"), mine, "me")
    assert typed.merge(SCHEMA, result, configuration(mine)) == result


@given(specs, specs)
def test_what_one_alone_applied_goes_with_it(first, second):
    """Applying another configuration gives the object of that one alone, but for list order."""
    result = apply(apply(None, first, "me"), second, "me")
    assert ordered(result) == ordered(apply(None, second, "me"))


@given(specs, specs)
def test_applying_nothing_gives_back_what_others_have(others, mine):
    live = apply(None, others, "other")
    try:
        shared = apply(live, mine, "me", force=False)
    except Exception as conflict:  # noqa: BLE001 - whatever was refused is not the matter here
        assert "conflict" in str(conflict)  # noqa: PT017 - both outcomes are lawful
        return
    assert ordered(apply(shared, {}, "me")) == ordered(live)


@given(specs, specs)
def test_without_force_nothing_of_others_changes(others, mine):
    live = apply(None, others, "other")
    try:
        result = apply(live, mine, "me", force=False)
    except Exception as conflict:  # noqa: BLE001 - whatever was refused is not the matter here
        assert "conflict" in str(conflict)  # noqa: PT017 - both outcomes are lawful
        return
    assert ordered(typed.merge(SCHEMA, result, configuration(others))) == ordered(result)


@given(specs, specs)
def test_after_force_nobody_else_owns_what_was_taken(others, mine):
    live = apply(None, others, "other")
    result = apply(live, mine, "me")
    changed, _ = typed.compare(SCHEMA, {"spec": others}, {"spec": result.get("spec", {})})
    for manager, owned in managed_fields.read(result).items():
        if manager.name == "other":
            assert field_sets.intersection(owned.fields, changed) is None


@given(specs, specs, specs)
def test_owned_fields_exist(first, second, third):
    result = apply(apply(apply(None, first, "a"), second, "b"), third, "a")
    present = typed.presence(SCHEMA, {"spec": result.get("spec", {})})
    for owned in managed_fields.read(result).values():
        assert field_sets.difference(leaves(owned.fields), present) is None


@given(specs, specs)
def test_an_update_owns_what_it_changed(old, new):
    writer = Writer(name="editor", api_version="example.dev/v1", time="t")
    before, after = applied(spec=old), applied(spec=new)
    changed, _ = typed.compare(SCHEMA, before, after)
    managers = managed_fields.after_update(SCHEMA, before, after, managers=managed_fields.read(before), writer=writer)
    owned = managers[writer.updater()].fields if writer.updater() in managers else None
    assert field_sets.difference(managed_fields.strip(changed), owned) is None


def leaves(node):
    """Without memberships of inner nodes, which may outlive the contents of a map."""
    inner = {element: leaves(child) for element, child in field_sets.children(node)}
    return inner or {}


def ordered(value):
    """Equal up to the order of lists and to who applied when."""
    if isinstance(value, dict):
        return {name: ordered(part) for name, part in value.items() if name != "managedFields" and part not in ({}, [])}
    if isinstance(value, list):
        return sorted(map(ordered, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


# Sets of fields


@given(specs, specs)
def test_sets_of_fields_obey_the_algebra(left, right):
    a, b = typed.fields(SCHEMA, {"spec": left}), typed.fields(SCHEMA, {"spec": right})
    assert field_sets.union(a, b) == field_sets.union(field_sets.difference(a, b), b) or not left
    assert field_sets.difference(a, a) is None
    assert field_sets.intersection(a, a) == a
    assert field_sets.intersection(field_sets.difference(a, b), b) is None


# Comparison and merge


@given(specs, specs)
def test_merge_of_a_value_over_itself_is_the_value(spec, other):
    assert typed.merge(SCHEMA, {"spec": spec}, {"spec": spec}) == {"spec": spec}
    merged = typed.merge(SCHEMA, {"spec": spec}, {"spec": other})
    assert typed.merge(SCHEMA, merged, {"spec": other}) == merged


@given(specs, specs)
def test_merge_changes_neither_argument(live, other):
    before = copy.deepcopy((live, other))
    typed.merge(SCHEMA, {"spec": live}, {"spec": other})
    assert (live, other) == before


# Merge patch and JSON patch


@given(objects, objects)
def test_merge_patch_is_idempotent(target, patch):
    once = merge.apply(target, patch)
    assert merge.apply(once, patch) == once


@given(objects, objects)
def test_merge_patch_leaves_its_arguments_alone(target, patch):
    before = copy.deepcopy((target, patch))
    merge.apply(target, patch)
    assert (target, patch) == before


@given(objects, objects)
@settings(deadline=None)
def test_json_patch_made_from_two_values_turns_one_into_the_other(old, new):
    operations = jsonpatch.make_patch(old, new).patch
    assert json_patch.apply(old, operations) == new


# Strategic merge patch


@given(parts, parts)
def test_strategic_merge_is_idempotent(target, patch):
    old, change = {"containers": target}, {"containers": patch}
    once = strategic.apply(POD_SPEC, old, change)
    assert strategic.apply(POD_SPEC, once, change) == once


@given(objects, objects)
def test_strategic_merge_without_keyed_lists_is_a_merge_patch(target, patch):
    assert strategic.apply(MergeSchema({}), target, patch) == expected_merge(target, patch)


def expected_merge(target, patch):
    """RFC 7386, except that strategic merge drops nulls inside lists' objects."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            current = result.get(name)
            result[name] = expected_merge(current if isinstance(current, dict) else {}, value)
        elif isinstance(value, list):
            result[name] = strategic._without_directives(value)
        else:
            result[name] = value
    return result
