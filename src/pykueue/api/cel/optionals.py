"""Optional values: `optional.of`, `orValue`, `hasValue`, and the first and last items of lists."""

from typing import Any

from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import NONE, Optional, Struct, Timestamp, UInt


def _of_non_zero(value: Any) -> Optional:
    if isinstance(value, Timestamp):
        return Optional(value)
    is_zero = value is None or (isinstance(value, bool | int | UInt | float | str | bytes | list | dict) and not value)
    if getattr(value, "ns", 1) == 0 or (isinstance(value, Struct) and not value.fields):
        is_zero = True
    return NONE if is_zero else Optional(value)


def value_of(optional: Optional) -> Any:
    if optional is NONE:
        raise CelError("optional.none() dereference")
    return optional.value


def _first(items: list[Any]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: list[Any]) -> Optional:
    return Optional(items[-1]) if items else NONE


def _unwrap(items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, Optional):
            raise CelError(f"value {item} is not optional")
    return [item.value for item in items if item is not NONE]


def _not_called(*_: Any) -> Any:
    """The planner evaluates `or` and `orValue` itself: the other value only if it is needed."""
    raise CelError("no such overload")


def add_optionals(functions: Functions) -> None:
    add = functions.add
    add("optional.of", "optional_of", "(V) -> optional_type(V)", Optional)
    add("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional_type(V)", _of_non_zero)
    add("optional.none", "optional_none", "() -> optional_type(V)", lambda: NONE)
    add("value", "optional_value", "optional_type(V).() -> V", value_of)
    add("hasValue", "optional_hasValue", "optional_type(V).() -> bool", lambda optional: optional is not NONE)
    add("or", "optional_or_optional", "optional_type(V).(optional_type(V)) -> optional_type(V)", _not_called)
    add("orValue", "optional_orValue_value", "optional_type(V).(V) -> V", _not_called)
    add("first", "list_first", "list(V).() -> optional_type(V)", _first)
    add("last", "list_last", "list(V).() -> optional_type(V)", _last)
    add("optional.unwrap", "optional_unwrap", "(list(optional_type(V))) -> list(V)", _unwrap)
    add("unwrapOpt", "optional_unwrapOpt", "list(optional_type(V)).() -> list(V)", _unwrap)
