"""How the parts of a kind merge: which lists are maps by key or sets, which maps are replaced as a whole.

A custom kind says so in its schema (`x-kubernetes-*`). The kinds of Kubernetes itself say so in tables below, by field
name: Kubernetes is consistent enough that the name decides, except for `ports`. Strategic merge and server-side apply
walk values along a shape.
"""

import functools
from collections.abc import Mapping
from typing import Any

from pykueue.api.scheme import Kind, Schema

_LISTS_BY_KEY: dict[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "matchConditions": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "validations": ("expression",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
_SERVICE_PORTS = ("port", "protocol")
_SETS = frozenset({"finalizers", "podCIDRs"})
_ATOMIC_MAPS = frozenset(
    {
        "claimRef",
        "configMapKeyRef",
        "fieldRef",
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "objectSelector",
        "regarding",
        "related",
        "resourceFieldRef",
        "roleRef",
        "scopeSelector",
        "secretKeyRef",
        "selector",
        "targetRef",
    }
)
_RETAINED_KEYS = frozenset({"strategy", "volumes"})
_ALWAYS_PRESENT = frozenset({"metadata", "spec", "status", "strategy", "template", "jobTemplate", "containers"})
KEY_DEFAULTS = {"protocol": "TCP"}


class Shape:
    """One place in an object. `keys` is set for lists that are maps, `is_set` for lists of distinct values."""

    keys: tuple[str, ...] = ()
    is_set = False
    is_atomic = False
    """A map or list that is replaced as a whole. Only lists that are neither maps nor sets, and maps that say so."""
    is_declared = True
    """The place is a field of a struct, not an entry of a free map."""
    is_always_present = False
    """A struct that Kubernetes itself never leaves out, so nobody owns its presence."""

    def child(self, name: str) -> "Shape":
        raise NotImplementedError

    def item(self) -> "Shape":
        raise NotImplementedError

    @property
    def merge_key(self) -> str:
        """The one key by which strategic merge finds items of a list; "" if the list is replaced."""
        return self.keys[0] if self.keys else ""


class NamedShape(Shape):
    """A place in a builtin kind, known by the name of its field."""

    def __init__(self, name: str = "", *, is_service: bool = False) -> None:
        self._is_service = is_service
        keys = _LISTS_BY_KEY.get(name, ())
        self.keys = _SERVICE_PORTS if name == "ports" and is_service else keys
        self.is_set = name in _SETS
        self.is_atomic = name in _ATOMIC_MAPS
        self.is_always_present = name in _ALWAYS_PRESENT
        self.retains_keys = name in _RETAINED_KEYS
        self.is_declared = True

    def child(self, name: str) -> Shape:
        return _named(name, self._is_service)

    def item(self) -> Shape:
        return _named("", self._is_service)


@functools.lru_cache(maxsize=4096)
def _named(name: str, is_service: bool) -> NamedShape:  # noqa: FBT001 - a cache key
    return NamedShape(name, is_service=is_service)


class SchemaShape(Shape):
    """A place in a custom kind, read from its schema."""

    def __init__(self, schema: Schema, *, is_declared: bool = True) -> None:
        self._schema = schema
        self._children: dict[str, Shape] = {}
        list_type = schema.get("x-kubernetes-list-type", "atomic")
        self.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
        self.is_set = list_type == "set"
        self.is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
        self.is_declared = is_declared

    def child(self, name: str) -> Shape:
        if name not in self._children:
            self._children[name] = self._find(name)
        return self._children[name]

    def item(self) -> Shape:
        return self.child("[]") if self.keys else UNTYPED

    def _find(self, name: str) -> Shape:
        if name == "[]":
            return SchemaShape(self._schema.get("items") or {})
        properties: Mapping[str, Any] = self._schema.get("properties") or {}
        if name in properties:
            return SchemaShape(properties[name])
        values = self._schema.get("additionalProperties")
        return SchemaShape(values if isinstance(values, dict) else {}, is_declared=False)


class _KindShape(SchemaShape):
    """The top of a custom kind: its metadata merges as everyone's does."""

    def _find(self, name: str) -> Shape:
        return _named("metadata", False) if name == "metadata" else super()._find(name)  # noqa: FBT003 - a cache key


UNTYPED = SchemaShape({})


_SHAPES: dict[int, tuple[Schema, Shape]] = {}
"""By identity of the schema, which the entry keeps alive so that the identity is not reused."""
_MOST_SHAPES = 10_000


def of(kind: Kind) -> Shape:
    if kind.is_builtin:
        return _named("", kind.kind == "Service")
    known = _SHAPES.get(id(kind.schema))
    if known is None:
        if len(_SHAPES) >= _MOST_SHAPES:
            _SHAPES.clear()
        known = _SHAPES[id(kind.schema)] = (kind.schema, _KindShape(kind.schema))
    return known[1]
