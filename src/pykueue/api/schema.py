"""Walks an object along its structural schema: finds unknown fields, prunes, sets defaults.

All structural schemas are treated alike, ours and those of users' CustomResourceDefinitions. As in
the API server, nulls that the schema does not allow are removed,
`x-kubernetes-preserve-unknown-fields` keeps unknown fields but known fields are still checked, and
an embedded resource has apiVersion, kind and metadata. `api.admission` calls `unknown_fields` and
`prune`, then `apply_defaults`, then `schema_validation.validate`.
"""

import copy
from collections.abc import Callable, Container, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Object, Schema

LARGEST_DEFAULTS_BYTES = 4 * 1024 * 1024
_MOST_CACHED_SCHEMAS = 200_000
_CONTAINERS = (dict, list)
_Answer = TypeVar("_Answer")


class PerSchema(Generic[_Answer]):
    """A function of a schema that is computed once for each schema.

    Schemas never change after registration. An entry keeps its schema alive, so that its id is not
    reused.
    """

    def __init__(self, compute: Callable[[Schema], _Answer]) -> None:
        self._compute = compute
        self._answers: dict[int, tuple[Schema, _Answer]] = {}

    def __call__(self, schema: Schema) -> _Answer:
        try:
            return self._answers[id(schema)][1]
        except KeyError:
            pass
        answer = self._compute(schema)
        if len(self._answers) >= _MOST_CACHED_SCHEMAS:
            self._answers.clear()
        self._answers[id(schema)] = (schema, answer)
        return answer


_LONGEST_MISSPELLING = 63
_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
OBJECT_META_FIELDS = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_EMPTY: Schema = {}


def prune(schema: Schema, obj: Object, unchanged: Container[str] = ()) -> Object:
    """Remove unknown fields in place. `unchanged` are top-level fields that need no check."""
    for parent, name, _ in list(_unknown(schema, obj, unchanged)):
        parent.pop(name, None)
    return obj


class UnknownField(msgspec.Struct, frozen=True):
    """A field that the schema does not have, and the names of its siblings that it has."""

    path: str
    name: str
    siblings: tuple[str, ...]

    def __str__(self) -> str:
        return f'unknown field "{self.path}"'

    @property
    def suggestion(self) -> str:
        """The most similar name that the schema has, or ""."""
        if len(self.name) > _LONGEST_MISSPELLING:
            return ""
        import difflib

        by_lower = {sibling.lower(): sibling for sibling in self.siblings}
        matches = difflib.get_close_matches(self.name.lower(), by_lower, n=1, cutoff=0.6)
        return by_lower[matches[0]] if matches else ""

    def hint(self) -> str:
        return f"{self}; did you mean {self.suggestion!r}?" if self.suggestion else str(self)


def unknown_fields(schema: Schema, obj: Object, unchanged: Container[str] = ()) -> list[UnknownField]:
    """The unknown fields, sorted by path; `str` of one is the strict decoding error."""
    unknown = [
        UnknownField(path, name, _field_names(parent_schema))
        for _, name, (path, parent_schema) in _unknown(schema, obj, unchanged)
    ]
    return sorted(unknown, key=lambda field: field.path)


def apply_defaults(schema: Schema, obj: Object, unchanged: Container[str] = ()) -> Object:
    """Set defaults in place, after removing nulls that the schema does not allow."""
    _default_object(schema, obj, _Budget(), unchanged)
    return obj


