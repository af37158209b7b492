"""Sets of field paths, in the form in which `managedFields` stores them (FieldsV1).

A node is a dict of path elements (`f:name`, `k:{"name":"x"}`, `v:"x"`) to nodes. A node without
children is a member of the set. A node with children is a member if it also has the element ".".
None is the empty set.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Node = dict[str, Any]
SELF = "."
_LONGEST_READABLE = 1000


def is_member(node: Node) -> bool:
    return not node or SELF in node


def make(*, is_member: bool, children: Node) -> Node | None:
    if children:
        return {SELF: {}, **children} if is_member else children
    return {} if is_member else None


def children(node: Node) -> Iterator[tuple[str, Node]]:
    return ((element, child) for element, child in node.items() if element != SELF)


def _without_self(node: Node) -> Node:
    return {element: child for element, child in node.items() if element != SELF}


def union(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return right if left is None else left
    return _union(left, right)


def union_all(nodes: Iterable[Node | None]) -> Node | None:
    """The union of many sets. Neighbours are merged in pairs, so that no set is copied often."""
    level = list(nodes)
    while len(level) > 1:
        pairs = zip(level[::2], [*level[1::2], None], strict=False)
        level = [union(left, right) for left, right in pairs]
    return level[0] if level else None


def _union(left: Node, right: Node) -> Node:
    """`left` itself if `right` adds nothing."""
    merged = left
    for element, child in right.items():
        if element == SELF:
            continue
        both = _union(left[element], child) if element in left else child
        if element not in left or both is not left[element]:
            merged = dict(left) if merged is left else merged
            merged[element] = both
    was_member = is_member(left)
    if merged is left and (was_member or not is_member(right)):
        return left
    return make(is_member=was_member or is_member(right), children=_without_self(merged)) or {}


def difference(left: Node | None, right: Node | None) -> Node | None:
    """`left` itself if nothing of it is in `right`."""
    if left is None or right is None:
        return left
    remaining = left
    for element in _common(left, right):
        if element == SELF:
            continue
        rest = difference(left[element], right[element])
        if rest is left[element]:
            continue
        remaining = dict(left) if remaining is left else remaining
        if rest is None:
            del remaining[element]
        else:
            remaining[element] = rest
    was_member = is_member(left)
    stays_member = was_member and not is_member(right)
    if remaining is left and stays_member == was_member:
        return left
    return make(is_member=stays_member, children=_without_self(remaining))


def intersection(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return None
    common: Node = {}
    for element in _common(left, right):
        both = intersection(left[element], right[element]) if element != SELF else None
        if both is not None:
            common[element] = both
    return make(is_member=is_member(left) and is_member(right), children=common)


def _common(left: Node, right: Node) -> list[str]:
    """The elements of both, in the order of the smaller one: a small set costs little."""
    fewer, more = (left, right) if len(left) <= len(right) else (right, left)
    return [element for element in fewer if element in more]


def members(node: Node | None, prefix: str = "") -> Iterator[str]:
    """The paths of all members below a node, as error messages have them.

    Example: `.spec.containers[name="web"].image`. As in Kubernetes, the members of a level come
    before the members of deeper levels.
    """
    inner = sorted(children(node or {}), key=lambda item: item[0])
    yield from (prefix + _readable(element) for element, child in inner if is_member(child))
    for element, child in inner:
        yield from members(child, prefix + _readable(element))


def _readable(element: str) -> str:
    sort, _, rest = element.partition(":")
    if len(rest) > _LONGEST_READABLE:
        return f".{rest[:_LONGEST_READABLE]}…"
    if sort == "f":
        return f".{rest}"
    if sort == "k":
        return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(json.loads(rest).items())) + "]"
    return f"[={rest}]" if sort == "v" else f"[{rest}]"


@functools.lru_cache(maxsize=4096)
def text_key_element(name: str, value: str) -> str:
    """The path element of an item of a list that merges by this one key."""
    return key_element({name: value})


def key_element(keys: dict[str, Any]) -> str:
    """The path element of an item of a list that merges by these keys."""
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def value_element(item: Any) -> str:
    return "v:" + msgspec.json.encode(item, order="sorted").decode()
