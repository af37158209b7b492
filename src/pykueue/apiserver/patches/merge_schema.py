"""How the parts of a kind merge: which lists merge by key or as sets, which are replaced.

The schema of a kind says so (`x-kubernetes-list-type`, `x-kubernetes-map-type` and
`x-kubernetes-patch-strategy`); the schemas of Kubernetes' own kinds are built from the type files.
Strategic merge patch and server-side apply walk values along a merge schema.
"""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api.builtin import schemas
from pykueue.api.schema import PerSchema
from pykueue.api.scheme import Kind, Schema

_NOTHING: Mapping[str, Any] = {}
_ITEM, _ENTRY = "[]", "{}"


class MergeSchema:
    """How one part of an object merges.

    `keys` are the fields by which server-side apply merges a list, `is_set` says that it merges
    the list as a set. `is_declared` says that the part is a field of a struct, not an entry of a
    map. `always_written` has the fields that Go writes even if they are empty.
    """

    __slots__ = (
        "_always_written",
        "_parts",
        "_schema",
        "is_always_written",
        "is_atomic",
        "is_declared",
        "is_set",
        "keys",
        "merge_key",
        "merges_as_set",
        "replaces",
        "texts_by_shape",
    )

    def __init__(
        self, schema: Schema, *, is_declared: bool = True, always_written: Mapping[str, Any] | None = None
    ) -> None:
        self._schema = schema
        self._parts: dict[str, MergeSchema] = {}
        self._always_written = always_written or _NOTHING
        list_type = schema.get("x-kubernetes-list-type", "atomic")
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
        self.is_set = list_type == "set"
        self.is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
        self.is_declared = is_declared
        self.is_always_written = always_written is not None
        """Nobody owns the presence of such a field, only what is in it."""
        strategies = schema.get("x-kubernetes-patch-strategy", "").split(",")
        self.merge_key: str = schema.get("x-kubernetes-patch-merge-key", "") if "merge" in strategies else ""
        """The field by which a strategic merge patch merges a list."""
        self.merges_as_set = "merge" in strategies and not self.merge_key
        self.replaces = "replace" in strategies
        """Whether a strategic merge patch replaces the object as a whole."""
        self.texts_by_shape: dict[Any, msgspec.Raw] = {}
        """The fields that the creator of an object owns, by the shape of the object."""

    def child(self, name: str) -> "MergeSchema":
        """The merge schema of a field, or of an entry of a map."""
        part = self._parts.get(name)
        if part is not None:
            return part
        properties: Mapping[str, Schema] = self._schema.get("properties") or {}
        if name in properties:
            part = MergeSchema(properties[name], always_written=self._always_written.get(name))
            self._parts[name] = part
            return part
        return self._part(_ENTRY, "additionalProperties", is_declared=False)

    def item(self) -> "MergeSchema":
        """The merge schema of the items of a list."""
        return self._part(_ITEM, "items")

    def _part(self, name: str, keyword: str, *, is_declared: bool = True) -> "MergeSchema":
        part = self._parts.get(name)
        if part is None:
            schema = self._schema.get(keyword)
            part = MergeSchema(schema if isinstance(schema, dict) else {}, is_declared=is_declared)
            self._parts[name] = part
        return part

    def key_default(self, key: str) -> Any:
        """The value of a key that an item of the list does not have."""
        properties: Mapping[str, Schema] = (self._schema.get("items") or {}).get("properties") or {}
        return properties.get(key, {}).get("default")


def of(kind: Kind) -> MergeSchema:
    if kind.is_builtin:
        api_version = kind.api_version
        if (api_version, kind.kind) in schemas.types().kinds:
            return of_builtin(api_version, kind.kind)
    return _of_custom(kind.schema)


@functools.cache
def of_builtin(api_version: str, kind: str) -> MergeSchema:
    types = schemas.recursive_types()
    name = types.kinds[api_version, kind]
    return MergeSchema(types.schema(name), always_written=types.always_written.tree(name))


def _custom(schema: Schema) -> MergeSchema:
    """Metadata merges as in every kind. A custom resource always writes no other field."""
    properties = {**schema.get("properties", {}), "metadata": schemas.types().schema("ObjectMeta")}
    return MergeSchema({**schema, "properties": properties}, always_written={"metadata": {}})


_of_custom = PerSchema(_custom)
