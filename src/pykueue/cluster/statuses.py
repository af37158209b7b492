"""Writing a status: only what changed, and conditions whose transition time moves only when they do."""

from pykueue.api.scheme import Object, Resource
from pykueue.kube.controller import writes


def write(resource: Resource, obj: Object, status: Object) -> writes.Step:
    """Writes the status that `obj` should have, if it differs; returns the refusals."""
    patch = writes.merge_patch(obj.get("status") or {}, status)
    if not patch:
        return ()
    results = yield [
        writes.Patch(resource=resource, object=obj, patch={"status": patch}, subresource="status", guarded=False)
    ]
    return writes.refusals(results)
