"""Flavors, checks and topologies that something refers to cannot go: a finalizer holds them until nothing does."""

from collections.abc import Iterable

from pykueue.api import objects, resources
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.scheme import Object, Resource
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Handler, ObjectCache
from pykueue.kube.controller.plan import Write
from pykueue.kube.controller.work_queue import WorkQueue

HELD = {
    resources.RESOURCE_FLAVOR: resources.CLUSTER_QUEUE,
    resources.ADMISSION_CHECK: resources.CLUSTER_QUEUE,
    resources.TOPOLOGY: resources.RESOURCE_FLAVOR,
}
"""What is held, and the kind that refers to it."""


class InUseController:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._mirror = mirror
        self._applier = applier
        self.queue: WorkQueue[tuple[Resource, str]] = WorkQueue("in-use", clock)
        for held, referrer in HELD.items():
            mirror.on_change(held, self._watch_held(held))
            mirror.on_change(referrer, self._watch_referrer(held))

    def _watch_held(self, held: Resource) -> Handler:
        def changed(_old: Object | None, new: Object | None) -> None:
            if new is not None:
                self.queue.add((held, new["metadata"]["name"]))

        return changed

    def _watch_referrer(self, held: Resource) -> Handler:
        def changed(old: Object | None, new: Object | None) -> None:
            before, after = set(references(held, old)), set(references(held, new))
            for name in before - after:
                self.queue.add((held, name))

        return changed

    async def reconcile(self, key: tuple[Resource, str]) -> int:
        held, name = key
        old = self._mirror.get(held, name)
        if old is None:
            return 0
        finalizers = old["metadata"].get("finalizers") or []
        if objects.is_deleted(old):
            used = any(name in references(held, obj) for obj in self._mirror.all(HELD[held]))
            wanted = finalizers if used else [each for each in finalizers if each != RESOURCE_IN_USE]
        elif RESOURCE_IN_USE in finalizers:
            wanted = finalizers
        else:
            wanted = [*finalizers, RESOURCE_IN_USE]
        if wanted != finalizers:
            new = {**old, "metadata": {**old["metadata"], "finalizers": wanted}}
            await self._applier.carry_out([Write(resource=held, old=old, new=new)])
        return 0


def references(held: Resource, obj: Object | None) -> Iterable[str]:
    """Names of that kind that the object refers to."""
    if obj is None:
        return []
    spec = obj.get("spec") or {}
    if held == resources.RESOURCE_FLAVOR:
        return [flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]]
    if held == resources.ADMISSION_CHECK:
        strategy = spec.get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks") or ()]
    return [spec["topologyName"]] if spec.get("topologyName") else []
