"""A copy of a JSON value that may be edited. Several times faster than `copy.deepcopy`, because JSON has no cycles."""

from typing import Any


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: copied(inner) if isinstance(inner, dict | list) else inner for name, inner in value.items()}
    if isinstance(value, list):
        return [copied(inner) if isinstance(inner, dict | list) else inner for inner in value]
    return value
