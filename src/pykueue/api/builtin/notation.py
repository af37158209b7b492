"""A compact notation for types, from which schemas and protobuf messages are built.

    Pod v1 -- Containers that run together on one node.
      metadata ObjectMeta @1+
      spec PodSpec @2+ -- What is wanted.

    PodSpec -- What a pod runs, and where it may run.
      containers [Container]! @2+ key=name merge=name -- The containers; at least one.
      nodeSelector {string} @7 atomic -- Labels that the node must have.
      restartPolicy string(Always|Never|OnFailure) @3?

    Volume
      name string! @1+
      = VolumeSource @2

A paragraph is a type. Its first line has the name and, if the type is a kind, the apiVersion.
A line below is a field: name, type, marks, and after `--` a description. Fields are in the order
of the Go struct. A line with `=` includes the fields of another type, as an embedded Go struct.

Types: `string`, `bool`, `int32`, `int64`, `float`, `time`, `bytes`, `quantity`, `intstr`, `any`
(not checked), `json` (not checked, replaced as a whole), the name of another type, `[T]` a list,
`{T}` a map, `string(A|B)` a choice.
Marks:
    !           the API server refuses an object without the field
    >=N         smallest number
    default=V   value of a list key that is absent
    key=a,b     server-side apply merges the list by these fields
    set         server-side apply merges the list as a set
    atomic      server-side apply replaces the list or map as a whole
    granular    server-side apply merges the object, although its type is atomic
    merge       a strategic merge patch merges the list as a set
    merge=a     a strategic merge patch merges the list by this field
    replace     a strategic merge patch replaces the object as a whole
    retain      a strategic merge patch may name the keys that stay
    @N          protobuf field number; Go leaves the field out if it is nil
    @N?         the same; Go leaves the field out if it is zero or empty
    @N+         the same; Go always writes the field

A type is built when a caller first needs it, and all users of the type share the result.
`tools/kubernetes_types.py` writes the files; `schemas` reads them.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pykueue.api.meta import QUANTITY
from pykueue.api.scheme import Schema

_ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_JSON: Schema = _ANY | {"x-kubernetes-map-type": "atomic"}
SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "intstr": {"x-kubernetes-int-or-string": True},
    "quantity": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY},
    "any": _ANY,
    "json": _JSON,
    "JSONSchemaPropsOrArray": _JSON,
    "JSONSchemaPropsOrBool": _JSON,
    "JSONSchemaPropsOrStringArray": _JSON,
}
_OBJECT_HEAD: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Version of the schema in which this object is written."},
    "kind": {"type": "string", "description": "What this object is."},
}
EMBEDDED = "="
_HEAD = re.compile(r"([\w.]+)(?: ((?:[\w.-]+/)?v\d\w*))?( atomic)?(?: -- (.*))?")
_FIELD = re.compile(r"  (\S+) ([\[{]*[\w.]+(?:\([^)]*\))?[\]}]*)(!?)(?: @(\d+)([?+]?))?((?: [^\s-]\S*)*)(?: -- (.*))?")


class Field(NamedTuple):
    """One line of a type. `zero` is the sign after the protobuf number."""

    name: str
    type: str
    is_required: bool
    number: int
    zero: str
    marks: tuple[str, ...]
    description: str

    @property
    def is_embedded(self) -> bool:
        return self.name == EMBEDDED


class Head(NamedTuple):
    """The first line of a type."""

    name: str
    api_version: str
    is_atomic: bool
    description: str


class Types:
    """The types of some files, built on demand.

    A schema cannot contain itself: a type that does is `any`, unless `is_recursive`, which makes
    schemas that refer to themselves.
    """

    def __init__(self, texts: Iterable[str], *, is_recursive: bool = False) -> None:
        self._sources: dict[str, list[str]] = {}
        self._built: dict[str, Schema] = {}
        self._is_recursive = is_recursive
        self._in_progress: list[str] = []
        self._contain_themselves: set[str] = set()
        self.kinds: dict[tuple[str, str], str] = {}
        """Type names by (apiVersion, kind)."""
        for text in texts:
            for paragraph in text.split("\n\n"):
                self._add([line for line in paragraph.splitlines() if line and not line.startswith("#")])

    def _add(self, lines: list[str]) -> None:
        if not lines:
            return
        name, _, rest = lines[0].partition(" ")
        assert name not in self._sources, f"two types are called {name}"
        self._sources[name] = lines
        api_version = rest.partition(" ")[0]
        if api_version not in ("", "--", "atomic"):
            self.kinds[api_version, name.rpartition(".")[2]] = name

    def names(self) -> Iterable[str]:
        return self._sources.keys()

    def head(self, name: str) -> Head:
        match = _HEAD.fullmatch(self._sources[name][0])
        assert match, f"cannot read {self._sources[name][0]!r}"
        return Head(match[1], match[2] or "", bool(match[3]), match[4] or "")

    def lines(self, name: str) -> Iterator[Field]:
        """The fields as they are written: embedded types are one line."""
        for line in self._sources[name][1:]:
            match = _FIELD.fullmatch(line)
            assert match, f"{name}: cannot read {line!r}"
            field, kind, required, number, zero, marks, description = match.groups()
            yield Field(
                field, kind, bool(required), int(number or 0), zero or "", tuple(marks.split()), description or ""
            )

    def fields(self, name: str) -> Iterator[Field]:
        """The fields in Go's order, with those of embedded types in their place."""
        for field in self.lines(name):
            if field.is_embedded:
                yield from self.fields(field.type)
            else:
                yield field

    def schema(self, name: str) -> Schema:
        if name in self._built:
            return self._built[name]
        if name in self._in_progress:
            self._contain_themselves.add(name)
            return _ANY
        self._in_progress.append(name)
        schema: Schema = {}
        if self._is_recursive:
            self._built[name] = schema
        self._fill(schema, name)
        self._in_progress.pop()
        return self._built.setdefault(name, _ANY if name in self._contain_themselves else schema)

    def _fill(self, schema: Schema, name: str) -> None:
        head = self.head(name)
        schema["type"] = "object"
        if head.description:
            schema["description"] = head.description
        if head.is_atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        fields = list(self.fields(name))
        properties = {field.name: _marked(self.type_schema(field.type), field) for field in fields}
        schema["properties"] = _OBJECT_HEAD | properties if head.api_version else properties
        required = [field.name for field in fields if field.is_required]
        if required:
            schema["required"] = required

    def type_schema(self, text: str) -> Schema:
        if text[0] == "[":
            return {"type": "array", "items": self.type_schema(text[1:-1])}
        if text[0] == "{":
            return {"type": "object", "additionalProperties": self.type_schema(text[1:-1])}
        if text.startswith("string("):
            return {"type": "string", "enum": text[len("string(") : -1].split("|")}
        return SCALARS.get(text) or self.schema(text)

    @functools.cached_property
    def always_written(self) -> "AlwaysWritten":
        return AlwaysWritten(self)


