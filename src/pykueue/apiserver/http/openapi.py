"""OpenAPI documents: v3 by group and version (for kubectl explain), v2 as one document.

Schemas come from the kinds. There are only the paths in which clients look up the query parameters
of a PATCH. A document is built on first use and cached until the kinds change.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pykueue.api.scheme import Kind, Schema, Scheme
from pykueue.apiserver.http import openapi_protobuf

Document = dict[str, Any]

VERSION = "v1.36.4"
_LIST_PARAMETERS = ("labelSelector", "fieldSelector", "limit", "continue", "watch")
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_META = {
    "apiVersion": {"type": "string", "description": "The group and version of this form of the object."},
    "kind": {"type": "string", "description": "The kind of the object."},
}
_OBJECT_META: Schema = {
    "type": "object",
    "description": "What every object has: its name, labels, annotations, owners and history.",
    "properties": {
        "name": {"type": "string", "description": "Unique within a namespace; cannot change."},
        "generateName": {"type": "string", "description": "A prefix; the server completes it to a unique name."},
        "namespace": {"type": "string", "description": "The space within which names are unique."},
        "uid": {"type": "string", "description": "Unique over time and space, set by the server."},
        "resourceVersion": {"type": "string", "description": "Changes whenever the object changes."},
        "generation": {"type": "integer", "format": "int64", "description": "Counts changes of the desired state."},
        "creationTimestamp": {"type": "string", "format": "date-time", "description": "When it was created."},
        "deletionTimestamp": {"type": "string", "format": "date-time", "description": "Set while it is being deleted."},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64", "description": "Time left to stop."},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Names and values to select objects by.",
        },
        "annotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Names and values that tools keep with the object.",
        },
        "finalizers": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Who must agree before the object goes.",
        },
        "ownerReferences": {
            "type": "array",
            "description": "Objects that this one belongs to; it goes when they have all gone.",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "name": {"type": "string"},
                    "uid": {"type": "string"},
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                },
            },
        },
        "managedFields": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Which manager wrote which fields.",
        },
        "selfLink": {"type": "string", "description": "No longer filled in."},
    },
}
_V2_KEYWORDS = frozenset(
    {
        "$ref",
        "additionalProperties",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "uniqueItems",
        "x-kubernetes-group-version-kind",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
    }
)
_OBJECT_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class OpenApi:
    """The documents are made in a thread: a large one takes a quarter of a second."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._documents: dict[str, tuple[bytes, str]] = {}
        self._making = asyncio.Lock()

    def changed(self) -> None:
        self._documents = {}

    async def index(self) -> bytes:
        """`/openapi/v3`: all groups and versions, each with the hash of its document."""
        paths = {}
        for path in sorted({_root(kind) for kind in self._scheme}):
            document = await self.document(path)
            if document is not None:
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={document[1]}"}
        return msgspec.json.encode({"paths": paths})

    async def document(self, path: str) -> tuple[bytes, str] | None:
        """The v3 document of `api/v1` or `apis/GROUP/VERSION` and its hash."""
        if path in self._documents:
            return self._documents[path]
        kinds = [kind for kind in self._scheme if _root(kind) == path]
        return await self._document(path, lambda: msgspec.json.encode(_v3(kinds))) if kinds else None

    async def v2(self) -> tuple[bytes, str]:
        kinds = list(self._scheme)
        return await self._document("v2", lambda: msgspec.json.encode(_v2(kinds)))

    async def v2_protobuf(self) -> tuple[bytes, str]:
        kinds = list(self._scheme)
        return await self._document("v2 protobuf", lambda: openapi_protobuf.encode(_v2(kinds)))

    async def _document(self, path: str, make: Callable[[], bytes]) -> tuple[bytes, str]:
        documents = self._documents
        if path not in documents:
            async with self._making:
                if path not in documents:
                    data = await asyncio.to_thread(make)
                    documents[path] = (data, hashlib.sha256(data).hexdigest().upper())
        return documents[path]


def schema_name(kind: Kind) -> str:
    """`io.k8s.api.batch.v1.Job`, or `io.x-k8s.kueue.v1beta2.Workload` for kinds of others."""
    group = kind.group or "core"
    if kind.is_builtin and (group.endswith(".k8s.io") or "." not in group):
        return f"io.k8s.api.{group.partition('.')[0]}.{kind.version}.{kind.kind}"
    return f"{'.'.join(reversed(group.split('.')))}.{kind.version}.{kind.kind}"


