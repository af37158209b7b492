"""A controller beside Kueue's own: it calls a plan for each object of a kind that changes.

The populator and the priority booster run in it, started by `app.side_controllers`.
"""

from collections.abc import Callable

from pykueue.api.scheme import Object, Resource
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

Planner = Callable[[Object, int], writes.Plan]
"""Called with the object and the time in nanoseconds."""


class SideController:
    """`triggers` are kinds whose changes concern every object of the kind."""

    def __init__(
        self,
        resource: Resource,
        planner: Planner,
        *,
        cache: ObjectCache,
        executor: WriteExecutor,
        clock: Clock,
        triggers: tuple[Resource, ...] = (),
    ) -> None:
        self._resource = resource
        self._planner = planner
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.queue: WorkQueue[Key] = WorkQueue(resource.plural, clock)
        cache.add_kind(resource)
        cache.on_change(resource, self._changed)
        for trigger in triggers:
            cache.add_kind(trigger)
            cache.on_change(trigger, self._triggered)

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))

    def _triggered(self, _old: Object | None, _new: Object | None) -> None:
        for obj in self._cache.all(self._resource):
            self.queue.add(key_of(obj))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        obj = self._cache.get(self._resource, name, namespace)
        if obj is None:
            return 0
        plan = self._planner(obj, self._clock.now_ns())
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns
