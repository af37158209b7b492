"""The workload controller: reads a Workload and its neighbours, asks `workload.reconcile` and applies the answer."""

from pykueue.api import conditions, resources
from pykueue.api.scheme import Object
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.decide import WorkloadContext, decide
from pykueue.controllers.workloads.policy import LifecyclePolicy
from pykueue.engine import values
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.plan import Action, Delete, Event, changes
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import devices


class WorkloadController:
    def __init__(
        self, scheduler: Scheduler, mirror: ObjectCache, applier: Applier, *, clock: Clock, policy: LifecyclePolicy
    ) -> None:
        self._scheduler = scheduler
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("workload", clock)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)
        mirror.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        mirror.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        for resource in DEVICE_RESOURCES:
            mirror.on_change(resource, self._devices_changed)

    def _workload_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))

    def _devices_changed(self, _old: Object | None, _new: Object | None) -> None:
        for workload in self._mirror.all(resources.WORKLOAD):
            if predicates.is_admissible(workload) and devices.may_claim(workload):
                self.queue.add(key_of(workload))

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return
        obj = new or old
        assert obj is not None
        self._review_local_queue(obj)

    def _review_local_queue(self, local_queue: Object) -> None:
        for workload in self._mirror.indexed(resources.WORKLOAD, "localQueue", predicates.key(local_queue)):
            self.queue.add(key_of(workload))

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        """A ClusterQueue that goes without anybody using it leaves what waits as it is."""
        if new is None or (predicates.is_being_deleted(new) and not self._is_used(new)):
            return
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            same_activity = conditions.find(old, "Active") == conditions.find(new, "Active")
            if same_activity and predicates.is_being_deleted(old) == predicates.is_being_deleted(new):
                return
        for local_queue in self._mirror.indexed(resources.LOCAL_QUEUE, "clusterQueue", new["metadata"]["name"]):
            self._review_local_queue(local_queue)

    def _is_used(self, cluster_queue: Object) -> bool:
        name = values.ClusterQueueName(cluster_queue["metadata"]["name"])
        return self._scheduler.engine.view.has_reservations(name)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        old = self._mirror.get(resources.WORKLOAD, name, namespace)
        if old is None:
            return 0
        outcome = decide(old, self._neighbours(old), self._policy, self._clock.now_ns())
        actions: list[Action] = changes(resources.WORKLOAD, old, outcome.workload)
        if outcome.delete:
            actions.append(Delete(resource=resources.WORKLOAD, object=old))
        actions += [
            Event(about=old, reason=event.reason, message=event.message, warning=event.type == "Warning")
            for event in outcome.events
        ]
        await self._applier.carry_out(actions)
        return outcome.requeue_after_ns

    def _neighbours(self, workload: Object) -> WorkloadContext:
        namespace, queue_name = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
        local_queue = self._mirror.get(resources.LOCAL_QUEUE, queue_name, namespace)
        name = local_queue["spec"].get("clusterQueue", "") if local_queue else ""
        return WorkloadContext(
            local_queue=local_queue,
            cluster_queue_name=name,
            cluster_queue=self._mirror.get(resources.CLUSTER_QUEUE, name) if name else None,
            is_cluster_queue_active=self._scheduler.engine.view.is_active(values.ClusterQueueName(name)),
            device_fault=self._scheduler.device_fault(workload),
        )
