"""A compact notation for types, from which their schemas are built.

    PodSpec -- What a pod runs, and where it may run.
      containers [Container]! key=name merge=name -- The containers; at least one.
      nodeSelector {string} atomic -- Labels that the node must have.
      restartPolicy string(Always|Never|OnFailure)

A paragraph is a type; a line below it a field, its type, marks, and after `--` what it means. Types: `string`, `bool`, `int32`,
`int64`, `float`, `time`, `bytes`, `quantity`, `intstr`, `any` (kept as it is), the name of another type, `[T]` a list, `{T}` a map, and
`string(A|B)` a choice. Marks: `!` required, `>=N`, `key=a,b` a list merged by those fields, `set`, `atomic`, and for
strategic merge patches `merge`, `merge=a` and `retain`.

A type is built once, when first asked for, and shared by all that use it. Called by `schemas`.
"""

import re
from collections.abc import Iterable

from pykueue.api.meta import QUANTITY
from pykueue.api.scheme import Schema

_ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[str, Schema] = {
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
}
_FIELD = re.compile(r"  (\S+) ([\[{]*[A-Za-z0-9]+(?:\([^)]*\))?[\]}]*)(!?)((?: \S+)*)")


class Types:
    """The types of some files, built on demand."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._sources: dict[str, list[str]] = {}
        self._built: dict[str, Schema] = {}
        for text in texts:
            for paragraph in text.split("\n\n"):
                lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
                if lines:
                    self._sources[lines[0].split(" ", 1)[0]] = lines

    def names(self) -> Iterable[str]:
        return self._sources.keys()

    def schema(self, name: str) -> Schema:
        if name not in self._built:
            self._built[name] = self._build(name)
        return self._built[name]

    def _build(self, name: str) -> Schema:
        head, *lines = self._sources[name]
        title, _, description = head.partition(" -- ")
        schema: Schema = {"type": "object"}
        if description:
            schema["description"] = description
        if title.endswith(" atomic"):
            schema["x-kubernetes-map-type"] = "atomic"
        required: list[str] = []
        properties: dict[str, Schema] = {}
        for line in lines:
            declaration, _, about = line.partition(" -- ")
            match = _FIELD.fullmatch(declaration)
            assert match, f"{name}: cannot read {line!r}"
            field, kind, is_required, marks = match.groups()
            if is_required:
                required.append(field)
            properties[field] = _marked(self._type(kind), marks.split(), about)
        schema["properties"] = properties
        if required:
            schema["required"] = required
        return schema

    def _type(self, text: str) -> Schema:
        if text[0] == "[":
            return {"type": "array", "items": self._type(text[1:-1])}
        if text[0] == "{":
            return {"type": "object", "additionalProperties": self._type(text[1:-1])}
        if text.startswith("string("):
            return {"type": "string", "enum": text[len("string(") : -1].split("|")}
        return _SCALARS.get(text) or self.schema(text)


def _marked(schema: Schema, marks: list[str], about: str) -> Schema:
    extras: Schema = {"description": about} if about else {}
    for mark in marks:
        name, _, value = mark.partition("=")
        if name == ">":
            extras["minimum"] = int(value)
        elif name == "key":
            extras |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": value.split(",")}
        elif name == "merge":
            extras["x-kubernetes-patch-strategy"] = "merge"
            if value:
                extras["x-kubernetes-patch-merge-key"] = value
        elif name == "retain":
            extras["x-kubernetes-patch-strategy"] = "merge,retainKeys"
        else:
            assert name in ("set", "atomic"), f"unknown mark {mark!r}"
            extras["x-kubernetes-list-type" if schema.get("type") == "array" else "x-kubernetes-map-type"] = name
    return schema | extras if extras else schema
