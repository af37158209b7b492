"""Calls the job controllers that the change of a Workload concerns: most kinds have no jobs."""

from pykueue.api import objects
from pykueue.api import resources as kinds
from pykueue.api.scheme import Object, Resource
from pykueue.kube.controller.cache import Handler, ObjectCache, call_handlers


class WorkloadHandlers:
    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache
        self._handlers: list[tuple[Resource, Handler]] = []
        cache.on_change(kinds.WORKLOAD, self._workload_changed)

    def add(self, resource: Resource, handler: Handler) -> None:
        """Call the handler if a Workload has an owner of this kind, or if the kind has objects."""
        self._handlers.append((resource, handler))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workloads = with_former_owners(old, new)
        owners = {reference["kind"] for workload in workloads for reference in objects.owner_references(workload)}
        concerned = (
            handler
            for resource, handler in self._handlers
            if resource.kind in owners or not self._cache.is_empty(resource)
        )
        call_handlers(concerned, kinds.WORKLOAD, old, new)


def with_former_owners(old: Object | None, new: Object | None) -> list[Object]:
    """The Workload as it is, and as it was if its owners changed."""
    if new is None or old is None:
        return [workload for workload in (old, new) if workload is not None]
    is_same = old["metadata"].get("ownerReferences") == new["metadata"].get("ownerReferences")
    return [new] if is_same else [old, new]
