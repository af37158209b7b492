"""Structs to structural OpenAPI v3 schemas: the one source of CRDs and of `kubectl explain`.

A kind is a tree of msgspec Structs. The type and default of a field give its schema's type,
default and whether it is required; `about` adds what Python types cannot express (description,
limits, patterns, how lists merge, CEL rules). Decoding does not enforce the limits: `schema` and
`schema_validation` do, with the API server's messages, so that an object of an older version can
still be read.

The result is inlined, without `$ref` and `title`, and has a `type` everywhere, as Kubernetes
demands.
"""

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from pykueue.api import text_formats
from pykueue.api.cel.rules import Rule
from pykueue.api.scheme import Object, Schema

ABSENT = object()
"""As `default=`: the struct has a default but the schema has none."""


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _PartMeta(msgspec.StructMeta):
    """Makes every part keyword-only, which msgspec does not inherit."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, **{"kw_only": True, **options})


class Part(msgspec.Struct, metaclass=_PartMeta, rename="camel", frozen=True, omit_defaults=True):
    """A part of an API object, named in Python as `cohort_name` and in JSON as `cohortName`."""

    rules: ClassVar[tuple[Rule, ...]] = ()
    """CEL rules on the part as a whole."""


_EXTENSIONS = {
    "list_type": "x-kubernetes-list-type",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
    "int_or_string": "x-kubernetes-int-or-string",
    "preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
    "embedded_resource": "x-kubernetes-embedded-resource",
}
_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}


def about(description: str = "", *, rules: tuple[Rule, ...] = (), **keywords: Any) -> msgspec.Meta:
    """What the type of a field cannot express.

    Keywords are schema keywords in snake case (`max_items=8`, `list_type="set"`); `required` and
    `default` override those of the struct.
    """
    schema: Schema = {"description": description} if description else {}
    if "pattern" in keywords:
        text_formats.declare(keywords["pattern"])
    for keyword, value in keywords.items():
        schema[_EXTENSIONS.get(keyword) or _camel(keyword)] = list(value) if isinstance(value, tuple) else value
    if "list_map_keys" in keywords:
        schema["x-kubernetes-list-type"] = "map"
    if rules:
        schema["x-kubernetes-validations"] = [rule.schema() for rule in rules]
    return msgspec.Meta(extra_json_schema=schema)


def kind_schema(struct: type[msgspec.Struct]) -> Schema:
    """The schema of a whole object.

    As in every CRD, `spec` and `status` are neither required nor defaulted.
    """
    schema = schema_of(struct)
    properties = schema["properties"]
    for name in ("spec", "status"):
        properties.get(name, {}).pop("default", None)
    required = [name for name in schema.get("required", []) if name not in ("spec", "status", "metadata")]
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of the schema in which this object is written."},
        "kind": {"type": "string", "description": "What this object is."},
        **properties,
        "metadata": {"type": "object"},
    }
    return _with_required(schema, required)


def schema_of(struct: type[msgspec.Struct]) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(struct):
        schema = type_schema(field.type)
        is_required = schema.pop("required", None) if isinstance(schema.get("required"), bool) else None
        if field.required if is_required is None else is_required:
            required.append(field.encode_name)
        _set_default(schema, field)
        properties[field.encode_name] = schema
    result: Schema = {"type": "object"}
    if description := _docstring(struct):
        result["description"] = description
    result["properties"] = properties
    rules: tuple[Rule, ...] = getattr(struct, "rules", ())
    if rules:
        result["x-kubernetes-validations"] = [rule.schema() for rule in rules]
    return _with_required(result, required)


def type_schema(hint: Any) -> Schema:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _annotated_schema(hint)
    if origin in (types.UnionType, typing.Union):
        return _union_schema([argument for argument in typing.get_args(hint) if argument is not types.NoneType])
    if origin is Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    if origin is tuple or origin is list:
        return {"type": "array", "items": type_schema(typing.get_args(hint)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": type_schema(typing.get_args(hint)[1])}
    if hint is Any:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    return schema_of(hint)


def _annotated_schema(hint: Any) -> Schema:
    extras: Schema = {}
    for meta in hint.__metadata__:
        extras |= meta.extra_json_schema or {}
    replacement = extras.pop("schema", None)
    schema: Schema = dict(replacement()) if replacement else type_schema(hint.__origin__)
    rules = schema.get("x-kubernetes-validations", []) + extras.get("x-kubernetes-validations", [])
    schema |= extras
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _union_schema(members: list[Any]) -> Schema:
    if len(members) == 1:
        return type_schema(members[0])
    assert set(members) <= {str, int, float}, f"no structural schema for {members}"
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _set_default(schema: Schema, field: msgspec.structs.FieldInfo) -> None:
    if "default" in schema:
        if schema["default"] is ABSENT:
            del schema["default"]
        return
    default: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = {}  # the parts' own defaults are filled in below it
    if default is not None and default is not msgspec.NODEFAULT and default != ():
        schema["default"] = default


def _with_required(schema: Schema, required: list[str]) -> Schema:
    schema.pop("required", None)
    if required:
        schema["required"] = required
    return schema


def _docstring(struct: type) -> str:
    own = struct.__dict__.get("__doc__") or ""
    return " ".join(own.split())


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def decode(obj: Object | Mapping[str, Any], struct: type[_Struct]) -> _Struct:
    """The struct of a stored object; unknown fields are ignored."""
    return msgspec.convert(obj, struct)
