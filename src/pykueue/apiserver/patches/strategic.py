"""Strategic merge patch: a merge patch that merges some lists by key.

It is for the kinds of Kubernetes itself. The directives are `$patch` (replace, delete, merge),
`$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys`.
"""

from typing import Any

from pykueue.api import errors
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
        merged = {name: value for name, value in merged.items() if name in retained}
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
        return [*current, *(item for item in patch if item not in current)]
    if not schema.merge_key:
        return [_without_directives(item) for item in patch]
    merged = list(current)
    for item in patch:
        _merge_item(schema, merged, item)
    return merged


def _merge_item(schema: MergeSchema, merged: list[Any], item: Any) -> None:
    key = schema.merge_key
    if not isinstance(item, dict) or key not in item:
        raise errors.bad_request(f"map: {item!r:.80} does not contain declared merge key: {key}")
    same = [index for index, other in enumerate(merged) if isinstance(other, dict) and other.get(key) == item[key]]
    if item.get("$patch") == "delete":
        for index in reversed(same):
            del merged[index]
    elif same:
        merged[same[0]] = _merge_map(schema.item(), merged[same[0]], item)
    else:
        merged.append(_merge_map(schema.item(), {}, item))


def _delete_from(merged: dict[str, Any], name: str, values: Any) -> None:
    current = merged.get(name)
    if isinstance(current, list) and isinstance(values, list):
        merged[name] = [item for item in current if item not in values]


def _reorder(schema: MergeSchema, merged: dict[str, Any], name: str, order: Any) -> None:
    """Sort the items that the order names; other items stay where they are."""
    current = merged.get(name)
    if not isinstance(current, list) or not isinstance(order, list):
        return
    key = schema.child(name).merge_key

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    identities = [identity(item) for item in order]
    ordered = iter(
        sorted(
            (item for item in current if identity(item) in identities),
            key=lambda item: identities.index(identity(item)),
        )
    )
    merged[name] = [next(ordered) if identity(item) in identities else item for item in current]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return _map_without_directives(value)
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value


def _map_without_directives(value: dict[str, Any]) -> dict[str, Any]:
    fields = {name: field for name, field in value.items() if not name.startswith("$") and field is not None}
    return {name: _without_directives(field) for name, field in fields.items()}
