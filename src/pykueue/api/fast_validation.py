"""Says quickly that an object is sound: it has no unknown field, no stray null, and its structure is as its schema asks.

Nearly every write is sound, and a walk over it in Python costs more than all else that happens to it. So a schema is turned once into
msgspec types, and reading an object into them is the check. A "no" means only that the walks of `schema` and `schema_validation` must
look: they know the whole of JSON schema, forgive what an update did not touch, and find the words. Rules of CEL and the keys of lists
are not judged here. Asked by the API server's admission.
"""

import re
from collections.abc import Collection, Container
from types import GenericAlias
from typing import Annotated, Any, Literal, Optional

import msgspec

from pykueue.api import text_formats
from pykueue.api.schema import OBJECT_META_FIELDS, PerSchema
from pykueue.api.scheme import Object, Schema

_NOT_JUDGED = ("allOf", "not", "oneOf", "uniqueItems", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
_TIME = r"(?a)\A\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z\Z"
"""Most times of a year, and certainly times."""
_EITHER = [{"type": "integer"}, {"type": "string"}]
_SIZES = {"int32": 2**31}
"""An integer is at least minus this, and less than this; others are int64."""


class _Undecided(msgspec.Struct, forbid_unknown_fields=True):
    """What no value satisfies: a place whose schema is not judged here."""

    nothing_has_this_field: int


_META = msgspec.defstruct(
    "Metadata", [(name, Any, None) for name in sorted(OBJECT_META_FIELDS)], forbid_unknown_fields=True
)


def is_certainly_valid(schema: Schema, obj: Object, settled: Container[str] = ()) -> bool:
    """Whether the walks would find nothing; settled fields at the top are taken to be so."""
    if any(name not in obj for name in schema.get("required", ())):
        return False
    if settled:
        obj = {name: value for name, value in obj.items() if name not in settled}
    try:
        msgspec.convert(obj, _whole(schema))
    except msgspec.ValidationError:
        return False
    return True


@PerSchema
def _whole(schema: Schema) -> Any:
    """The type of a whole object, of which parts may be left out."""
    try:
        found = _whole_type(schema)
        msgspec.convert({}, found)
    except (TypeError, ValueError, re.error):  # msgspec has no such type: a limit or pattern of another kind than usual
        return _Undecided
    return found


def _whole_type(schema: Schema) -> Any:
    if schema.get("x-kubernetes-embedded-resource") or any(name in schema for name in (*_NOT_JUDGED, "anyOf")):
        return _Undecided
    properties = dict(schema.get("properties") or {})
    if not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return _Undecided
    fields: list[tuple[str, Any]] = [(name, _field(part)) for name, part in properties.items() if name != "metadata"]
    known = {name for name, _ in fields}
    fields += [(name, str) for name in ("apiVersion", "kind") if name not in known]
    return _struct([*fields, ("metadata", _META)], required=(), keeps_unknown=_keeps_unknown(schema))


def _field(schema: Schema) -> Any:
    found = _type(schema)
    return Optional[found] if schema.get("nullable") else found  # noqa: UP045 - `|` does not know every such type


@PerSchema
def _type(schema: Schema) -> Any:
    if any(name in schema for name in _NOT_JUDGED) or schema.get("x-kubernetes-embedded-resource"):
        return _Undecided
    if schema.get("x-kubernetes-int-or-string"):
        is_plain = "enum" not in schema and "type" not in schema and schema.get("anyOf", _EITHER) == _EITHER
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
            size = _SIZES.get(schema.get("format", ""), 2**63)
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
        is_plain = all(isinstance(each, str) for each in schema["enum"]) and "format" not in schema
        return Literal[tuple(schema["enum"])] if is_plain else _Undecided
    patterns = []
    if "pattern" in schema:
        compiled = text_formats.pattern(schema["pattern"]).pattern
        if compiled.startswith("(?"):
            return _Undecided
        patterns.append(f"(?a){compiled}")
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
    """Fields get names of our own: theirs may be words of Python."""
    known = {name for name, _ in fields}
    if any(name not in known for name in required):
        return _Undecided
    described = [
        (f"field_{number}", type_, msgspec.field(name=name))
        if name in required
        else (f"field_{number}", type_, msgspec.field(name=name, default=None))
        for number, (name, type_) in enumerate(fields)
    ]
    return msgspec.defstruct("Fields", described, forbid_unknown_fields=not keeps_unknown, kw_only=True, gc=False)


def _limited(type_: Any, **limits: Any) -> Any:
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return Annotated[type_, msgspec.Meta(**given)] if given else type_
