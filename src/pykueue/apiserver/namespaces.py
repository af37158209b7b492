"""Namespaces: who may create in them, and how they end with everything they hold."""

from typing import TYPE_CHECKING

from pykueue.api import errors
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.apiserver import objects
from pykueue.apiserver.calls import Target

if TYPE_CHECKING:
    from pykueue.apiserver.context import Context

FINALIZER = "kubernetes"


def check_accepts_new_content(context: "Context", target: Target, name: str) -> None:
    """ApiError 404 if the namespace is not there, 403 if it is going away."""
    namespace = objects.namespace_of(context.store, target.namespace)
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
    """A new namespace is active and held by the finalizer of Kubernetes; only the end of its life changes that."""
    if old is None:
        spec = namespace.get("spec") or {}
        finalizers = [*(spec.get("finalizers") or ())]
        namespace["spec"] = {**spec, "finalizers": finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]}
        namespace["status"] = {"phase": "Active"}
    else:
        namespace["spec"] = copied(old.get("spec") or {})
