"""The workload controller: reads a Workload and its queues, and applies what `decide` returns."""

from pykueue.api import conditions, objects, resources, selectors
from pykueue.api.scheme import Object
from pykueue.controllers.cache import namespace_labels
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.context import LifecyclePolicy, WorkloadContext
from pykueue.controllers.workloads.decide import decide
from pykueue.controllers.workloads.unadmitted import PENDING_EVALUATION
from pykueue.engine import reasons, values
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Action, Delete, changes
from pykueue.translate import devices, messages, outcomes


class WorkloadController:
    def __init__(
        self,
        scheduler: Scheduler,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        policy: LifecyclePolicy,
    ) -> None:
        self._scheduler = scheduler
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("workload", clock)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        cache.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        for resource in DEVICE_RESOURCES:
            cache.on_change(resource, self._devices_changed)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))
        else:
            self.queue.forget(key_of(latest(old, new)))

    def _devices_changed(self, _old: Object | None, _new: Object | None) -> None:
        for workload in self._cache.all(resources.WORKLOAD):
            if predicates.is_admissible(workload) and devices.may_claim(workload):
                self.queue.add(key_of(workload))

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return
        self._add_workloads(latest(old, new))

    def _add_workloads(self, local_queue: Object) -> None:
        for workload in self._cache.indexed(resources.WORKLOAD, "localQueue", predicates.key(local_queue)):
            self.queue.add(key_of(workload))

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile its Workloads, unless the ClusterQueue is deleted while nothing uses it."""
        if new is None or (objects.is_deleted(new) and not self._is_used(new)):
            return
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            is_same_activity = conditions.find(old, "Active") == conditions.find(new, "Active")
            if is_same_activity and objects.is_deleted(old) == objects.is_deleted(new):
                return
        for local_queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", new["metadata"]["name"]):
            self._add_workloads(local_queue)

    def _is_used(self, cluster_queue: Object) -> bool:
        name = values.ClusterQueueName(cluster_queue["metadata"]["name"])
        return self._scheduler.engine.view.has_reservations(name)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        old = self._cache.get(resources.WORKLOAD, name, namespace)
        if old is None:
            return 0
        outcome = decide(old, self._context(old), self._policy, self._clock.now_ns())
        actions: list[Action] = changes(resources.WORKLOAD, old, outcome.workload)
        if outcome.delete:
            actions.append(Delete(resource=resources.WORKLOAD, object=old))
        actions += outcome.events
        await self._executor.apply(actions)
        return outcome.requeue_after_ns

    def _context(self, workload: Object) -> WorkloadContext:
        namespace, queue_name = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
        local_queue = self._cache.get(resources.LOCAL_QUEUE, queue_name, namespace)
        name = local_queue["spec"].get("clusterQueue", "") if local_queue else ""
        cluster_queue = self._cache.get(resources.CLUSTER_QUEUE, name) if name else None
        policy = cluster_queue["spec"].get("concurrentAdmissionPolicy") if cluster_queue else None
        return WorkloadContext(
            local_queue=local_queue,
            cluster_queue_name=name,
            cluster_queue=cluster_queue,
            admits_concurrently=self._policy.concurrent_admission and policy is not None,
            is_cluster_queue_active=self._scheduler.engine.view.is_active(values.ClusterQueueName(name)),
            inadmissibility=self._inadmissibility(workload, cluster_queue),
            bypassed_reason=self._bypassed_reason(workload),
            device_fault=self._scheduler.device_fault(workload),
        )

    def _inadmissibility(self, workload: Object, cluster_queue: Object | None) -> str:
        """Why the ClusterQueue cannot admit the Workload, whatever quota it has."""
        if not self._policy.unadmitted.is_granular or cluster_queue is None:
            return ""
        name = workload["metadata"]["namespace"]
        labels = namespace_labels(self._cache, name)
        if labels is None:
            return messages.pending(reasons.NamespaceMissing(name=name), outcomes.amount_text)
        requirements = selectors.from_object(cluster_queue["spec"].get("namespaceSelector"))
        if requirements is not None and not selectors.matches(requirements, labels):
            return messages.pending(reasons.NamespaceMismatch(), outcomes.amount_text)
        return self._scheduler.inadmissibility(workload)

    def _bypassed_reason(self, workload: Object) -> str:
        if not self._policy.unadmitted.is_granular:
            return ""
        reason = self._scheduler.engine.view.bypassed_reason(values.WorkloadKey(predicates.key(workload)))
        return "" if reason is None else (reason.value or PENDING_EVALUATION)
