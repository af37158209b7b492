"""The operations of Kubernetes' structured-merge-diff, on plain JSON values.

They walk a value along its merge schema: which fields it has, how two values differ, and how to
merge one into the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pykueue.apiserver.patches import field_sets
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.merge_schema import MergeSchema

_CONTAINERS = (dict, list)


def fields(schema: MergeSchema, value: Any) -> Node | None:
    """The fields that the applier of this value owns: leaves, map entries, list items."""
    if isinstance(value, dict) and not schema.is_atomic:
        children: Node = {}
        for name, field in value.items():
            inner: Node | None = {}
            if isinstance(field, _CONTAINERS):
                child = schema.child(name)
                inner = fields(child, field)
                if not child.is_declared:
                    inner = field_sets.union({}, inner)
            if inner is not None:
                children[f"f:{name}"] = inner
        return field_sets.make(is_member=not value, children=children)
    if isinstance(value, list) and (schema.keys or schema.is_set):
        return field_sets.make(is_member=not value, children=dict(_items(schema, value)))
    return {}


def _items(schema: MergeSchema, value: list[Any]) -> Any:
    for element, item in elements(schema, value).items():
        yield element, field_sets.union({}, fields(schema.item(), item)) if schema.keys else {}


def presence(schema: MergeSchema, value: Any) -> Node:
    """The fields that the creator of this value owns: `fields`, and the maps and lists above."""
    if isinstance(value, dict) and not schema.is_atomic:
        children = {
            f"f:{name}": presence(schema.child(name), field) if isinstance(field, _CONTAINERS) else {}
            for name, field in value.items()
        }
    elif isinstance(value, list) and (schema.keys or schema.is_set):
        children = {
            element: presence(schema.item(), item) if schema.keys else {}
            for element, item in elements(schema, value).items()
        }
    else:
        return {}
    return children if not children or schema.is_always_written else {field_sets.SELF: {}, **children}


def shape(schema: MergeSchema, value: Any) -> Any:
    """What `presence` depends on: names of fields and keys of items, but no other values."""
    if isinstance(value, dict):
        if schema.is_atomic:
            return None
        return tuple(
            [
                (name, shape(schema.child(name), field)) if isinstance(field, _CONTAINERS) else name
                for name, field in value.items()
            ]
        )
    if schema.keys:
        item_schema = schema.item()
        return tuple([(element, shape(item_schema, item)) for element, item in elements(schema, value).items()])
    return tuple(elements(schema, value)) if schema.is_set else None


def elements(schema: MergeSchema, items: list[Any]) -> dict[str, Any]:
    """Items by path element. Of items with the same element the last one is used."""
    if schema.is_set:
        return {field_sets.value_element(item): item for item in items}
    by_element = {}
    only_key = schema.keys[0] if len(schema.keys) == 1 else ""
    for item in items:
        if isinstance(item, dict):
            key = item.get(only_key) if only_key else None
            if isinstance(key, str):
                by_element[field_sets.text_key_element(only_key, key)] = item
            elif keys := _keys(schema, item):
                by_element[field_sets.key_element(keys)] = item
    return by_element


def _keys(schema: MergeSchema, item: dict[str, Any]) -> dict[str, Any]:
    """The keys of an item of a list; a key that is absent has its default."""
    values = {key: item[key] if key in item else schema.key_default(key) for key in schema.keys}
    return {key: value for key, value in values.items() if value is not None}


def compare(schema: MergeSchema, old: Any, new: Any) -> tuple[Node | None, Node | None]:
    """The fields that were added or modified, and the fields that were removed."""
    if old == new:
        return None, None
    if isinstance(old, dict) and isinstance(new, dict) and not schema.is_atomic:
        return _compare_children(schema.child, old, new, "f:")
    if isinstance(old, list) and isinstance(new, list) and (schema.keys or schema.is_set):
        item = schema.item()
        return _compare_children(lambda _: item, elements(schema, old), elements(schema, new), "")
    return {}, None


def _compare_children(
    schema_of: Callable[[str], MergeSchema], old: dict[str, Any], new: dict[str, Any], prefix: str
) -> tuple[Node | None, Node | None]:
    changed: Node = {}
    removed: Node = {}
    for name, value in new.items():
        if name not in old:
            changed[prefix + name] = presence(schema_of(name), value)
        elif old[name] != value:
            inner_changed, inner_removed = compare(schema_of(name), old[name], value)
            if inner_changed is not None:
                changed[prefix + name] = inner_changed
            if inner_removed is not None:
                removed[prefix + name] = inner_removed
    for name, value in old.items():
        if name not in new:
            removed[prefix + name] = presence(schema_of(name), value)
    return changed or None, removed or None


def merge(schema: MergeSchema, live: Any, applied: Any) -> Any:
    """`live` with `applied` merged in: maps, sets and keyed lists merge, others are replaced."""
    if isinstance(live, dict) and isinstance(applied, dict) and not schema.is_atomic:
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(schema.child(name), live[name], value) if name in live else value
        return merged
    if isinstance(live, list) and isinstance(applied, list) and (schema.keys or schema.is_set):
        return _merge_lists(schema, live, applied)
    return applied


def _merge_lists(schema: MergeSchema, live: list[Any], applied: list[Any]) -> list[Any]:
    live_items, applied_items = elements(schema, live), elements(schema, applied)
    merged = {
        element: merge(schema.item(), live_items[element], item) if element in live_items and schema.keys else item
        for element, item in applied_items.items()
    }
    order = _interleaved(live_items, applied_items)
    return [merged[element] if element in merged else live_items[element] for element in order]


def _interleaved(live_items: Iterable[str], applied_items: Mapping[str, Any]) -> Iterator[str]:
    """Applied items in their order. Other items stay before the applied item after them."""
    live, applied = list(live_items), list(applied_items)
    live_elements = set(live)
    shared = [element for element in reversed(applied) if element in live_elements]
    position = 0
    for element in applied:
        while position < len(live) and live[position] != element:
            here = live[position]
            if here in applied_items and (not shared or shared[-1] == here):
                break  # other applied items come before this one
            if here not in applied_items:
                yield here
            position += 1
        if position < len(live) and live[position] == element:
            position += 1
        if shared and shared[-1] == element:
            shared.pop()
        yield element
    yield from (element for element in live[position:] if element not in applied_items)


_NOTHING = object()


def remove(schema: MergeSchema, value: Any, removed: Node | None, owned: Node | None) -> Any:
    """`value` without the removed fields, except for those that are owned."""
    result = _remove(schema, value, removed, owned)
    return {} if result is _NOTHING else result


def _remove(schema: MergeSchema, value: Any, removed: Node | None, owned: Node | None) -> Any:
    """The rest of the value; nothing if this emptied a map or list."""
    if removed is None:
        return value
    if field_sets.is_member(removed) and owned is None:
        return _NOTHING
    if isinstance(value, dict):
        fields_left = {
            name: _remove(schema.child(name), field, removed.get(f"f:{name}"), (owned or {}).get(f"f:{name}"))
            for name, field in value.items()
        }
        rest: Any = {name: field for name, field in fields_left.items() if field is not _NOTHING}
    elif isinstance(value, list) and (schema.keys or schema.is_set):
        items = (
            _remove(schema.item(), item, removed.get(element), (owned or {}).get(element))
            for element, item in elements(schema, value).items()
        )
        rest = [item for item in items if item is not _NOTHING]
    else:
        return value
    return rest if rest or not value or owned is not None else _NOTHING
