"""Checks of literals once the types are known: mixed lists, times, patterns, templates."""

from collections.abc import Callable, Iterator
from typing import Any

from pykueue.api.cel import conversions, formatting, times
from pykueue.api.cel.checker import children
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.syntax import Call, Expr, ListLiteral, Literal, MapLiteral
from pykueue.api.cel.types import Type, unwrapped
from pykueue.api.cel.values import NS_PER_SECOND, Timestamp

Faults = Iterator[tuple[int, str]]


def _timestamp(value: Any) -> object:
    return times.timestamp(value) if isinstance(value, str) else Timestamp(value * NS_PER_SECOND)


def _duration(value: Any) -> object:
    return times.duration(value) if isinstance(value, str) else conversions.int_to_duration(value)


_READERS: dict[str, Callable[[Any], object]] = {
    "timestamp": _timestamp,
    "duration": _duration,
    "matches": conversions.regular_expression,
    "find": conversions.regular_expression,
    "findAll": conversions.regular_expression,
}


def faults(node: Expr, *, is_exempt: bool = False) -> Faults:
    """`is_exempt` is set inside of `format`, whose list may have items of any types."""
    if isinstance(node, ListLiteral) and not is_exempt:
        yield from _list_faults(node)
    elif isinstance(node, MapLiteral) and not is_exempt:
        yield from _map_faults(node)
    elif isinstance(node, Call):
        yield from _call_faults(node)
        is_exempt = is_exempt or node.function == "format"
    for child in children(node):
        yield from faults(child, is_exempt=is_exempt)


def _call_faults(node: Call) -> Faults:
    read = _READERS.get(node.function)
    last = node.args[0 if node.target else -1] if node.args else None
    if read is not None and isinstance(last, Literal):
        try:
            read(last.value)
        except CelError:
            yield last.position, f"invalid {node.function} argument"
    if node.function == "format" and isinstance(node.target, Literal) and isinstance(node.args[0], ListLiteral):
        yield from _template_faults(node, str(node.target.value), node.args[0])


def _mismatch(position: int, expected: Type, actual: Type) -> tuple[int, str]:
    return position, f"expected type '{expected}' but found '{actual}'"


def _list_faults(node: ListLiteral) -> Faults:
    expected: Type | None = None
    for index, item in enumerate(node.items):
        actual = unwrapped(item.type)[0] if index in node.optionals else item.type
        expected = expected or actual
        if actual != expected:
            yield _mismatch(item.position, expected, actual)
            return


def _map_faults(node: MapLiteral) -> Faults:
    expected: tuple[Type, Type] | None = None
    for entry in node.entries:
        value = unwrapped(entry.value.type)[0] if entry.is_optional else entry.value.type
        expected = expected or (entry.key.type, value)
        if entry.key.type != expected[0]:
            yield _mismatch(entry.key.position, expected[0], entry.key.type)
        if value != expected[1]:
            yield _mismatch(entry.value.position, expected[1], value)


def _template_faults(node: Call, template: str, items: ListLiteral) -> Faults:
    samples = [formatting.SAMPLES.get(item.type.kind, formatting.ANY) for item in items.items]
    used: list[object] = []
    try:
        formatting.expand(template, samples, used)
    except CelError as error:
        place = items.items[len(used) - 1] if str(error).startswith("error during") else node
        yield place.position, str(error)
        return
    if len(samples) > len(used):
        message = f"too many arguments supplied to string.format (expected {len(used)}, got {len(samples)})"
        yield node.position, message
