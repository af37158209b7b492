"""Says in a condition that an object asks for what pykueue does not do.

These are AdmissionChecks and clusters of MultiKueue (`Active` is False). The words are those of
the warning at their creation.
"""

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.rules import unsupported
from pykueue.api.scheme import Object, Resource
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Handler, ObjectCache
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes

REASON = "NotSupported"
CONDITION_TYPES = {
    resources.ADMISSION_CHECK: "Active",
    resources.MULTI_KUEUE_CLUSTER: "Active",
}


class UnsupportedController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.queue: WorkQueue[tuple[Resource, str]] = WorkQueue("unsupported", clock)
        for resource in CONDITION_TYPES:
            cache.on_change(resource, self._add_changed(resource))

    def _add_changed(self, resource: Resource) -> Handler:
        def changed(_old: Object | None, new: Object | None) -> None:
            if new is not None and unsupported.limit_of(new):
                self.queue.add((resource, new["metadata"]["name"]))

        return changed

    async def reconcile(self, key: tuple[Resource, str]) -> int:
        resource, name = key
        old = self._cache.get(resource, name)
        limit = unsupported.limit_of(old) if old else ""
        if old is None or not limit:
            return 0
        new = copied(old)
        conditions.put(
            new, CONDITION_TYPES[resource], status=False, reason=REASON, message=limit, now_ns=self._clock.now_ns()
        )
        await self._executor.apply(changes(resource, old, new))
        return 0
