"""From one JSON value to another as a JSON Patch (RFC 6902): what a mutating webhook answers."""

from collections.abc import Iterator
from typing import Any

from pykueue.api.scheme import Object


def operations(before: Any, after: Any, path: str = "") -> Iterator[Object]:
    """Objects are compared field by field; a list that differs is replaced whole."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after or type(before) is not type(after):
            yield {"op": "replace", "path": path, "value": after}
        return
    for name in before.keys() - after.keys():
        yield {"op": "remove", "path": _inside(path, name)}
    for name, value in after.items():
        if name in before:
            yield from operations(before[name], value, _inside(path, name))
        else:
            yield {"op": "add", "path": _inside(path, name), "value": value}


def _inside(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
