"""The types of the keywords of a schema: what cannot be decoded as a schema is refused.

Kubernetes decodes the schemas of a CustomResourceDefinition as JSONSchemaProps. Everything that
reads a schema later relies on these types.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.scheme import Object

Step = Callable[[Any, str, int], Iterator[FieldError]]
"""Takes a value, its path and its depth."""

_MOST_DEPTH = 100
_LARGEST_INTEGER = 2**63 - 1
_TEXTS = ("type", "format", "pattern", "title", "description", "x-kubernetes-list-type", "x-kubernetes-map-type")
_NUMBERS = ("minimum", "maximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_SWITCHES = (
    "exclusiveMinimum",
    "exclusiveMaximum",
    "nullable",
    "uniqueItems",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
)
_RULE_TEXTS = ("rule", "message", "messageExpression", "reason", "fieldPath")


def remove_nulls(schema: Any, depth: int = 0) -> None:
    """Remove keywords that are null: Kubernetes reads them as absent."""
    if not isinstance(schema, dict) or depth > _MOST_DEPTH:
        return
    for keyword in [name for name, value in schema.items() if value is None and name != "default"]:
        del schema[keyword]
    for below in _parts(schema):
        remove_nulls(below, depth + 1)


def _parts(schema: Object) -> Iterator[Any]:
    for keyword in ("items", "additionalProperties", "not"):
        yield schema.get(keyword)
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema[keyword] if isinstance(schema.get(keyword), list) else ()
    properties = schema.get("properties")
    yield from properties.values() if isinstance(properties, dict) else ()


def faults(schema: Any, path: str, depth: int = 0) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield _wrong(path, "an object", schema)
        return
    if depth > _MOST_DEPTH:
        yield FieldError("FieldValueForbidden", path, "nested too deeply")
        return
    for keyword, value in schema.items():
        if step := _KEYWORDS.get(keyword):
            yield from step(value, f"{path}.{keyword}", depth)


def _wrong(path: str, what: str, value: Any) -> FieldError:
    return FieldError("FieldValueTypeInvalid", path, f"must be {what}", value)


def _text(value: Any, path: str, _depth: int) -> Iterator[FieldError]:
    if not isinstance(value, str):
        yield _wrong(path, "a string", value)


def _number(value: Any, path: str, _depth: int) -> Iterator[FieldError]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _wrong(path, "a number", value)


def _count(value: Any, path: str, _depth: int) -> Iterator[FieldError]:
    if isinstance(value, bool) or not isinstance(value, int) or not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        yield _wrong(path, "an integer", value)


def _switch(value: Any, path: str, _depth: int) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield _wrong(path, "true or false", value)


def _list(item: Step | None) -> Step:
    def step(value: Any, path: str, depth: int) -> Iterator[FieldError]:
        if not isinstance(value, list):
            yield _wrong(path, "an array", value)
            return
        for position, part in enumerate(value if item else ()):
            assert item is not None
            yield from item(part, f"{path}[{position}]", depth + 1)

    return step


def _properties(value: Any, path: str, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield _wrong(path, "an object", value)
        return
    for name, schema in value.items():
        yield from faults(schema, f"{path}[{name}]", depth + 1)


def _below(value: Any, path: str, depth: int) -> Iterator[FieldError]:
    yield from faults(value, path, depth + 1)


def _schema_or_switch(value: Any, path: str, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield from faults(value, path, depth + 1)


def _rule(value: Any, path: str, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield _wrong(path, "an object", value)
        return
    if not value.get("rule"):
        yield FieldError("FieldValueRequired", f"{path}.rule", "rule is not specified")
    for name in _RULE_TEXTS:
        if name in value:
            yield from _text(value[name], f"{path}.{name}", depth)
    if "optionalOldSelf" in value:
        yield from _switch(value["optionalOldSelf"], f"{path}.optionalOldSelf", depth)


_KEYWORDS: dict[str, Step] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_SWITCHES, _switch),
    "enum": _list(None),
    "required": _list(_text),
    "x-kubernetes-list-map-keys": _list(_text),
    "items": _below,
    "not": _below,
    "additionalProperties": _schema_or_switch,
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _list(_below)),
    "properties": _properties,
    "x-kubernetes-validations": _list(_rule),
}
