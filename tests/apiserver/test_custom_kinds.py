"""Kinds of users' CustomResourceDefinitions, as their clients see them."""

import asyncio

from tests.apiserver.api_requests import create, send

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
