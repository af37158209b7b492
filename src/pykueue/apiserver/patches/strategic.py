"""Strategic merge patch: a merge patch that merges some lists by key, for the kinds of Kubernetes itself.

Understands the directives `$patch` (replace, delete, merge), `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and
`$retainKeys`.
"""

from typing import Any

from pykueue.api import errors
from pykueue.apiserver.patches.shapes import Shape

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def apply(shape: Shape, target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        raise errors.bad_request("invalid patch: a strategic merge patch must be an object")
    return _merge_map(shape, target if isinstance(target, dict) else {}, patch)


def _merge_map(shape: Shape, target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
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
            _merge_field(shape.child(name), merged, name, value)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            _reorder(shape, merged, name.removeprefix(_ORDER), order)
    return merged


def _merge_field(shape: Shape, merged: dict[str, Any], name: str, value: Any) -> None:
    current = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        if value.get("$patch") == "delete":
            merged.pop(name, None)
        else:
            merged[name] = _merge_map(shape, current if isinstance(current, dict) else {}, value)
    elif isinstance(value, list):
        merged[name] = _merge_list(shape, current if isinstance(current, list) else [], value)
    else:
        merged[name] = value


def _merge_list(shape: Shape, current: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_without_directives(item) for item in patch if not (isinstance(item, dict) and set(item) == {"$patch"})]
    if shape.is_set:
        return [*current, *(item for item in patch if item not in current)]
    if not shape.merge_key:
        return [_without_directives(item) for item in patch]
    merged = list(current)
    for item in patch:
        _merge_item(shape, merged, item)
    return merged


def _merge_item(shape: Shape, merged: list[Any], item: Any) -> None:
    key = shape.merge_key
    if not isinstance(item, dict) or key not in item:
        raise errors.bad_request(f"map: {item!r:.80} does not contain declared merge key: {key}")
    same = [index for index, each in enumerate(merged) if isinstance(each, dict) and each.get(key) == item[key]]
    if item.get("$patch") == "delete":
        for index in reversed(same):
            del merged[index]
    elif same:
        merged[same[0]] = _merge_map(shape.item(), merged[same[0]], item)
    else:
        merged.append(_merge_map(shape.item(), {}, item))


def _delete_from(merged: dict[str, Any], name: str, values: Any) -> None:
    current = merged.get(name)
    if isinstance(current, list) and isinstance(values, list):
        merged[name] = [item for item in current if item not in values]


def _reorder(shape: Shape, merged: dict[str, Any], name: str, order: Any) -> None:
    """Items that the order names come in that order; the others keep their place relative to what precedes them."""
    current = merged.get(name)
    if not isinstance(current, list) or not isinstance(order, list):
        return
    key = shape.child(name).merge_key

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    named = iter(
        sorted((each for each in current if identity(each) in wanted), key=lambda each: wanted.index(identity(each)))
    )
    merged[name] = [next(named) if identity(each) in wanted else each for each in current]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return _map_without_directives(value)
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value


def _map_without_directives(value: dict[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in value.items() if not name.startswith("$") and each is not None}
    return {name: _without_directives(each) for name, each in kept.items()}
