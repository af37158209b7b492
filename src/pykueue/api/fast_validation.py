"""A fast check whether an object is certainly valid.

That is: it has no unknown field, no null that must be removed, and a valid structure. Nearly every
write is valid, and a walk over it in Python costs more than the rest of the write. So each schema
is turned once into msgspec types, and converting an object to them is the check. False means only
that `schema` and `schema_validation` must walk the object: they know all keywords of JSON schema,
tolerate what an update did not change, and write the messages. CEL rules and list keys are not
checked here. Used by `api.admission`.
"""

import re
from collections.abc import Collection, Container
from types import GenericAlias
from typing import Annotated, Any, Literal, Optional

import msgspec

from pykueue.api import text_formats
from pykueue.api.meta import QUANTITY
from pykueue.api.schema import OBJECT_META_FIELDS, PerSchema
from pykueue.api.scheme import Object, Schema

_UNDECIDED_KEYWORDS = ("allOf", "not", "oneOf", "uniqueItems", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
_TIME = r"(?a)\A\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z\Z"
"""A pattern that only valid times match; days after the 28th are left to the full check."""
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_INTEGER_BOUNDS = {"int32": 2**31}
"""The bound of each integer format: value >= -bound and value < bound; others are int64."""


class _Undecided(msgspec.Struct, forbid_unknown_fields=True):
    """A type that no value has, for schemas that cannot be decided here."""

    never_present: int


_QUANTITY = r"(?a)^[+-]?[0-9]{1,60}(\.[0-9]{0,60})?([KMGTPE]i|[numkMGTPE])?$"
"""The usual quantities. Others are left to the full check."""

_META = msgspec.defstruct(
    "Metadata", [(name, Any, None) for name in sorted(OBJECT_META_FIELDS)], forbid_unknown_fields=True
)


def is_certainly_valid(schema: Schema, obj: Object, unchanged: Container[str] = ()) -> bool:
    """Whether the full check would find nothing.

    `unchanged` are top-level fields that need no check.
    """
    for name in schema.get("required", ()):
        if name not in obj:
            return False
    if unchanged:
        obj = {name: value for name, value in obj.items() if name not in unchanged}
    try:
        msgspec.convert(obj, _whole(schema))
    except msgspec.ValidationError:
        return False
    return True


@PerSchema
def _whole(schema: Schema) -> Any:
    """The type of a whole object, whose top-level fields may be absent."""
    try:
        whole_type = _whole_type(schema)
        msgspec.convert({}, whole_type)
    except (TypeError, ValueError, re.error):  # msgspec cannot express it
        return _Undecided
    return whole_type


def _whole_type(schema: Schema) -> Any:
    if schema.get("x-kubernetes-embedded-resource") or any(name in schema for name in (*_UNDECIDED_KEYWORDS, "anyOf")):
        return _Undecided
    properties = dict(schema.get("properties") or {})
    if not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return _Undecided
    fields: list[tuple[str, Any]] = [(name, _field(part)) for name, part in properties.items() if name != "metadata"]
    names = {name for name, _ in fields}
    fields += [(name, str) for name in ("apiVersion", "kind") if name not in names]
    return _struct([*fields, ("metadata", _META)], required=(), keeps_unknown=_keeps_unknown(schema))


def _field(schema: Schema) -> Any:
    field_type = _type(schema)
    if schema.get("nullable"):
        return Optional[field_type]  # noqa: UP045 - `|` does not accept all such types
    return field_type


@PerSchema
def _type(schema: Schema) -> Any:
    if any(name in schema for name in _UNDECIDED_KEYWORDS) or schema.get("x-kubernetes-embedded-resource"):
        return _Undecided
    if schema.get("x-kubernetes-int-or-string"):
        is_plain = (
            "enum" not in schema and "type" not in schema and schema.get("anyOf", _INT_OR_STRING) == _INT_OR_STRING
        )
        if is_plain and schema.get("pattern") == QUANTITY:
            return _limited(int, ge=-(2**63), le=2**63 - 1) | _limited(str, pattern=_QUANTITY)
        return int | _text(schema) if is_plain else _Undecided
    if "anyOf" in schema:
        return _Undecided
    match schema.get("type"):
        case None:
            return Any if schema.keys() <= {"description", "x-kubernetes-preserve-unknown-fields"} else _Undecided
        case "string":
            return _text(schema)
        case "boolean" if "enum" not in schema:
            return bool
        case "integer" if "enum" not in schema:
            size = _INTEGER_BOUNDS.get(schema.get("format", ""), 2**63)
            return _limited(int, ge=schema.get("minimum", -size), le=schema.get("maximum", size - 1))
        case "number" if "enum" not in schema:
            return _limited(float, ge=schema.get("minimum"), le=schema.get("maximum"))
        case "array" if "enum" not in schema:
            items = GenericAlias(list, (_field(schema["items"]) if schema.get("items") else Any,))
            return _limited(items, min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
        case "object" if "enum" not in schema:
            return _object(schema)
    return _Undecided


def _text(schema: Schema) -> Any:
    if "enum" in schema:
        is_plain = all(isinstance(value, str) for value in schema["enum"]) and "format" not in schema
        return Literal[tuple(schema["enum"])] if is_plain else _Undecided
    patterns = []
    if "pattern" in schema:
        declared = text_formats.declared(schema["pattern"])
        if not declared or declared.startswith("(?"):
            return _Undecided
        patterns.append(f"(?a){declared}")
    match schema.get("format"):
        case None:
            pass
        case "date-time":
            patterns.append(_TIME)
        case _:
            return _Undecided
    if len(patterns) > 1:
        return _Undecided
    pattern = patterns[0] if patterns else None
    return _limited(str, min_length=schema.get("minLength"), max_length=schema.get("maxLength"), pattern=pattern)


def _object(schema: Schema) -> Any:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if additional is not None or "minProperties" in schema or "maxProperties" in schema:
            return _Undecided
        fields = [(name, _field(part)) for name, part in properties.items()]
        return _struct(fields, required=schema.get("required", ()), keeps_unknown=_keeps_unknown(schema))
    if schema.get("required"):
        return _Undecided
    if isinstance(additional, dict):
        values = _field(additional)
    elif _keeps_unknown(schema):
        values = Any
    else:
        return _limited(dict[str, Any], max_length=0)
    return _limited(
        GenericAlias(dict, (str, values)),
        min_length=schema.get("minProperties"),
        max_length=schema.get("maxProperties"),
    )


def _keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties") is True)


def _struct(fields: list[tuple[str, Any]], *, required: Collection[str], keeps_unknown: bool) -> Any:
    """Fields get generated names, because theirs may be Python keywords."""
    names = {name for name, _ in fields}
    if any(name not in names for name in required):
        return _Undecided
    described = [
        (f"field_{number}", type_, msgspec.field(name=name))
        if name in required
        else (f"field_{number}", type_, msgspec.field(name=name, default=None))
        for number, (name, type_) in enumerate(fields)
    ]
    return msgspec.defstruct("Fields", described, forbid_unknown_fields=not keeps_unknown, kw_only=True, gc=False)


def _limited(type_: Any, **limits: Any) -> Any:
    constraints = {name: limit for name, limit in limits.items() if limit is not None}
    return Annotated[type_, msgspec.Meta(**constraints)] if constraints else type_
