"""Compares a result with the recording and lists the differences by path. Used by every replay."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pykueue.conformance.corpus import Case

_LONGEST_TEXT = 300


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path or 'answer'}: expected {_shortened(self.expected)}, got {_shortened(self.actual)}"


def between(expected: Any, actual: Any, path: str = "") -> list[Difference]:
    return list(_walk(expected, actual, path))


def _walk(expected: Any, actual: Any, path: str) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            where = f"{path}.{key}" if path else str(key)
            yield from _walk(expected.get(key, ABSENT), actual.get(key, ABSENT), where)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from _walk(left, right, f"{path}[{index}]")
    elif expected != actual:
        yield Difference(path=path, expected=expected, actual=actual)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


Runner = Callable[[Case], list[Difference]]
"""Replays one case and returns the differences; a case without differences passed."""
