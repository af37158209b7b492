"""JSON patch (RFC 6902), done by the jsonpatch library."""

import types
from typing import Any

import jsonpatch

from pykueue.api import errors
from pykueue.api.errors import ApiError

_MOST_OPERATIONS = 10_000


def apply(target: Any, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MOST_OPERATIONS:
        raise errors.too_large(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    try:
        return _Patch(operations).apply(target)
    except jsonpatch.InvalidJsonPatch as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise _rejected() from error


class _Replace(jsonpatch.ReplaceOperation):
    """Adds a key that does not exist, as the API server does."""

    def apply(self, obj: Any) -> Any:
        parent, key = self.pointer.to_last(obj)
        if isinstance(parent, dict) and key is not None and key not in parent and "value" in self.operation:
            parent[key] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Patch(jsonpatch.JsonPatch):
    operations = types.MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})


def _rejected() -> ApiError:
    """The API server's error for a patch that does not apply; it does not give the reason."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
