"""Functions of lists: Kubernetes' own, cel-go's `ext.Lists` and `ext.Sets`."""

from collections.abc import Callable
from typing import Any

from pykueue.api.cel import cost, operators, values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import Duration, Timestamp, UInt, equal

_COMPARABLE = ("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration")
_SUMMABLE = ("int", "uint", "double", "duration")
_NUMBERS = (int, float, UInt)
_LONGEST_RANGE = 1_000_000


def _order(value: Any) -> tuple[str, Any]:
    """What Python compares, and the kind of it: values of different kinds have no order."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, _NUMBERS):
        return "number", value
    if isinstance(value, str | bytes):
        return type(value).__name__, value
    if isinstance(value, Timestamp | Duration):
        return type(value).__name__, value.ns
    raise CelError("no such overload")


def _is_after(left: tuple[str, Any], right: tuple[str, Any]) -> bool:
    return left[0] == right[0] and bool(left[1] > right[1])


def _is_sorted(items: list[Any]) -> bool:
    """Neighbours that have no order do not matter, as in Kubernetes."""
    previous: tuple[str, Any] | None = None
    for item in items:
        current = _order(item)
        if previous is not None and _is_after(previous, current):
            return False
        previous = current
    return True


def _extreme(name: str, *, is_largest: bool) -> Callable[[list[Any]], Any]:
    def extreme(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        chosen, order = items[0], _order(items[0])
        for item in items[1:]:
            current = _order(item)
            if _is_after(current, order) if is_largest else _is_after(order, current):
                chosen, order = item, current
        return chosen

    return extreme


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    zero: Any = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}[kind]

    def total(items: list[Any]) -> Any:
        result = zero if not items else _ZEROS.get(type(items[0]), zero)
        kinds = {type(item) for item in items} | {type(result)}
        if len(kinds) > 1:
            raise CelError("no such overload")
        if isinstance(result, Duration):
            return Duration(sum(item.ns for item in items))
        if isinstance(result, float):
            return float(sum(items))
        return type(result)(operators.as_int(sum(int(item) for item in items)))

    return total


_ZEROS: dict[type, Any] = {int: 0, UInt: UInt(0), float: 0.0, Duration: Duration(0)}


def _index_of(items: list[Any], item: Any) -> int:
    return next((index for index, other in enumerate(items) if equal(other, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], item)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    result: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            result += _flatten(item, depth - 1)
        else:
            result.append(item)
    return result


def _flatten_cost(items: list[Any], depth: int = 1) -> int:
    return max(depth, 0) * len(items) + 1 + cost.LIST + cost.nested_items(items)


def _range(count: int) -> list[int]:
    return list(range(count))


def _range_cost(count: int) -> int:
    return max(count, 0) + 1 + cost.LIST


def _distinct(items: list[Any]) -> list[Any]:
    result: list[Any] = []
    texts: set[str] = set()
    for item in items:
        if isinstance(item, str):
            if item in texts:
                continue
            texts.add(item)
        elif any(equal(item, other) for other in result):
            continue
        result.append(item)
    return result


def _sort(items: list[Any]) -> list[Any]:
    return _sort_by(items, items)


def _sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if not items:
        return items
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")
    try:
        orders = [_order(key)[1] for key in keys]
    except CelError:
        raise CelError("list elements must be comparable") from None
    return [items[index] for index in sorted(range(len(items)), key=orders.__getitem__)]


def _sort_by_cost(_: list[Any], keys: list[Any]) -> int:
    return cost.self_comparison(keys)


def _contains(items: list[Any], others: list[Any]) -> bool:
    return all(operators.is_in(other, items) for other in others)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    return any(operators.is_in(other, items) for other in others)


def _equivalent(items: list[Any], others: list[Any]) -> bool:
    return _contains(items, others) and _contains(others, items)


def _sets_cost(factor: int) -> Callable[[list[Any], list[Any]], int]:
    def pairs(items: list[Any], others: list[Any]) -> int:
        nested = len(others) * cost.nested_items(items) + len(items) * cost.nested_items(others)
        return 1 + (len(items) * len(others) + nested) * factor

    return pairs


def add_lists(functions: Functions) -> None:
    add = functions.add
    for kind in _COMPARABLE:
        of = f"list({kind})"
        add("isSorted", f"list_{kind}_is_sorted_bool", f"{of}.() -> bool", _is_sorted, cost=cost.tree)
        add("max", f"list_{kind}_max_{kind}", f"{of}.() -> {kind}", _extreme("max", is_largest=True), cost=cost.tree)
        add("min", f"list_{kind}_min_{kind}", f"{of}.() -> {kind}", _extreme("min", is_largest=False), cost=cost.tree)
        add("sort", f"list_{kind}_sort", f"{of}.() -> {of}", _sort, cost=cost.self_comparison)
        add(
            "@sortByAssociatedKeys",
            f"list_{kind}_sortByAssociatedKeys",
            f"list(T).({of}) -> list(T)",
            _sort_by,
            cost=_sort_by_cost,
        )
    for kind in _SUMMABLE:
        add("sum", f"list_{kind}_sum_{kind}", f"list({kind}).() -> {kind}", _sum(kind), cost=cost.tree)
    add("indexOf", "list_a_index_of_int", "list(A).(A) -> int", _index_of, cost=cost.tree)
    add("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", _last_index_of, cost=cost.tree)
    add("slice", "list_slice", "list(T).(int, int) -> list(T)", _slice, cost=_nothing, result_cost=cost.allocation)
    add("flatten", "list_flatten", "list(list(T)).() -> list(T)", _flatten, cost=_flatten_cost)
    add("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", _flatten, cost=_flatten_cost)
    add("lists.range", "lists_range", "(int) -> list(int)", _range, cost=_range_cost)
    add(
        "reverse",
        "list_reverse",
        "list(T).() -> list(T)",
        lambda items: items[::-1],
        cost=_nothing,
        result_cost=cost.allocation,
    )
    add("distinct", "list_distinct", "list(T).() -> list(T)", _distinct, cost=cost.self_comparison)
    pair = "(list(T), list(T)) -> bool"
    add("sets.contains", "list_sets_contains_list", pair, _contains, cost=_sets_cost(1))
    add("sets.intersects", "list_sets_intersects_list", pair, _intersects, cost=_sets_cost(1))
    add("sets.equivalent", "list_sets_equivalent_list", pair, _equivalent, cost=_sets_cost(2))


def _nothing(*_: Any) -> int:
    """The cost is known when the result is."""
    return 0


def map_insert(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to the map of `transformMap`."""
    name = values.as_key(key)
    if name in entries:
        raise CelError(f"insert failed: key {key} already exists")
    entries[name] = value
