"""Kinds of users' CustomResourceDefinitions, as their clients see them."""

import asyncio
import copy

import pytest
from tests.api.rules.test_any_json import places, replaced
from tests.apiserver.api_requests import create, send

from pykueue.api import schema, schema_validation

PATH = "/apis/example.com/v1/namespaces/default/foos/x"


def definition(**properties):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


TEXT = {
    "type": "string",
    "pattern": "^a+$",
    "format": "date",
    "enum": ["a", "aa"],
    "minLength": 1,
    "maxLength": 9,
    "default": "a",
    "nullable": True,
    "x-kubernetes-validations": [
        {"rule": "self.size() > 0", "message": "m", "messageExpression": "'a' + self", "reason": "FieldValueInvalid"}
    ],
}
FULL = definition(
    text=TEXT,
    number={
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "multipleOf": 1,
        "exclusiveMinimum": False,
        "format": "int32",
    },
    items={
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
        "minItems": 0,
        "maxItems": 9,
        "uniqueItems": False,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    },
    map={"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 0, "maxProperties": 9},
    either={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    anything={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    choice={
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"required": ["c"]},
        "allOf": [{"properties": {"a": {"minLength": 1}}}],
        "x-kubernetes-map-type": "atomic",
    },
)
FULL["spec"]["versions"][0] |= {
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.number", "statusReplicasPath": ".status.n"}},
    "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ".spec.text", "priority": 1}],
    "selectableFields": [{"jsonPath": ".spec.text"}],
    "deprecated": True,
    "deprecationWarning": "old",
}
FULL["spec"]["names"] |= {"singular": "foo", "listKind": "FooList", "shortNames": ["f"], "categories": ["all"]}
SPEC = {
    "text": "aa",
    "number": 3,
    "items": [{"k": "a"}, {"k": "b"}],
    "map": {"a": 1.5},
    "either": "1",
    "anything": {"a": [1]},
    "choice": {"a": "x"},
}
VALUES = [None, True, 7, -1, 1.5, 2**70, "", "text", "(", [], [[1]], [{"a": [1]}], {}, {"a": {"b": 1}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_definition_with_a_field_of_any_type_is_answered(api, value):
    """What is accepted can be used: no object of the kind fails for another reason than its own."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
    for place in places(FULL):
        answer = await send(api, "POST", path, replaced(FULL, place, value))
        assert answer.code in (201, 400, 422), (place, answer)
        if answer.code != 201:
            continue
        version = answer.body["spec"]["versions"][0]
        parsed = version["schema"]["openAPIV3Schema"]
        for obj in ({"metadata": {}, "spec": SPEC}, {"metadata": {}, "spec": dict.fromkeys(SPEC, value)}):
            validated = copy.deepcopy(obj)
            schema.unknown_fields(parsed, validated)
            schema.prune(parsed, validated)
            schema.apply_defaults(parsed, validated)
            schema_validation.validate(parsed, validated)


async def served(api, method, path, body=None, **more):
    """The answer, once the kind is served."""
    async with asyncio.timeout(20):
        while True:
            answer = await send(api, method, path, body, **more)
            if answer.code != 404:
                return answer
            await asyncio.sleep(0.01)


async def test_an_object_has_defaults_that_are_newer_than_it(api):
    await create(api, definition(a={"type": "string"}))
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"a": "1"}}
    assert (await served(api, "POST", PATH.rpartition("/")[0], foo)).code == 201
    changed = definition(a={"type": "string"}, b={"type": "string", "default": "2"})
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com"
    content_type = "application/merge-patch+json"
    assert (await send(api, "PATCH", path, {"spec": changed["spec"]}, content_type=content_type)).code == 200
    async with asyncio.timeout(20):
        while (await send(api, "GET", PATH)).body["spec"] == {"a": "1"}:  # noqa: ASYNC110 - the API decides when
            await asyncio.sleep(0.01)
    assert (await send(api, "GET", PATH)).body["spec"] == {"a": "1", "b": "2"}


async def test_a_default_in_many_items_is_bounded(api):
    """A default of 200 KB in each of 1,000 items is not made, but refused."""
    default = {"type": "object", "additionalProperties": {"type": "string"}, "default": {"a": "x" * 200_000}}
    item = {"type": "object", "properties": {"d": default}}
    await create(api, definition(items={"type": "array", "items": item}))
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"items": [{}] * 1000}}
    refused = await served(api, "POST", PATH.rpartition("/")[0], foo)
    assert (refused.code, "its defaults exceed" in refused.message) == (413, True)
    foo["spec"]["items"] = [{}] * 5
    assert (await send(api, "POST", PATH.rpartition("/")[0], foo)).code == 201