class _Budget:
    """How many bytes the defaults of one object may have: one default may be set in many items."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LARGEST_DEFAULTS_BYTES

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise errors.too_large(f"Request entity too large: its defaults exceed {LARGEST_DEFAULTS_BYTES} bytes")


def fill_in_defaults(schema: Schema, value: Any, unchanged: Container[str] = ()) -> bool:
    """`apply_defaults` for an object without such nulls; whether a default was missing.

    Visits only parts that have defaults.
    """
    return _fill_in(schema, value, _Budget(), unchanged)


def _fill_in(schema: Schema, value: Any, budget: _Budget, unchanged: Container[str] = ()) -> bool:
    is_changed = False
    if isinstance(value, list):
        for item in value:
            is_changed |= _fill_in(schema["items"], item, budget)
    elif isinstance(value, dict):
        defaults, parts, additional = _defaults_of_object(schema)
        for name, default, size in defaults:
            if name not in value:
                budget.take(size)
                value[name] = copy.deepcopy(default)
                is_changed = True
        for name, part in parts:
            if name in value and name not in unchanged:
                is_changed |= _fill_in(part, value[name], budget)
        if additional is not None:
            for name in value.keys() - schema.get("properties", _EMPTY).keys():
                is_changed |= _fill_in(additional, value[name], budget)
    return is_changed


def _default(schema: Schema, value: Any, budget: _Budget) -> None:
    if isinstance(value, dict):
        _default_object(schema, value, budget)
    elif isinstance(value, list):
        items = schema.get("items")
        if items:
            for item in value:
                if isinstance(item, _CONTAINERS):
                    _default(items, item, budget)


def _default_object(schema: Schema, value: Object, budget: _Budget, unchanged: Container[str] = ()) -> None:
    properties = schema.get("properties", _EMPTY)
    additional = schema.get("additionalProperties")
    others = additional if isinstance(additional, dict) else None
    for name in [name for name, inner in value.items() if inner is None]:
        part = properties.get(name, others)
        if part is not None and not part.get("nullable"):
            del value[name]
    for name, default, size in _property_defaults(schema):
        if name not in value:
            budget.take(size)
            value[name] = copy.deepcopy(default)
    for name, inner in value.items():
        if isinstance(inner, _CONTAINERS) and name not in unchanged:
            part = properties.get(name, others)
            if part is not None:
                _default(part, inner, budget)


@PerSchema
def _property_defaults(schema: Schema) -> list[tuple[str, Any, int]]:
    """The fields with a default, the default, and its length as JSON."""
    return [
        (name, part["default"], len(msgspec.json.encode(part["default"])))
        for name, part in schema.get("properties", _EMPTY).items()
        if part.get("default") is not None
    ]


@PerSchema
def _defaulted_parts(schema: Schema) -> list[tuple[str, Schema]]:
    return [(name, part) for name, part in schema.get("properties", _EMPTY).items() if has_defaults(part)]


@PerSchema
def _defaults_of_object(schema: Schema) -> tuple[list[tuple[str, Any, int]], list[tuple[str, Schema]], Schema | None]:
    """The defaults of its fields, the fields with defaults below, and other entries with them."""
    additional = schema.get("additionalProperties")
    has_others = isinstance(additional, dict) and has_defaults(additional)
    return _property_defaults(schema), _defaulted_parts(schema), additional if has_others else None


@PerSchema
def has_defaults(schema: Schema) -> bool:
    """Whether any default is below this schema."""
    if _property_defaults(schema) or _defaulted_parts(schema):
        return True
    below = (schema.get("items"), schema.get("additionalProperties"))
    return any(has_defaults(part) for part in below if isinstance(part, dict))


@PerSchema
def _field_names(schema: Schema) -> tuple[str, ...]:
    return tuple(schema.get("properties", _EMPTY))


_Location = tuple[dict[str, Any], str, tuple[str, Schema]]


def _unknown(schema: Schema, obj: Object, unchanged: Container[str]) -> Iterator[_Location]:
    """The dict of each unknown field, its name, and (its path, the schema of the dict)."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        yield from _unknown_in_metadata(obj, "")
    else:
        yield from _unknown_in_object(schema, obj, "", is_resource=True, unchanged=unchanged)


_META_SCHEMA: Schema = {"properties": dict.fromkeys(sorted(OBJECT_META_FIELDS), _EMPTY)}


def _unknown_in_metadata(obj: Object, path: str) -> Iterator[_Location]:
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        for name in metadata:
            if name not in OBJECT_META_FIELDS:
                yield metadata, name, (f"{path}.metadata.{name}" if path else f"metadata.{name}", _META_SCHEMA)


def _unknown_in(schema: Schema, value: Any, path: str) -> Iterator[_Location]:
    if isinstance(value, dict):
        is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
        yield from _unknown_in_object(schema, value, path, is_resource=is_resource)
    elif isinstance(value, list):
        if schema.get("x-kubernetes-preserve-unknown-fields") and "items" not in schema:
            return
        items = schema.get("items", _EMPTY)
        for index, item in enumerate(value):
            if isinstance(item, _CONTAINERS):
                yield from _unknown_in(items, item, f"{path}[{index}]")


def _unknown_in_object(
    schema: Schema, value: Object, path: str, *, is_resource: bool, unchanged: Container[str] = ()
) -> Iterator[_Location]:
    properties = schema.get("properties", _EMPTY)
    additional = schema.get("additionalProperties")
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields") or additional is True)
    if is_resource:
        yield from _unknown_in_metadata(value, path)
    for name, inner in value.items():
        if (is_resource and name in _META_FIELDS) or name in unchanged:
            continue
        part = properties.get(name)
        if part is None and isinstance(additional, dict):
            part = additional
        if part is not None:
            if isinstance(inner, _CONTAINERS):
                yield from _unknown_in(part, inner, f"{path}.{name}" if path else name)
        elif not keeps_unknown:
            yield value, name, (f"{path}.{name}" if path else name, schema)
