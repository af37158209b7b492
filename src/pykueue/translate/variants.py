"""Parents and variants of concurrent admission: Workloads, told apart by labels and owners.

A parent is the Workload of a job. Its variants are Workloads that it owns, one for each flavor of
the ClusterQueue; the scheduler tries them instead of the parent.
"""

from pykueue.api import objects, resources
from pykueue.api.labels import CONCURRENT_ADMISSION_PARENT, WORKLOAD_ALLOWED_RESOURCE_FLAVORS
from pykueue.api.scheme import Object


def is_parent(workload: Object) -> bool:
    return objects.labels(workload).get(CONCURRENT_ADMISSION_PARENT) == "true"


def is_variant(workload: Object) -> bool:
    return _parent(workload) is not None


def parent_uid(workload: Object) -> str:
    """The uid of the parent of a variant; "" if the Workload is no variant."""
    parent = _parent(workload)
    return "" if parent is None else str(parent.get("uid", ""))


def parent_name(workload: Object) -> str:
    parent = _parent(workload)
    return "" if parent is None else str(parent["name"])


def _parent(workload: Object) -> Object | None:
    for owner in objects.owner_references(workload):
        if owner["kind"] == resources.WORKLOAD.kind and owner["apiVersion"] == resources.WORKLOAD.api_version:
            return owner
    return None


def allowed_flavors(workload: Object) -> tuple[str, ...] | None:
    """The flavors in the annotation of a variant; None without the annotation."""
    text = objects.annotations(workload).get(WORKLOAD_ALLOWED_RESOURCE_FLAVORS)
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def flavor(workload: Object) -> str:
    """The flavor that a variant was created for."""
    allowed = allowed_flavors(workload)
    return allowed[0] if allowed else ""
