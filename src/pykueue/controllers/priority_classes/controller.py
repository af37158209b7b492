"""A WorkloadPriorityClass whose value changes takes the Workloads that name it along."""

from pykueue.api import resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.plan import Write
from pykueue.kube.controller.work_queue import WorkQueue


class PriorityClassController:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._mirror = mirror
        self._applier = applier
        self.queue: WorkQueue[str] = WorkQueue("workloadpriorityclass", clock)
        mirror.on_change(resources.WORKLOAD_PRIORITY_CLASS, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("value") != new.get("value")):
            self.queue.add(new["metadata"]["name"])

    async def reconcile(self, name: str) -> int:
        priority_class = self._mirror.get(resources.WORKLOAD_PRIORITY_CLASS, name)
        if priority_class is None:
            return 0
        value = int(priority_class.get("value", 0))
        for old in self._mirror.indexed(resources.WORKLOAD, "workloadPriorityClass", name):
            if old["spec"].get("priority") != value and not predicates.is_finished(old):
                new = copied(old)
                new["spec"]["priority"] = value
                await self._applier.carry_out([Write(resource=resources.WORKLOAD, old=old, new=new)])
        return 0
