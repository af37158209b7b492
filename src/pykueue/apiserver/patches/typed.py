"""Walks of values along their shape: what fields a value has, how two values differ, how one is laid over another.

These are the typed operations of Kubernetes' structured merge, on plain JSON values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pykueue.apiserver.patches import field_sets
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.shapes import Shape


def fields(shape: Shape, value: Any) -> Node | None:
    """What someone who applies this value owns: its leaves, entries of free maps, and items of lists."""
    if isinstance(value, dict) and not shape.is_atomic:
        found: Node = {}
        for name, each in value.items():
            child = shape.child(name)
            inner = fields(child, each)
            if not child.is_declared:
                inner = field_sets.union({}, inner)
            if inner is not None:
                found[f"f:{name}"] = inner
        return field_sets.make(is_member=not value, children=found)
    if isinstance(value, list) and (shape.keys or shape.is_set):
        return field_sets.make(is_member=not value, children=dict(_items(shape, value)))
    return {}


def _items(shape: Shape, value: list[Any]) -> Any:
    for element, item in elements(shape, value).items():
        yield element, field_sets.union({}, fields(shape.item(), item)) if shape.keys else {}


def presence(shape: Shape, value: Any) -> Node:
    """What someone who brings this value into being owns: as `fields`, and each map and list on the way."""
    if isinstance(value, dict) and not shape.is_atomic:
        found = {f"f:{name}": presence(shape.child(name), each) for name, each in value.items()}
    elif isinstance(value, list) and (shape.keys or shape.is_set):
        found = {
            element: presence(shape.item(), item) if shape.keys else {}
            for element, item in elements(shape, value).items()
        }
    else:
        return {}
    return field_sets.make(is_member=not (found and shape.is_always_present), children=found) or {}


def elements(shape: Shape, items: list[Any]) -> dict[str, Any]:
    """Items by their path element; the last of equal ones counts."""
    if shape.is_set:
        return {field_sets.value_element(item): item for item in items}
    found = ((field_sets.key_element(item, shape.keys), item) for item in items)
    return {element: item for element, item in found if element is not None}


def compare(shape: Shape, old: Any, new: Any) -> tuple[Node | None, Node | None]:
    """The fields that were added or modified, and those that were removed. Equal parts cost one comparison."""
    if old == new:
        return None, None
    if isinstance(old, dict) and isinstance(new, dict) and not shape.is_atomic:
        return _compare_children(shape.child, old, new, "f:")
    if isinstance(old, list) and isinstance(new, list) and (shape.keys or shape.is_set):
        item = shape.item()
        return _compare_children(lambda _: item, elements(shape, old), elements(shape, new), "")
    return {}, None


def _compare_children(
    shape_of: Callable[[str], Shape], old: dict[str, Any], new: dict[str, Any], prefix: str
) -> tuple[Node | None, Node | None]:
    changed: Node = {}
    removed: Node = {}
    for name, value in new.items():
        if name not in old:
            changed[prefix + name] = presence(shape_of(name), value)
        elif old[name] != value:
            inner_changed, inner_removed = compare(shape_of(name), old[name], value)
            if inner_changed is not None:
                changed[prefix + name] = inner_changed
            if inner_removed is not None:
                removed[prefix + name] = inner_removed
    for name, value in old.items():
        if name not in new:
            removed[prefix + name] = presence(shape_of(name), value)
    return changed or None, removed or None


def merge(shape: Shape, live: Any, applied: Any) -> Any:
    """`applied` laid over `live`: maps and keyed lists are merged, everything else is replaced."""
    if isinstance(live, dict) and isinstance(applied, dict) and not shape.is_atomic:
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(shape.child(name), live[name], value) if name in live else value
        return merged
    if isinstance(live, list) and isinstance(applied, list) and (shape.keys or shape.is_set):
        return _merge_lists(shape, live, applied)
    return applied


def _merge_lists(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    theirs, ours = elements(shape, live), elements(shape, applied)
    merged = {
        element: merge(shape.item(), theirs[element], item) if element in theirs and shape.keys else item
        for element, item in ours.items()
    }
    return [merged[element] if element in merged else theirs[element] for element in _interleaved(theirs, ours)]


def _interleaved(theirs: Iterable[str], ours: Mapping[str, Any]) -> Iterator[str]:
    """Applied items in the order applied; the others where they were, relative to the next applied item after them."""
    present, wanted = list(theirs), list(ours)
    shared = [element for element in reversed(wanted) if element in set(present)]
    position = 0
    for element in wanted:
        while position < len(present) and present[position] != element:
            here = present[position]
            if here in ours and (not shared or shared[-1] == here):
                break  # its turn has not come: applied items come before it
            if here not in ours:
                yield here
            position += 1
        if position < len(present) and present[position] == element:
            position += 1
        if shared and shared[-1] == element:
            shared.pop()
        yield element
    yield from (element for element in present[position:] if element not in ours)


_NOTHING = object()


def remove(shape: Shape, value: Any, unwanted: Node | None, kept: Node | None) -> Any:
    """`value` without the unwanted fields, except where someone else keeps something in them."""
    result = _remove(shape, value, unwanted, kept)
    return {} if result is _NOTHING else result


def _remove(shape: Shape, value: Any, unwanted: Node | None, kept: Node | None) -> Any:
    """What is left; a map or list that this emptied is gone."""
    if unwanted is None:
        return value
    if field_sets.is_member(unwanted) and kept is None:
        return _NOTHING
    if isinstance(value, dict):
        left = {
            name: _remove(shape.child(name), each, unwanted.get(f"f:{name}"), (kept or {}).get(f"f:{name}"))
            for name, each in value.items()
        }
        remaining: Any = {name: each for name, each in left.items() if each is not _NOTHING}
    elif isinstance(value, list) and (shape.keys or shape.is_set):
        results = (
            _remove(shape.item(), item, unwanted.get(element), (kept or {}).get(element))
            for element, item in elements(shape, value).items()
        )
        remaining = [each for each in results if each is not _NOTHING]
    else:
        return value
    return remaining if remaining or not value or kept is not None else _NOTHING
