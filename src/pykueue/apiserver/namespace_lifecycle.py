"""Namespaces in admission, as Kubernetes' NamespaceLifecycle plugin and namespace strategy do it.

`writing` calls it; `controllers/namespaces.py` deletes the contents of a terminating namespace.
"""

from pykueue.api import errors, objects
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.store.rows import StoreKey
from pykueue.apiserver.store.store import Store

FINALIZER = "kubernetes"


def check_accepts_new_content(store: Store, target: ResourceTarget, name: str) -> None:
    """ApiError 404 if the namespace does not exist, 403 if it is being deleted."""
    namespace = store.head(StoreKey("", "namespaces", "", target.namespace))
    if namespace is None:
        raise errors.not_found("", "namespaces", target.namespace)
    if namespace.meta.deletion_timestamp:
        why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        refusal = errors.forbidden(target.kind.group, target.kind.plural, name, why)
        assert refusal.details is not None
        refusal.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise refusal


def prepare(namespace: Object, old: Object | None) -> None:
    """Set phase and finalizer of a new namespace. An update does not change the spec."""
    if old is not None:
        namespace["spec"] = copied(objects.spec(old))
        return
    spec = objects.spec(namespace)
    finalizers = [*(spec.get("finalizers") or ())]
    namespace["spec"] = {**spec, "finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]}
    namespace["status"] = {"phase": "Active"}
