"""Strategic merge patch: a merge patch that merges some lists by key.

It is for the kinds of Kubernetes itself. The directives are `$patch` (replace, delete, merge),
`$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys`.
"""

from collections.abc import Hashable
from typing import Any

import msgspec

from pykueue.api import errors
from pykueue.api.json_text import identities, identity
from pykueue.apiserver.patches.merge_schema import MergeSchema

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def apply(schema: MergeSchema, target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        raise errors.bad_request("invalid patch: a strategic merge patch must be an object")
    return _merge_map(schema, target if isinstance(target, dict) else {}, patch)


def _merge_map(schema: MergeSchema, target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    match patch.get("$patch"):
        case "replace":
            return _map_without_directives(patch)
        case "delete":
            return {}
    merged = dict(target)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        retained_names = identities(retained)
        merged = {name: value for name, value in merged.items() if name in retained_names}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_from(merged, name.removeprefix(_DELETE_FROM), value)
        elif not name.startswith("$"):
            _merge_field(schema.child(name), merged, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _reorder(schema, merged, name.removeprefix(_ORDER), order)
    return merged


def _merge_field(schema: MergeSchema, merged: dict[str, Any], name: str, value: Any) -> None:
    current = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        if value.get("$patch") == "delete":
            merged.pop(name, None)
        elif schema.replaces:
            merged[name] = _map_without_directives(value)
        else:
            merged[name] = _merge_map(schema, current if isinstance(current, dict) else {}, value)
    elif isinstance(value, list):
        merged[name] = _merge_list(schema, current if isinstance(current, list) else [], value)
    else:
        merged[name] = value


def _merge_list(schema: MergeSchema, current: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_without_directives(item) for item in patch if not (isinstance(item, dict) and set(item) == {"$patch"})]
    if schema.merges_as_set:
        present = identities(current)
        return [*current, *(item for item in patch if identity(item) not in present)]
    if not schema.merge_key:
        return [_without_directives(item) for item in patch]
    return _merge_items(schema, current, patch)


def _merge_items(schema: MergeSchema, current: list[Any], patch: list[Any]) -> list[Any]:
    """Merge by key. A deleted item leaves None, which no list of objects has, until the end."""
    key = schema.merge_key
    merged: list[Any] = list(current)
    positions: dict[Hashable, list[int]] = {}
    for index, other in enumerate(merged):
        if isinstance(other, dict):
            positions.setdefault(identity(other.get(key)), []).append(index)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise errors.bad_request(f"map: {_excerpt(item)} does not contain declared merge key: {key}")
        same = positions.setdefault(identity(item[key]), [])
        if item.get("$patch") == "delete":
            for index in same:
                merged[index] = None
            same.clear()
        elif same:
            merged[same[0]] = _merge_map(schema.item(), merged[same[0]], item)
        else:
            same.append(len(merged))
            merged.append(_merge_map(schema.item(), {}, item))
    return [item for item in merged if item is not None]


def _excerpt(value: Any) -> str:
    """The start of a value for a message, without writing all of it."""
    data = msgspec.json.encode(value)
    return data[:80].decode(errors="replace")


def _delete_from(merged: dict[str, Any], name: str, values: Any) -> None:
    current = merged.get(name)
    if isinstance(current, list) and isinstance(values, list):
        deleted = identities(values)
        merged[name] = [item for item in current if identity(item) not in deleted]


def _reorder(schema: MergeSchema, merged: dict[str, Any], name: str, order: Any) -> None:
    """Sort the items that the order names; other items stay where they are."""
    current = merged.get(name)
    if not isinstance(current, list) or not isinstance(order, list):
        return
    key = schema.child(name).merge_key

    def name_of(item: Any) -> Hashable:
        return identity(item.get(key) if key and isinstance(item, dict) else item)

    ranks: dict[Hashable, int] = {}
    for rank, item in enumerate(order):
        ranks.setdefault(name_of(item), rank)
    ordered = iter(sorted((item for item in current if name_of(item) in ranks), key=lambda item: ranks[name_of(item)]))
    merged[name] = [next(ordered) if name_of(item) in ranks else item for item in current]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return _map_without_directives(value)
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value


def _map_without_directives(value: dict[str, Any]) -> dict[str, Any]:
    fields = {name: field for name, field in value.items() if not name.startswith("$") and field is not None}
    return {name: _without_directives(field) for name, field in fields.items()}