class AlwaysWritten:
    """For each type, the tree of fields that Go writes even if the object is empty."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._trees: dict[str, dict[str, Any]] = {}

    def tree(self, name: str) -> dict[str, Any]:
        if name not in self._trees:
            fields = [field for field in self._types.fields(name) if field.zero == "+"]
            self._trees[name] = {field.name: self._below(field.type) for field in fields}
        return self._trees[name]

    def _below(self, kind: str) -> dict[str, Any]:
        return self.tree(kind) if kind in self._types.names() else {}


def _marked(schema: Schema, field: Field) -> Schema:
    extras: Schema = {"description": field.description} if field.description else {}
    for mark in field.marks:
        name, _, value = mark.partition("=")
        if name == ">":
            extras["minimum"] = int(value)
        elif name == "default":
            extras["default"] = value
        elif name == "key":
            extras |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": value.split(",")}
        elif name == "merge":
            extras["x-kubernetes-patch-strategy"] = "merge"
            if value:
                extras["x-kubernetes-patch-merge-key"] = value
        elif name == "replace":
            extras["x-kubernetes-patch-strategy"] = "replace"
        elif name == "retain":
            merged = "merge," if "x-kubernetes-patch-strategy" in extras else ""
            extras["x-kubernetes-patch-strategy"] = f"{merged}retainKeys"
        else:
            assert name in ("set", "atomic", "granular"), f"unknown mark {mark!r}"
            extras["x-kubernetes-list-type" if schema.get("type") == "array" else "x-kubernetes-map-type"] = name
    return schema | extras if extras else schema
