"""Decodes JSON that users send. Its cost grows with its length and with nothing else.

Depth is counted before a value is built, because most of what handles a value calls itself for
the values inside. Used by the API server, by `manifests` for JSON that is no YAML, and for JSON
in annotations.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import msgspec

DEEPEST = 128
"""Levels of objects and lists. Every value of this depth is handled (`tests/cost`)."""
MOST_VALUES = 100_000
"""Fields and items of one document."""
MOST_REPORTED_FIELDS = 100
_LARGE_BYTES = 16 * 1024
_LONGEST_PATH = 4096
_LONGEST_REPORTED_PATH = 500
_LEVELS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_NOT_OUTLINE = bytes(set(range(256)) - {*_LEVELS, ord(",")})


class JsonError(ValueError):
    """The text is not JSON, or exceeds a limit."""


def decode(data: bytes, most_values: int = MOST_VALUES) -> Any:
    check(data, most_values)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise JsonError(str(error).replace("msgspec.", "")) from None
    except (RecursionError, ValueError, OverflowError):
        raise JsonError("nested or numbered beyond all limits") from None
    if len(data) > _LARGE_BYTES:
        check_paths(value)
    return value


def decode_field(text: str) -> Any:
    """The value of JSON that is the text of a field, such as an annotation; else JsonError."""
    try:
        return decode(text.encode())
    except UnicodeError:
        raise JsonError("the text has a surrogate, which is no character") from None


def check(data: bytes, most_values: int = MOST_VALUES) -> None:
    """Refuse JSON with too much depth or too many values, before it is decoded.

    Brackets bound the depth; commas and brackets bound the number of values. Those in strings are
    not counted, unless there are so few of all that it does not matter.
    """
    openings = data.count(b"{") + data.count(b"[")
    if openings <= DEEPEST and openings + data.count(b",") < most_values:
        return
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outline = b"".join(data.split(b'"')[::2]).translate(None, _NOT_OUTLINE)
    brackets = outline.replace(b",", b"")
    if len(outline) - len(brackets) // 2 >= most_values:
        raise JsonError(f"more than {most_values} values")
    depth = 0
    for bracket in brackets:
        depth += _LEVELS[bracket]
        if depth > DEEPEST:
            raise JsonError(f"nested more than {DEEPEST} levels deep")


def check_paths(root: Any) -> None:
    """Refuse very long paths of fields: an error about a field contains its path."""
    stack: list[tuple[Any, int]] = [(root, 0)]
    while stack:
        value, length = stack.pop()
        if length > _LONGEST_PATH:
            raise JsonError(f"the path of a field is longer than {_LONGEST_PATH} characters")
        if isinstance(value, dict):
            stack += [
                (inner, length + len(name) + 1) for name, inner in value.items() if isinstance(inner, dict | list)
            ]
        elif isinstance(value, list):
            stack += [(inner, length + 4) for inner in value if isinstance(inner, dict | list)]


def identity(value: Any) -> Hashable:
    """A value as a key of a set or dict, so that lists of any length are compared in one pass."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted")


def identities(values: Iterable[Any]) -> set[Hashable]:
    return {identity(value) for value in values}


def may_repeat_fields(data: bytes, value: Any) -> bool:
    """A fast check: text with a repeated field has more quotes than its value encoded again."""
    return data.count(b'"') > msgspec.json.encode(value).count(b'"')


class _Fields(dict[str, Any]):
    """A decoded object with the list of its repeated fields."""

    repeated: tuple[str, ...] = ()


def _fields(pairs: list[tuple[str, Any]]) -> _Fields:
    decoded = _Fields(pairs)
    if len(decoded) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        decoded.repeated = tuple(name for name, count in counts.items() if count > 1)
    return decoded


def repeated_fields(data: bytes) -> list[str]:
    """The paths of the first repeated fields, sorted: `spec.a`, `items[0].b`."""
    paths = _repeated(json.loads(data, object_pairs_hook=_fields))
    return sorted(path for path, _ in zip(paths, range(MOST_REPORTED_FIELDS), strict=False))


_Path = tuple[Any, str] | None
"""A path as (path of the parent, last step), so that it becomes text only if it is reported."""


def _repeated(root: Any) -> Iterator[str]:
    stack: list[tuple[Any, _Path]] = [(root, None)]
    while stack:
        value, path = stack.pop()
        if isinstance(value, _Fields):
            yield from (_text((path, f".{name}")) for name in value.repeated)
            stack += [(inner, (path, f".{name}")) for name, inner in value.items() if isinstance(inner, dict | list)]
        elif isinstance(value, list):
            items = enumerate(value)
            stack += [(inner, (path, f"[{index}]")) for index, inner in items if isinstance(inner, dict | list)]


def _text(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = "".join(reversed(steps)).removeprefix(".")
    return text if len(text) <= _LONGEST_REPORTED_PATH else f"{text[:_LONGEST_REPORTED_PATH]}…"
