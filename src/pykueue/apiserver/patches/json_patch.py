"""JSON patch (RFC 6902): rarely used, so the library does it."""

from typing import Any

import jsonpatch

from pykueue.api import errors
from pykueue.api.errors import ApiError

_MOST_OPERATIONS = 10_000


def apply(target: Any, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    if len(operations) > _MOST_OPERATIONS:
        raise errors.too_large(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    try:
        return jsonpatch.apply_patch(target, operations)
    except jsonpatch.InvalidJsonPatch as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        raise _rejected(str(error)) from error


def _rejected(why: str) -> ApiError:
    """As an API server words a patch that does not apply, such as a failed `test`."""
    details = {"causes": [{"reason": "UnexpectedServerResponse", "message": why}]}
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details)
