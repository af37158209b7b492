"""Keeps flavors, admission checks and topologies by a finalizer while an object refers to them."""

from collections.abc import Iterable

from pykueue.api import objects, resources
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.scheme import Object, Resource
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Handler, ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Update

REFERRERS = {
    resources.RESOURCE_FLAVOR: resources.CLUSTER_QUEUE,
    resources.ADMISSION_CHECK: resources.CLUSTER_QUEUE,
    resources.TOPOLOGY: resources.RESOURCE_FLAVOR,
}
"""The kind that refers to each kind with a finalizer."""


class InUseController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[tuple[Resource, str]] = WorkQueue("in-use", clock)
        for resource, referrer in REFERRERS.items():
            cache.on_change(resource, self._add_changed(resource))
            cache.on_change(referrer, self._add_released(resource))

    def _add_changed(self, resource: Resource) -> Handler:
        def changed(_old: Object | None, new: Object | None) -> None:
            if new is not None:
                self.queue.add((resource, new["metadata"]["name"]))

        return changed

    def _add_released(self, resource: Resource) -> Handler:
        def changed(old: Object | None, new: Object | None) -> None:
            before, after = set(references(resource, old)), set(references(resource, new))
            for name in before - after:
                self.queue.add((resource, name))

        return changed

    async def reconcile(self, key: tuple[Resource, str]) -> int:
        resource, name = key
        old = self._cache.get(resource, name)
        if old is None:
            return 0
        finalizers = objects.finalizers(old)
        if objects.is_deleted(old):
            is_used = any(name in references(resource, obj) for obj in self._cache.all(REFERRERS[resource]))
            remaining = [finalizer for finalizer in finalizers if is_used or finalizer != RESOURCE_IN_USE]
        elif RESOURCE_IN_USE in finalizers:
            remaining = finalizers
        else:
            remaining = [*finalizers, RESOURCE_IN_USE]
        if remaining != finalizers:
            new = {**old, "metadata": {**old["metadata"], "finalizers": remaining}}
            await self._executor.apply([Update(resource=resource, old=old, new=new)])
        return 0


def references(resource: Resource, obj: Object | None) -> Iterable[str]:
    """The names of this kind that the object refers to."""
    if obj is None:
        return []
    spec = obj.get("spec") or {}
    if resource == resources.RESOURCE_FLAVOR:
        return [flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]]
    if resource == resources.ADMISSION_CHECK:
        strategy = spec.get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks") or ()]
    return [spec["topologyName"]] if spec.get("topologyName") else []
