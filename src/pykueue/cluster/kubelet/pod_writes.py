"""The writes of the kubelet to a pod, and which of their failures may be repeated."""

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes

_RETRIED_CODES = frozenset({429, 500, 502, 503, 504})


def may_succeed_later(done: writes.Done) -> bool:
    """Whether the API failed.

    What it refuses (the pod is gone, the status is invalid) it refuses again.
    """
    return any(isinstance(error, ApiError) and error.code in _RETRIED_CODES for error in done.errors)


def removal(pod: Object) -> writes.Sync:
    results = yield [writes.Delete(resource=resources.POD, object=pod, propagation_policy="", grace_period_seconds=0)]
    return writes.Done(errors=writes.refusals(results))


def patch(pod: Object, patch: Object, subresource: str = "") -> writes.Sync:
    results = yield [
        writes.Patch(
            resource=resources.POD, object=pod, patch=patch, subresource=subresource, guarded=False, by_key=True
        )
    ]
    return writes.Done(errors=writes.refusals(results))
