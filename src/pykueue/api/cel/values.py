"""The values of CEL as Python values.

JSON is itself: None, bool, int, float, str, list and dict. Classes here stand for what JSON does
not have. Python takes True for 1, CEL does not, so values are compared by `equal`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pykueue.api.cel import types
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.types import Type

SMALLEST_INT, LARGEST_INT, LARGEST_UINT = -(2**63), 2**63 - 1, 2**64 - 1
NS_PER_SECOND: Final = 10**9
EARLIEST_SECOND, LATEST_SECOND = -62135596800, 253402300799
"""The years 1 to 9999."""


class UInt(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


class Timestamp:
    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        if not EARLIEST_SECOND <= ns // NS_PER_SECOND <= LATEST_SECOND:
            raise CelError("timestamp overflow")
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return type(other) is Timestamp and self.ns == other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


class Duration:
    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        if not SMALLEST_INT <= ns <= LARGEST_INT:
            raise CelError("integer overflow")
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return type(other) is Duration and self.ns == other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


class Optional:
    """`optional.of(value)`, or NONE."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Optional and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class _Absent:
    pass


NONE: Final = Optional(_Absent)


class TypeValue:
    """The value of `type(x)` and of the name of a type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is TypeValue and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Opaque:
    """A value of a type that a library adds. `cel_type` is a class attribute."""

    __slots__ = ()
    cel_type: Type = types.DYN

    def cel_equal(self, other: Any) -> bool:
        return type(other) is type(self) and self == other

    @property
    def cel_size(self) -> int:
        return 1


class Fields(Opaque):
    """A value with fields that are looked up by name."""

    __slots__ = ()

    def find(self, name: str) -> Any:
        """The field, or ABSENT."""
        raise NotImplementedError


ABSENT: Final = _Absent()


class LazyFields(Fields):
    """Fields that are computed when they are read, such as the variables of a policy."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[str], Any]) -> None:
        self._compute = compute

    def find(self, name: str) -> Any:
        return self._compute(name)


class Struct(Fields):
    """A value of a type such as `Object.spec`, which a mutating policy builds."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields

    def find(self, name: str) -> Any:
        return self.fields.get(name, ABSENT)

    def cel_equal(self, other: Any) -> bool:
        return type(other) is Struct and self.name == other.name and equal(self.fields, other.fields)


class DefaultMap(dict[str, Any]):
    """A map whose missing keys are empty maps when they are read: the domains of a device."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key, {} if default is ABSENT else default)


_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
}
_KINDS = {"null_type": "null", "google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}


def type_name(value: Any) -> str:
    """The name that `type(value)` has."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Struct):
        return value.name
    if isinstance(value, Opaque):
        return value.cel_type.name
    return next((of_class for kind, of_class in _NAMES.items() if isinstance(value, kind)), "dyn")


def runtime_kind(kind: type) -> str:
    """The name of the type that overloads declare for values of a Python class."""
    name = _NAMES.get(kind)
    if name is None and issubclass(kind, Opaque):
        name = kind.cel_type.name
    if name is None:
        name = next((of_class for base, of_class in _NAMES.items() if issubclass(kind, base)), "dyn")
    return _KINDS.get(name, name)


_PLAIN = frozenset({str, int, float, bytes, UInt})
_NUMBERS = frozenset({int, float, UInt})


def equal(first: Any, second: Any) -> bool:
    """Whether two values are equal in CEL: numbers across their types, else only within a type."""
    kind, other = type(first), type(second)
    if kind is other and kind in _PLAIN:
        return bool(first == second)
    if kind is bool or other is bool:
        return kind is other and bool(first == second)
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(first == second)
    if isinstance(first, list):
        return isinstance(second, list) and len(first) == len(second) and all(map(equal, first, second))
    if isinstance(first, dict):
        return isinstance(second, dict) and _equal_maps(first, second)
    if isinstance(first, Optional):
        if not isinstance(second, Optional) or NONE in (first, second):
            return first is second
        return equal(first.value, second.value)
    if isinstance(first, Opaque):
        return first.cel_equal(second)
    return kind is other and bool(first == second)


def _equal_maps(first: dict[Any, Any], second: dict[Any, Any]) -> bool:
    if len(first) != len(second):
        return False
    for key, value in first.items():
        other = second.get(key, ABSENT)
        if other is ABSENT or not equal(value, other):
            return False
    return True


class _BoolKey:
    """A boolean as the key of a map. Python finds True for 1, CEL does not."""

    __slots__ = ("value",)

    def __init__(self, *, value: bool) -> None:
        self.value = value


_BOOL_KEYS = {True: _BoolKey(value=True), False: _BoolKey(value=False)}


def as_key(value: Any) -> Any:
    """A value as the key of a dict that is a map of CEL; CelError if it cannot be one."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is bool:
        return _BOOL_KEYS[value]
    raise CelError("unsupported key type")


def keys(entries: dict[Any, Any]) -> Iterator[Any]:
    return (key.value if type(key) is _BoolKey else key for key in entries)


def items(entries: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    return ((key.value if type(key) is _BoolKey else key, value) for key, value in entries.items())


def find(entries: dict[Any, Any], key: Any) -> Any:
    """The value of a key, or ABSENT."""
    kind = type(key)
    if kind is str or kind in _NUMBERS:
        return entries.get(key, ABSENT)
    return entries.get(_BOOL_KEYS[key], ABSENT) if kind is bool else ABSENT


def size(value: Any) -> int:
    """The size that a cost depends on: 1 for a value that has none."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Opaque):
        return value.cel_size
    if isinstance(value, Optional) and value is not NONE:
        return size(value.value)
    return 1


def structs(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The names of structs with those that their place in the outermost struct asks for."""
    if isinstance(value, Struct):
        path = path or value.name
        yield value.name, path
        for name, item in value.fields.items():
            yield from structs(item, f"{path}.{name}")
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from structs(item, path)
