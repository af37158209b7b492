"""Orders the fields of an object as a Go client writes them, and compares objects as Go does.

Go writes a struct in the order of its fields and a map with sorted keys. It writes a struct within
a struct even if it is empty. The type files have the order of Kubernetes' structs. Needed where
Kueue prints a pod set or admission that must not change, and where it hashes a pod's role.
"""

import functools
from typing import Any

from pykueue.api import quantity
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


@functools.cache
def _nil_differs(struct: str) -> frozenset[str]:
    """The fields of a struct in which Go tells an absent value from a zero value: pointers."""
    if struct in _KUEUE_STRUCTS:
        return frozenset({"topologyRequest", "minCount", "topologyAssignment"} & _KUEUE_STRUCTS[struct].keys())
    types = schemas.types()
    fields = types.fields(struct) if struct in types.names() else ()
    return frozenset(field.name for field in fields if not field.zero and field.type[0] not in "[{")


def are_equal(one: Any, other: Any, kind: str) -> bool:
    """Whether Go's typed objects are equal.

    Zero values equal absent ones except in pointers, empty lists and maps equal absent ones, and
    quantities are compared by amount, so a Go client that reads and updates an object changes
    nothing.
    """
    return one == other or bool(_comparable(one, kind) == _comparable(other, kind))


def _comparable(value: Any, kind: str) -> Any:
    if isinstance(value, list):
        return [_comparable(element, kind.removeprefix("[").removesuffix("]")) for element in value]
    if kind == "quantity":
        try:
            return quantity.parse(str(value)).nano
        except ValueError:
            return value
    if not isinstance(value, dict):
        return value
    if kind.startswith("{"):
        return {name: _comparable(entry, kind[1:-1]) for name, entry in value.items()}
    kinds, pointers = _fields(kind), _nil_differs(kind)
    fields = {name: _comparable(field, kinds.get(name, "any")) for name, field in value.items()}
    return {
        name: field
        for name, field in fields.items()
        if field is not None and (field or name in pointers or name not in kinds)
    }