def _root(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _v3(kinds: list[Kind]) -> Document:
    reference = {"$ref": f"#/components/schemas/{_OBJECT_META_NAME}"}
    schemas = dict(_schemas(kinds, {"allOf": [reference], "default": {}}, "#/components/schemas/"))
    paths = {path: operations for kind in kinds for path, operations in _paths(kind, _v3_parameter).items()}
    return {
        "openapi": "3.0.0",
        "info": {"title": "pykueue", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas | {_OBJECT_META_NAME: _OBJECT_META}},
    }


def _v2(kinds: list[Kind]) -> Document:
    reference = {"$ref": f"#/definitions/{_OBJECT_META_NAME}"}
    schemas = dict(_schemas(kinds, reference, "#/definitions/"))
    definitions = {name: {**_lenient(schema), "type": "object"} for name, schema in schemas.items()}
    paths = {path: operations for kind in kinds for path, operations in _paths(kind, _v2_parameter).items()}
    return {
        "swagger": "2.0",
        "info": {"title": "pykueue", "version": VERSION},
        "paths": paths,
        "definitions": definitions | {_OBJECT_META_NAME: _OBJECT_META},
    }


def _lenient(schema: Schema) -> Schema:
    """A schema in OpenAPI v2, where a value that may be null, or of several types, has no type."""
    is_untyped = (
        schema.get("x-kubernetes-preserve-unknown-fields")
        or schema.get("x-kubernetes-int-or-string")
        or schema.get("nullable")
    )
    lenient = {
        name: value
        for name, value in schema.items()
        if name in _V2_KEYWORDS and not (is_untyped and name in ("type", "items", "properties", "additionalProperties"))
    }
    if "properties" in lenient:
        lenient["properties"] = {name: _lenient(below) for name, below in lenient["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(lenient.get(name), dict):
            lenient[name] = _lenient(lenient[name])
    return lenient


def _identity(kind: Kind, name: str) -> Document:
    return {"group": kind.group, "version": kind.version, "kind": name}


def _schemas(kinds: list[Kind], metadata: Schema, references: str) -> Iterator[tuple[str, Schema]]:
    for kind in kinds:
        schema = dict(kind.schema)
        schema["properties"] = {**kind.schema.get("properties", {}), **_META, "metadata": metadata}
        schema["x-kubernetes-group-version-kind"] = [_identity(kind, kind.kind)]
        name = schema_name(kind)
        yield name, schema
        items = {"type": "array", "items": {"$ref": f"{references}{name}"}, "description": "The objects."}
        yield (
            f"{name}List",
            {
                "type": "object",
                "description": f"A list of {kind.kind} objects.",
                "required": ["items"],
                "properties": {**_META, "metadata": {"type": "object"}, "items": items},
                "x-kubernetes-group-version-kind": [_identity(kind, kind.list_kind)],
            },
        )


def _v3_parameter(name: str, where: str) -> Document:
    return {"name": name, "in": where, "required": where == "path", "schema": {"type": "string"}}


def _v2_parameter(name: str, where: str) -> Document:
    return {"name": name, "in": where, "required": where == "path", "type": "string"}


def _paths(kind: Kind, parameter: Any) -> Document:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"/{_root(kind)}{scope}/{kind.plural}"
    namespace = [parameter("namespace", "path")] if kind.namespaced else []
    name = [parameter("name", "path")]
    writes = [parameter(option, "query") for option in _WRITE_PARAMETERS]
    selectors = [parameter(option, "query") for option in _LIST_PARAMETERS]

    def operation(action: str, parameters: list[Document]) -> Document:
        return {
            "operationId": f"{action}{schema_name(kind)}",
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _identity(kind, kind.kind),
        }

    return {
        collection: {
            "get": operation("list", namespace + selectors),
            "post": operation("post", namespace + writes),
        },
        f"{collection}/{{name}}": {
            "get": operation("get", namespace + name),
            "put": operation("put", namespace + name + writes),
            "patch": operation("patch", namespace + name + [*writes, parameter("force", "query")]),
            "delete": operation("delete", namespace + name),
        },
    }
