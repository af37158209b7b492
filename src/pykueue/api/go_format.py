"""Orders the fields of an object as a Go client writes them.

Go writes a struct in the order of its fields and a map with sorted keys. It writes a struct within
a struct even if it is empty. The type files have the order of Kubernetes' structs. Needed where
Kueue prints a pod set or admission that must not change, and where it hashes a pod's role.
"""

import functools
from typing import Any

from pykueue.api.builtin import schemas

_KUEUE_STRUCTS = {
    "PodSet": {
        "name": "string",
        "template": "PodTemplateSpec",
        "topologyRequest": "any",
        "count": "int32",
        "minCount": "int32",
    },
    "Admission": {"clusterQueue": "string", "podSetAssignments": "[PodSetAssignment]"},
    "PodSetAssignment": {
        "name": "string",
        "flavors": "{string}",
        "resourceUsage": "{quantity}",
        "count": "int32",
        "topologyAssignment": "any",
        "delayedTopologyRequest": "string",
    },
    "PodSetUpdate": {
        "name": "string",
        "labels": "{string}",
        "annotations": "{string}",
        "nodeSelector": "{string}",
        "tolerations": "[Toleration]",
    },
}


@functools.cache
def _fields(struct: str) -> dict[str, str]:
    """Field names and types in Go's order; empty if the type is no struct."""
    if struct in _KUEUE_STRUCTS:
        return _KUEUE_STRUCTS[struct]
    types = schemas.types()
    return {field.name: field.type for field in types.fields(struct)} if struct in types.names() else {}


@functools.cache
def _written_when_empty(struct: str) -> frozenset[str]:
    types = schemas.types()
    fields = types.fields(struct) if struct in types.names() else ()
    return frozenset(field.name for field in fields if field.zero == "+" and field.type in types.names())


def in_go_order(value: Any, kind: str) -> Any:
    """The value in the field order of `kind`: a type of `builtin.notation` or Kueue's struct."""
    if isinstance(value, list):
        item = kind.removeprefix("[").removesuffix("]")
        return [in_go_order(element, item) for element in value]
    if not isinstance(value, dict):
        return value
    if kind.startswith("{"):
        return {name: in_go_order(entry, kind[1:-1]) for name, entry in sorted(value.items())}
    present: dict[str, Any] = {name: {} for name in _written_when_empty(kind)} | value
    ordered = {name: in_go_order(present[name], inner) for name, inner in _fields(kind).items() if name in present}
    return ordered | {name: field for name, field in value.items() if name not in ordered}
