"""JSON patch (RFC 6902), as the API server applies it.

A short patch can ask for much: copies of copies double an object with every operation. So the
bytes that a patch copies, the list items that it moves and the depth of the result are limited.
"""

from typing import Any

import msgspec

from pykueue.api import errors, json_text
from pykueue.api.errors import ApiError
from pykueue.api.json_copy import copied

LARGEST_COPY_BYTES = 3 * 1024 * 1024
_MOST_OPERATIONS = 10_000
_MOST_MOVED_ITEMS = 10_000_000
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_ABSENT = object()


def apply(target: Any, operations: Any, *, is_conditional: bool = False) -> Any:
    """The patched value. With `is_conditional` a failed test raises TestFailedError."""
    if not isinstance(operations, list):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MOST_OPERATIONS:
        raise errors.too_large(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    document = _Document(copied(target))
    try:
        for operation in operations:
            document.perform(_checked(operation))
        json_text.check(msgspec.json.encode(document.root))
    except _NotApplicableError as error:
        raise (error if is_conditional and isinstance(error, TestFailedError) else _rejected()) from None
    except RecursionError:
        raise errors.bad_request(f"the patch nests more than {json_text.DEEPEST} levels deep") from None
    except json_text.JsonError as error:
        raise errors.bad_request(f"the patched object is too large: {error}") from None
    return document.root


class _NotApplicableError(Exception):
    """An operation does not fit the object."""


class TestFailedError(_NotApplicableError):
    """An operation `test` found another value."""


def _checked(operation: Any) -> dict[str, Any]:
    """An operation with all that it needs; ApiError 400 otherwise."""
    if not isinstance(operation, dict):
        raise errors.bad_request("error decoding patch: an operation must be an object with op and path")
    name = operation.get("op")
    if name not in _OPERATIONS:
        raise errors.bad_request(f"error decoding patch: unknown operation {name!r:.40}; use {', '.join(_OPERATIONS)}")
    for field in ("path", "from") if name in ("move", "copy") else ("path",):
        pointer = operation.get(field)
        if not isinstance(pointer, str) or (pointer and pointer[0] != "/"):
            raise errors.bad_request(
                f'error decoding patch: {name} needs a {field} such as "/spec/a", got {pointer!r:.40}'
            )
    if name in ("add", "replace", "test") and "value" not in operation:
        raise errors.bad_request(f"error decoding patch: {name} needs a value")
    return operation


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


class _Document:
    """The object under change, and how much has been copied and moved in it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied_bytes = 0
        self._moved_items = 0

    def perform(self, operation: dict[str, Any]) -> None:
        path, value = operation["path"], operation.get("value")
        match operation["op"]:
            case "add":
                self._add(path, value)
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, value)
            case "move":
                source = operation["from"]
                if path.startswith(f"{source}/"):
                    raise _NotApplicableError
                self._add(path, self._remove(source))
            case "copy":
                self._add(path, self._copy(self._get(operation["from"])))
            case "test":
                if not _is_same(self._get(path, absent=None), value):
                    raise TestFailedError

    def _parent(self, pointer: str) -> tuple[Any, str]:
        *steps, last = _steps(pointer)
        value = self.root
        for step in steps:
            value = _child(value, step)
        return value, last

    def _get(self, pointer: str, absent: Any = _ABSENT) -> Any:
        if not pointer:
            return self.root
        parent, last = self._parent(pointer)
        if isinstance(parent, dict) and last not in parent and absent is not _ABSENT:
            return absent
        return _child(parent, last)

    def _add(self, pointer: str, value: Any) -> None:
        if not pointer:
            self.root = value
            return
        parent, last = self._parent(pointer)
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            index = len(parent) if last == "-" else _index(last, len(parent) + 1)
            self._count_moved(len(parent) - index)
            parent.insert(index, value)
        else:
            raise _NotApplicableError

    def _replace(self, pointer: str, value: Any) -> None:
        """A key that does not exist is added, as the API server does."""
        parent, last = self._parent(pointer) if pointer else (None, "")
        if isinstance(parent, list):
            parent[_index(last, len(parent))] = value
        else:
            self._add(pointer, value)

    def _remove(self, pointer: str) -> Any:
        if not pointer:
            raise _NotApplicableError
        parent, last = self._parent(pointer)
        value = _child(parent, last)
        if isinstance(parent, list):
            index = _index(last, len(parent))
            self._count_moved(len(parent) - index)
            del parent[index]
        else:
            del parent[last]
        return value

    def _copy(self, value: Any) -> Any:
        data = msgspec.json.encode(value)
        self._copied_bytes += len(data)
        if self._copied_bytes > LARGEST_COPY_BYTES:
            message = (
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied_bytes}, "
                f"exceeding the limit {LARGEST_COPY_BYTES}"
            )
            raise ApiError(422, "Invalid", message, {})
        return msgspec.json.decode(data)

    def _count_moved(self, items: int) -> None:
        self._moved_items += items
        if self._moved_items > _MOST_MOVED_ITEMS:
            message = f"the patch moves more than {_MOST_MOVED_ITEMS} items of lists; replace the list instead"
            raise ApiError(422, "Invalid", message, {})


def _is_same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON. In Python alone, 1 equals true."""
    is_equal = bool(left == right)
    return is_equal and msgspec.json.encode(left, order="sorted") == msgspec.json.encode(right, order="sorted")


def _child(value: Any, step: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list):
        return value[_index(step, len(value))]
    raise _NotApplicableError


def _index(step: str, end: int) -> int:
    is_number = step.isascii() and step.isdigit() and (step == "0" or step[0] != "0") and len(step) < 10
    if not is_number or int(step) >= end:
        raise _NotApplicableError
    return int(step)


def _rejected() -> ApiError:
    """The API server's error for a patch that does not apply; it does not give the reason."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
