"""What calls cost: the figures of cel-go and of Kubernetes' libraries.

`limits` says how much an expression may cost.

cel-go counts a call as 1 if it does not know the types of its arguments before it runs. Here the
values decide, so that an operator costs the same on `object` as on a list of known type.
"""

import math
from typing import Any

from pykueue.api.cel import values
from pykueue.api.cel.values import size

IDENT = 1
LIST = 10
MAP = 30
STRUCT = 40
AUTHORIZER_CHECK = 35_000
"""An expression may do two checks, not three. A tenth of Kubernetes' cost, as the limit is."""


PARSING = 8
ABSORBED_ERROR = 8
MATCH = 30
PRINTING = 10
"""What Python takes longer for than Go: reading a text, catching an error, a match, an item."""


def traversal(value: Any, factor: int = 1) -> int:
    """A tenth of the size of a value, rounded up."""
    return -(-size(value) * factor // 10)


def first(value: Any, *_: Any) -> int:
    return traversal(value)


def parsing_twice(text: Any, *_: Any) -> int:
    return traversal(text, 2) + PARSING


def parsing(text: Any, *_: Any) -> int:
    return traversal(text) + PARSING


def comparison(left: Any, right: Any) -> int:
    return -(-min(size(left), size(right)) // 10)


def equality(left: Any, right: Any) -> int:
    if isinstance(left, dict | list) and isinstance(right, dict | list):
        return comparison(left, right) + 2 * nested(left)
    return 1 if isinstance(left, values.Opaque) else comparison(left, right)


def concatenation(left: Any, right: Any) -> int:
    return -(-(size(left) + size(right)) // 10)


def membership(_: Any, items: Any) -> int:
    return size(items) + nested_items(items)


def containment(text: Any, part: Any) -> int:
    return traversal(text) * traversal(part)


def matching(text: Any, pattern: Any, *_: Any) -> int:
    return -(-(1 + size(text)) // 10) * -(-size(pattern) // 4) + PARSING


def matches(texts: Any) -> int:
    return MATCH * len(texts)


def tree(value: Any, *_: Any) -> int:
    """Of reading a whole value."""
    if isinstance(value, str):
        return len(value.encode()) // 10 if not value.isascii() else len(value) // 10
    if isinstance(value, bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(tree, value))
    if isinstance(value, dict):
        return sum(tree(key) + tree(item) for key, item in value.items())
    return 1


def allocation(result: Any) -> int:
    """Of a list that a function makes."""
    return size(result) + 1 + LIST


def self_comparison(items: Any, *_: Any) -> int:
    """Of `distinct` and `sort`, as if each item were compared with each."""
    square = len(items) ** 2
    factor = 2.1 if items and isinstance(items[0], str | bytes) else 2.0
    return math.floor(square * factor) + 1 + LIST + len(items) * nested_items(items)


def nested(value: Any) -> int:
    """The items of a list or map and of those inside of it, and tenths of their texts.

    cel-go counts a value inside of another as 1, however large it is. Comparing takes as long as
    there are items, so the items are counted too.
    """
    total, stack = 0, [value] if isinstance(value, dict | list) else []
    while stack:
        part = stack.pop()
        total += len(part)
        for item in part.values() if isinstance(part, dict) else part:
            if isinstance(item, str):
                total += len(item) // 10
            elif isinstance(item, dict | list):
                stack.append(item)
    return total


def nested_items(items: Any) -> int:
    """What `nested` counts beyond the items of a list themselves."""
    return nested(items) - len(items) if isinstance(items, list) else 0
