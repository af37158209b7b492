r"""The JSONPath of printer columns, in the dialect of client-go.

A path is compiled once to steps; a step maps a value to the values below it. Supported: `.field`,
`['field']`, `\.` inside names, `[0]`, `[-1]`, `[*]`, `[a:b]`, filters such as
`[?(@.type=="Ready")]`. Called for the cells of tables and by the validation of
CustomResourceDefinitions.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from pykueue.api import text_cache

Step = Callable[[Any], Iterator[Any]]


class PathError(ValueError):
    """The text is no supported JSONPath."""


_FILTER = re.compile(r"\?\(\s*@([^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.*?)\s*)?\)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LONGEST_PATH = 512
_NAME_END = re.compile(r"(?<!\\)[.\[]")


@text_cache.cached(4096)
def compile_path(path: str) -> tuple[Step, ...]:
    if len(path) > _LONGEST_PATH:
        raise PathError(f"a path has at most {_LONGEST_PATH} characters")
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    return tuple(_steps(text.removeprefix("$")))


def find(path: str, value: Any) -> list[Any]:
    """All values at the path; an empty list if a part of the path is absent."""
    return _follow(compile_path(path), value)


def _follow(steps: tuple[Step, ...], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [below for above in values for below in step(above)]
    return values


def _steps(text: str) -> Iterator[Step]:
    while text:
        if text.startswith("["):
            inside, text = _bracketed(text)
            yield _bracket_step(inside)
            continue
        text = text.removeprefix(".")
        end = _NAME_END.search(text)
        name, text = (text[: end.start()], text[end.start() :]) if end else (text, "")
        if name == "*":
            yield _children
        elif name:
            yield _field(name.replace("\\.", "."))
        elif text.startswith("."):
            raise PathError("recursive descent is not supported")


def _bracketed(text: str) -> tuple[str, str]:
    """Split `[inside]rest`. Brackets inside quotes and filters do not count."""
    depth, quote = 0, ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return text[1:index], text[index + 1 :]
    raise PathError(f"unterminated array in {text!r}")


def _bracket_step(inside: str) -> Step:
    inside = inside.strip()
    if inside == "*":
        return _children
    if inside[:1] in "'\"" and inside:
        return _field(inside.strip(inside[0]))
    if inside.startswith("?"):
        return _filter(inside)
    numbers = inside.split(":")
    try:
        positions = [int(number) if number else None for number in numbers]
    except ValueError:
        raise PathError(f"invalid array index {inside}") from None
    if len(positions) == 1:
        return _index(positions[0])
    return _slice(slice(*positions))


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _index(position: int | None) -> Step:
    if position is None:
        raise PathError("invalid array index")

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            yield value[position]

    return step


def _slice(positions: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[positions]

    return step


def _filter(inside: str) -> Step:
    match = _FILTER.fullmatch(inside)
    if match is None:
        raise PathError(f"unrecognised filter {inside}")
    below, comparison, literal = match.groups()
    steps = tuple(_steps(below))
    compare = _COMPARISONS[comparison] if comparison else None
    expected = _literal(literal) if comparison else None

    def holds(item: Any) -> bool:
        values = _follow(steps, item)
        if compare is None or not values:
            return bool(values)
        try:
            return compare(values[0], expected)
        except TypeError:
            return False

    def filtered(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return filtered


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text:
        return text.strip(text[0])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise PathError(f"unrecognised value {text} in a filter") from None
