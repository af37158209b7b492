"""Updates the priority of Workloads when the value of their WorkloadPriorityClass changes."""

from pykueue.api import objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Update


class PriorityClassController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[str] = WorkQueue("workloadpriorityclass", clock)
        self._changed_names: set[str] = set()
        """The classes whose value has changed."""
        cache.on_change(resources.WORKLOAD_PRIORITY_CLASS, self._changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        name = objects.name(latest(old, new))
        if new is None:
            self._changed_names.discard(name)
        elif old is None:
            self.queue.add(name)
        elif old.get("value") != new.get("value"):
            self._changed_names.add(name)
            self.queue.add(name)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        """A Workload that was being created when its class changed has the former value."""
        if old is None and new is not None and self._changed_names:
            name = (new["spec"].get("priorityClassRef") or {}).get("name", "")
            if name in self._changed_names:
                self.queue.add(name)

    async def reconcile(self, name: str) -> int:
        priority_class = self._cache.get(resources.WORKLOAD_PRIORITY_CLASS, name)
        if priority_class is None:
            return 0
        value = int(priority_class.get("value", 0))
        for old in self._cache.indexed(resources.WORKLOAD, "workloadPriorityClass", name):
            if old["spec"].get("priority") != value and not predicates.is_finished(old):
                new = copied(old)
                new["spec"]["priority"] = value
                await self._executor.apply([Update(resource=resources.WORKLOAD, old=old, new=new)])
        return 0
