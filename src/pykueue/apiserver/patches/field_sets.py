"""Sets of field paths, in the very form in which `managedFields` keeps them (FieldsV1).

A node is a dict of path elements (`f:name`, `k:{"name":"x"}`, `v:"x"`) to nodes. A node without children is a member
of the set; one with children is a member if it also holds ".". None is the empty set.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from pykueue.apiserver.patches.shapes import KEY_DEFAULTS

Node = dict[str, Any]
_SELF = "."


def is_member(node: Node) -> bool:
    return not node or _SELF in node


def make(*, is_member: bool, children: Node) -> Node | None:
    if children:
        return {_SELF: {}, **children} if is_member else children
    return {} if is_member else None


def children(node: Node) -> Iterator[tuple[str, Node]]:
    return ((element, child) for element, child in node.items() if element != _SELF)


def union(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return right if left is None else left
    return _union(left, right)


def _union(left: Node, right: Node) -> Node:
    """`left` itself if `right` adds nothing."""
    merged = left
    for element, child in right.items():
        if element == _SELF:
            continue
        both = _union(left[element], child) if element in left else child
        if element not in left or both is not left[element]:
            merged = dict(left) if merged is left else merged
            merged[element] = both
    was_member = is_member(left)
    if merged is left and (was_member or not is_member(right)):
        return left
    return make(is_member=was_member or is_member(right), children=dict(children(merged))) or {}


def difference(left: Node | None, right: Node | None) -> Node | None:
    """`left` itself if nothing of it is in `right`."""
    if left is None or right is None:
        return left
    kept = left
    for element, child in right.items():
        if element == _SELF or element not in left:
            continue
        rest = difference(left[element], child)
        if rest is left[element]:
            continue
        kept = dict(left) if kept is left else kept
        if rest is None:
            del kept[element]
        else:
            kept[element] = rest
    stays_member = is_member(left) and not is_member(right)
    if kept is left and stays_member == is_member(left):
        return left
    return make(is_member=stays_member, children=dict(children(kept)))


def intersection(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return None
    kept: Node = {}
    for element, child in children(left):
        both = intersection(child, right.get(element))
        if both is not None:
            kept[element] = both
    return make(is_member=is_member(left) and is_member(right), children=kept)


def members(node: Node | None, prefix: str = "") -> Iterator[str]:
    """The paths of all members below a node, as messages show them: `.spec.containers[name="web"].image`.

    In Kubernetes' order: what ends at a level comes before what goes deeper.
    """
    inner = sorted(children(node or {}), key=lambda item: item[0])
    yield from (prefix + shown(element) for element, child in inner if is_member(child))
    for element, child in inner:
        yield from members(child, prefix + shown(element))


def shown(element: str) -> str:
    sort, _, rest = element.partition(":")
    if sort == "f":
        return f".{rest}"
    if sort == "k":
        return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(json.loads(rest).items())) + "]"
    return f"[={rest}]" if sort == "v" else f"[{rest}]"


def key_element(item: Any, keys: tuple[str, ...]) -> str | None:
    """The path element of an item of a list that is a map; None if the item lacks its keys."""
    if not isinstance(item, dict):
        return None
    values = {key: item[key] if key in item else KEY_DEFAULTS.get(key) for key in keys}
    present = {key: value for key, value in values.items() if value is not None}
    return "k:" + msgspec.json.encode(present, order="sorted").decode() if present else None


def value_element(item: Any) -> str:
    return "v:" + msgspec.json.encode(item, order="sorted").decode()
