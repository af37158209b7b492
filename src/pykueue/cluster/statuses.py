"""Writes a status: only what changed."""

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.kube.controller import writes


def write(resource: Resource, obj: Object, status: Object) -> writes.Step:
    """Write the status that `obj` should have, if it differs; return the refusals."""
    patch = writes.merge_patch(objects.status(obj), status)
    if not patch:
        return ()
    results = yield [
        writes.Patch(resource=resource, object=obj, patch={"status": patch}, subresource="status", guarded=False)
    ]
    return writes.refusals(results)
