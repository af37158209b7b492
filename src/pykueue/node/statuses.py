"""Writing a status: only what changed, and conditions whose transition time moves only when they do."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api.scheme import Object, Resource
from pykueue.node import times, writes


def write(resource: Resource, obj: Object, status: Object) -> writes.Step:
    """Writes the status that `obj` should have, if it differs; returns the refusals."""
    patch = writes.merge_patch(obj.get("status") or {}, status)
    if not patch:
        return ()
    results = yield [
        writes.Patch(resource=resource, object=obj, patch={"status": patch}, subresource="status", guarded=False)
    ]
    return writes.refusals(results)


def with_condition(conditions: Sequence[Object], told: Object, now: datetime) -> list[Object]:
    """The conditions with `told` (type, status, reason, message …) put in place of its predecessor or appended."""
    stamp = times.text(now)
    result: list[Object] = []
    is_placed = False
    for found in conditions:
        if found["type"] != told["type"]:
            result.append(found)
            continue
        is_placed = True
        since = found.get("lastTransitionTime", stamp) if found.get("status") == told["status"] else stamp
        result.append({"lastTransitionTime": since} | told)
    return result if is_placed else [*result, {"lastTransitionTime": stamp} | told]
