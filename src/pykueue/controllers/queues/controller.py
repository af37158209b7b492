"""Statuses of ClusterQueues, LocalQueues and Cohorts, written when the engine's view of them changes.

Admissions come in bursts and every one changes the counts: a queue's status is written a moment after the first change and
then shows the last.
"""

from collections.abc import Callable

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.plan import changes
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import queue_report

BURST_NS = SECOND_NS


class QueueControllers:
    def __init__(self, scheduler: Scheduler, mirror: ObjectCache, applier: Applier, clock: Clock) -> None:
        self._scheduler = scheduler
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self.cluster_queues: WorkQueue[str] = WorkQueue("clusterqueue", clock)
        self.cohorts: WorkQueue[str] = WorkQueue("cohort", clock)
        self.local_queues: WorkQueue[Key] = WorkQueue("localqueue", clock)
        self.on_activity_change: list[Callable[[str], None]] = []
        """Told of a ClusterQueue whose Active condition was written."""
        mirror.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        mirror.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)
        mirror.on_change(resources.RESOURCE_FLAVOR, self._any_queue_may_change)
        mirror.on_change(resources.ADMISSION_CHECK, self._any_queue_may_change)
        mirror.on_change(resources.TOPOLOGY, self._any_queue_may_change)
        mirror.on_change(resources.COHORT, self._any_queue_may_change)
        scheduler.watchers.append(self._decided)

    # What brings a queue's status up for review.

    def _decided(self, name: values.ClusterQueueName) -> None:
        self._soon(name)

    def _soon(self, name: str) -> None:
        self.cluster_queues.add_unless_due(name, BURST_NS)
        for queue in self._mirror.indexed(resources.LOCAL_QUEUE, "clusterQueue", name):
            self.local_queues.add_unless_due(key_of(queue), BURST_NS)
        if self._scheduler.shares_fairly:
            for cohort in self._mirror.all(resources.COHORT):
                self.cohorts.add_unless_due(cohort["metadata"]["name"], BURST_NS)

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        name = obj["metadata"]["name"]
        is_same = old is not None and new is not None and old.get("spec") == new.get("spec")
        if not is_same or predicates.is_being_deleted(obj):
            self.cluster_queues.add(name)
        if not is_same or conditions.find(old or {}, "Active") != conditions.find(new or {}, "Active"):
            for queue in self._mirror.indexed(resources.LOCAL_QUEUE, "clusterQueue", name):
                self.local_queues.add(key_of(queue))

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self.local_queues.add(key_of(new))
            self._soon(new["spec"].get("clusterQueue", ""))
        elif old is not None and new is None:
            self._soon(old["spec"].get("clusterQueue", ""))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        for workload in (old, new):
            if workload is None:
                continue
            reserved = predicates.cluster_queue_reserved(workload)
            if reserved:
                self._soon(reserved)
            namespace, queue_name = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
            queue = self._mirror.get(resources.LOCAL_QUEUE, queue_name, namespace)
            if queue is not None:
                self._soon(queue["spec"].get("clusterQueue", ""))

    def _any_queue_may_change(self, _old: Object | None, _new: Object | None) -> None:
        for queue in self._mirror.all(resources.CLUSTER_QUEUE):
            self._soon(queue["metadata"]["name"])

    # Reconciling.

    async def reconcile_cluster_queue(self, name: str) -> int:
        old = self._mirror.get(resources.CLUSTER_QUEUE, name)
        view = self._scheduler.engine.view
        queue = view.cluster_queue(values.ClusterQueueName(name))
        if old is None or queue is None:
            return 0
        new = copied(old)
        finalizers = new["metadata"].get("finalizers") or []
        if not predicates.is_being_deleted(old) and predicates.RESOURCE_IN_USE not in finalizers:
            new["metadata"]["finalizers"] = [*finalizers, predicates.RESOURCE_IN_USE]
        elif (
            predicates.is_being_deleted(old)
            and predicates.RESOURCE_IN_USE in finalizers
            and not queue.reservation_count
        ):
            new["metadata"]["finalizers"] = [each for each in finalizers if each != predicates.RESOURCE_IN_USE]
            await self._applier.carry_out(changes(resources.CLUSTER_QUEUE, old, new))
            return 0
        new.setdefault("status", {}).update(queue_report.cluster_queue(view, queue))
        if queue.share is None:
            new["status"].pop("fairSharing", None)
        else:
            new["status"]["fairSharing"] = {"weightedShare": queue.share.rounded}
        status, reason, message = queue_report.activity(queue.inactivity)
        now_ns = self._clock.now_ns()
        moved = conditions.put(new, "Active", status=status, reason=reason, message=message, now_ns=now_ns)
        await self._applier.carry_out(changes(resources.CLUSTER_QUEUE, old, new))
        if moved:
            for watcher in self.on_activity_change:
                watcher(name)
        return 0

    async def reconcile_cohort(self, name: str) -> int:
        """Cohorts have a status only under fair sharing."""
        old = self._mirror.get(resources.COHORT, name)
        cohort = self._scheduler.engine.view.cohort(name)
        if old is None or cohort is None or cohort.share is None:
            return 0
        new = copied(old)
        new.setdefault("status", {})["fairSharing"] = {"weightedShare": cohort.share.rounded}
        await self._applier.carry_out(changes(resources.COHORT, old, new))
        return 0

    async def reconcile_local_queue(self, key: Key) -> int:
        namespace, name = key
        old = self._mirror.get(resources.LOCAL_QUEUE, name, namespace)
        if old is None:
            return 0
        new = copied(old)
        is_stopped = old["spec"].get("stopPolicy", "None") != "None"
        queue_name = old["spec"].get("clusterQueue", "")
        cluster_queue = self._mirror.get(resources.CLUSTER_QUEUE, queue_name)
        status, reason, message = _local_queue_activity(cluster_queue, is_stopped=is_stopped)
        view = self._scheduler.engine.view
        queue = view.cluster_queue(values.ClusterQueueName(queue_name))
        local_queue = values.LocalQueueKey(f"{namespace}/{name}")
        shown = new.setdefault("status", {})
        if queue is not None and (cluster_queue is not None or is_stopped):
            shown.update(queue_report.local_queue(view, queue, local_queue))
        else:
            pending = view.pending_count(local_queue)
            shown.update({"pendingWorkloads": pending, "reservingWorkloads": 0, "admittedWorkloads": 0})
            shown.pop("flavorsReservation", None)
            shown.pop("flavorsUsage", None)
        conditions.put(new, "Active", status=status, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._applier.carry_out(changes(resources.LOCAL_QUEUE, old, new))
        return 0


def _local_queue_activity(cluster_queue: Object | None, *, is_stopped: bool) -> tuple[bool, str, str]:
    if is_stopped:
        return False, "Stopped", "LocalQueue is stopped"
    if cluster_queue is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if not conditions.is_true(cluster_queue, "Active"):
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"
