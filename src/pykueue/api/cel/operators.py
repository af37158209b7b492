"""The operators of CEL: arithmetic that reports overflows, comparison, concatenation, `in`."""

import math
from collections.abc import Callable
from typing import Any

from pykueue.api.cel import cost, values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import LARGEST_INT, LARGEST_UINT, SMALLEST_INT, Duration, Timestamp, UInt, equal


def as_int(number: int) -> int:
    if SMALLEST_INT <= number <= LARGEST_INT:
        return number
    raise CelError("integer overflow")


def _as_uint(number: int) -> UInt:
    if 0 <= number <= LARGEST_UINT:
        return UInt(number)
    raise CelError("unsigned integer overflow")


def _quotient(left: int, right: int) -> int:
    """Integer division towards zero."""
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return as_int(quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(left: int, right: int) -> int:
    """The remainder has the sign of the dividend."""
    if right == 0:
        raise CelError("modulus by zero")
    if left == SMALLEST_INT and right == -1:
        raise CelError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _divided_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("division by zero")
    return UInt(int(left) // int(right))


def _remainder_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise CelError("modulus by zero")
    return UInt(int(left) % int(right))


def _divided_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _product(left: float, right: float) -> float:
    return left * right


def is_in(item: Any, items: list[Any]) -> bool:
    if type(item) is str:
        return item in items
    return any(equal(item, other) for other in items)


def is_key(key: Any, entries: dict[Any, Any]) -> bool:
    try:
        return values.as_key(key) in entries
    except CelError:
        return False


def add_arithmetic(functions: Functions) -> None:
    add = functions.add
    add("_+_", "add_bytes", "(bytes, bytes) -> bytes", lambda a, b: a + b, cost=cost.concatenation)
    add("_+_", "add_double", "(double, double) -> double", lambda a, b: a + b)
    add("_+_", "add_duration_duration", "(duration, duration) -> duration", lambda a, b: Duration(a.ns + b.ns))
    add("_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp", lambda a, b: Timestamp(a.ns + b.ns))
    add("_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp", lambda a, b: Timestamp(a.ns + b.ns))
    add("_+_", "add_int64", "(int, int) -> int", lambda a, b: as_int(a + b))
    add("_+_", "add_list", "(list(A), list(A)) -> list(A)", lambda a, b: a + b, cost=_list_concatenation)
    add("_+_", "add_string", "(string, string) -> string", lambda a, b: a + b, cost=cost.concatenation)
    add("_+_", "add_uint64", "(uint, uint) -> uint", lambda a, b: _as_uint(int(a) + int(b)))
    add("_-_", "subtract_double", "(double, double) -> double", lambda a, b: a - b)
    add("_-_", "subtract_duration_duration", "(duration, duration) -> duration", lambda a, b: Duration(a.ns - b.ns))
    add("_-_", "subtract_int64", "(int, int) -> int", lambda a, b: as_int(a - b))
    add("_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp", lambda a, b: Timestamp(a.ns - b.ns))
    add("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", lambda a, b: Duration(a.ns - b.ns))
    add("_-_", "subtract_uint64", "(uint, uint) -> uint", lambda a, b: _as_uint(int(a) - int(b)))
    add("_*_", "multiply_double", "(double, double) -> double", _product)
    add("_*_", "multiply_int64", "(int, int) -> int", lambda a, b: as_int(a * b))
    add("_*_", "multiply_uint64", "(uint, uint) -> uint", lambda a, b: _as_uint(int(a) * int(b)))
    add("_/_", "divide_double", "(double, double) -> double", _divided_double)
    add("_/_", "divide_int64", "(int, int) -> int", _quotient)
    add("_/_", "divide_uint64", "(uint, uint) -> uint", _divided_uint)
    add("_%_", "modulo_int64", "(int, int) -> int", _remainder)
    add("_%_", "modulo_uint64", "(uint, uint) -> uint", _remainder_uint)
    add("-_", "negate_double", "(double) -> double", lambda a: -a)
    add("-_", "negate_int64", "(int) -> int", lambda a: as_int(-a))
    add("!_", "logical_not", "(bool) -> bool", lambda a: not a)


def _list_concatenation(left: list[Any], right: list[Any]) -> int:
    """cel-go links the lists; Python copies them."""
    return 1 + (len(left) + len(right)) // 10


_NUMBERS = ("int", "uint", "double")


def add_relations(functions: Functions) -> None:
    """`<`, `<=`, `>` and `>=` for each pair of types that can be compared."""
    relations: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
        ("_<_", "less", lambda a, b: a < b),
        ("_<=_", "less_equals", lambda a, b: a <= b),
        ("_>_", "greater", lambda a, b: a > b),
        ("_>=_", "greater_equals", lambda a, b: a >= b),
    )
    for operator, name, holds in relations:
        functions.add(operator, f"{name}_bool", "(bool, bool) -> bool", holds)
        for left in _NUMBERS:
            for right in _NUMBERS:
                functions.add(operator, f"{name}_{left}_{right}", f"({left}, {right}) -> bool", holds)
        for text in ("string", "bytes"):
            functions.add(operator, f"{name}_{text}", f"({text}, {text}) -> bool", holds, cost=cost.comparison)
        for moment in ("timestamp", "duration"):
            functions.add(operator, f"{name}_{moment}", f"({moment}, {moment}) -> bool", _by_ns(holds))


def _by_ns(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: holds(a.ns, b.ns)


def add_collections(functions: Functions) -> None:
    functions.add("@in", "in_list", "(A, list(A)) -> bool", is_in, cost=cost.membership)
    functions.add("@in", "in_map", "(A, map(A, B)) -> bool", is_key)
    for kind in ("bytes", "list(A)", "map(A, B)", "string"):
        name = kind.partition("(")[0]
        functions.add("size", f"size_{name}", f"({kind}) -> int", len)
        functions.add("size", f"{name}_size", f"{kind}.() -> int", len)


def _not_called(*_: Any) -> Any:
    """The planner evaluates these operators itself; their overloads are for the checker."""
    raise CelError("no such overload")


def add_syntax(functions: Functions) -> None:
    """What the planner evaluates without a call."""
    add = functions.add
    add("_?_:_", "conditional", "(bool, A, A) -> A", _not_called)
    add("_==_", "equals", "(A, A) -> bool", _not_called)
    add("_!=_", "not_equals", "(A, A) -> bool", _not_called)
    add("_[_]", "index_list", "(list(A), int) -> A", _not_called)
    add("_[_]", "index_map", "(map(A, B), A) -> B", _not_called)
    add("_[_]", "optional_list_index_int", "(optional_type(list(V)), int) -> optional_type(V)", _not_called)
    add("_[_]", "optional_map_index_value", "(optional_type(map(K, V)), K) -> optional_type(V)", _not_called)
    add("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional_type(V)", _not_called)
    add(
        "_[?_]", "optional_list_optindex_optional_int", "(optional_type(list(V)), int) -> optional_type(V)", _not_called
    )
    add("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional_type(V)", _not_called)
    add(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional_type(map(K, V)), K) -> optional_type(V)",
        _not_called,
    )


def add_operators(functions: Functions) -> None:
    add_syntax(functions)
    add_arithmetic(functions)
    add_relations(functions)
    add_collections(functions)
