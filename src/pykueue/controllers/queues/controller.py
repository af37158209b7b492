"""Writes the statuses of ClusterQueues, LocalQueues and Cohorts from the state of the engine.

Admissions come in bursts, and each changes the counts. A status is written a second after the
first change of a burst and then has the latest counts. Counts are background writes: under load
they are written less often.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Action, changes
from pykueue.translate import queue_report

BURST_NS = SECOND_NS


class QueueControllers:
    def __init__(self, scheduler: Scheduler, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._scheduler = scheduler
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._background = scheduler.background
        self._begun: set[tuple[WorkQueue[Any], Key | str]] = set()
        """Statuses that a background write has begun for, until they are reconciled."""
        self._statuses: dict[tuple[WorkQueue[Any], Key | str], Object] = {}
        """The statuses as they were reconciled last."""
        self.cluster_queues: WorkQueue[str] = WorkQueue("clusterqueue", clock)
        self.cohorts: WorkQueue[str] = WorkQueue("cohort", clock)
        self.local_queues: WorkQueue[Key] = WorkQueue("localqueue", clock)
        self.on_activity_change: list[Callable[[str], None]] = []
        """Called with a ClusterQueue whose Active condition was written."""
        cache.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        cache.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.RESOURCE_FLAVOR, self._any_queue_may_change)
        cache.on_change(resources.ADMISSION_CHECK, self._any_queue_may_change)
        cache.on_change(resources.TOPOLOGY, self._any_queue_may_change)
        cache.on_change(resources.COHORT, self._cohort_changed)
        scheduler.on_decision.append(self._add_soon)

    # Changes

    def _add_soon(self, name: str) -> None:
        """Write the counts of a ClusterQueue and its LocalQueues when there is room for them."""
        cluster_queue = self._cache.get(resources.CLUSTER_QUEUE, name)
        if cluster_queue is not None and objects.is_deleted(cluster_queue):
            self.cluster_queues.add_unless_due(name, BURST_NS)
        else:
            self._submit(self.cluster_queues, name)
        for queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", name):
            self._submit(self.local_queues, key_of(queue))
        if self._scheduler.shares_fairly:
            for cohort in self._cache.all(resources.COHORT):
                self._submit(self.cohorts, objects.name(cohort))

    def _submit(self, queue: WorkQueue[Any], key: Key | str) -> None:
        entry = (queue, key)
        if entry not in self._begun and not self._background.is_waiting(entry):
            self._background.submit(entry, partial(self._begin, queue, key))

    def _begin(self, queue: WorkQueue[Any], key: Key | str) -> None:
        self._begun.add((queue, key))
        queue.add_unless_due(key, BURST_NS)

    async def _write(
        self, queue: WorkQueue[Any], key: Key | str, actions: list[Action], status: Object | None = None
    ) -> None:
        """Apply the changes of a status, which may be none."""
        entry = (queue, key)
        if status is None:
            self._statuses.pop(entry, None)
        else:
            self._statuses[entry] = status
        if entry in self._begun:
            self._begun.discard(entry)
            if not actions:
                self._background.unused(entry)
        await self._executor.apply(actions)

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        cluster_queue = latest(old, new)
        name = objects.name(cluster_queue)
        is_same = old is not None and new is not None and old.get("spec") == new.get("spec")
        if not is_same or objects.is_deleted(cluster_queue):
            self.cluster_queues.add(name)
        if not is_same or conditions.find(old or {}, "Active") != conditions.find(new or {}, "Active"):
            for queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", name):
                self.local_queues.add(key_of(queue))
        self._check_status(self.cluster_queues, name, old, new)

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self.local_queues.add(key_of(new))
            self._add_soon(new["spec"].get("clusterQueue", ""))
        elif old is not None and new is None:
            self._add_soon(old["spec"].get("clusterQueue", ""))
        self._check_status(self.local_queues, key_of(latest(old, new)), old, new)

    def _check_status(self, queue: WorkQueue[Any], key: Key | str, old: Object | None, new: Object | None) -> None:
        """Write a status again that is not the last one: a write of ours that the API seemed not
        to answer may take effect after a newer one.
        """
        if new is None:
            self._statuses.pop((queue, key), None)
        elif old is not None and new.get("status") not in (old.get("status"), self._statuses.get((queue, key))):
            self._submit(queue, key)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        names: dict[str, None] = {}
        for workload in (old, new):
            if workload is None:
                continue
            if reserved := predicates.cluster_queue_reserved(workload):
                names[reserved] = None
            namespace, queue_name = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
            queue = self._cache.get(resources.LOCAL_QUEUE, queue_name, namespace)
            if queue is not None:
                names[queue["spec"].get("clusterQueue", "")] = None
        for name in names:
            self._add_soon(name)

    def _cohort_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._any_queue_may_change(old, new)
        self._check_status(self.cohorts, objects.name(latest(old, new)), old, new)

    def _any_queue_may_change(self, _old: Object | None, _new: Object | None) -> None:
        for queue in self._cache.all(resources.CLUSTER_QUEUE):
            name = objects.name(queue)
            self.cluster_queues.add_unless_due(name, BURST_NS)
            for local_queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", name):
                self.local_queues.add_unless_due(key_of(local_queue), BURST_NS)

    # Reconciling

    async def reconcile_cluster_queue(self, name: str) -> int:
        old = self._cache.get(resources.CLUSTER_QUEUE, name)
        view = self._scheduler.engine.view
        queue = view.cluster_queue(values.ClusterQueueName(name))
        if old is None or queue is None:
            await self._write(self.cluster_queues, name, [])
            return 0
        new = copied(old)
        finalizers = objects.finalizers(new)
        if not objects.is_deleted(old) and RESOURCE_IN_USE not in finalizers:
            new["metadata"]["finalizers"] = [*finalizers, RESOURCE_IN_USE]
        elif objects.is_deleted(old) and RESOURCE_IN_USE in finalizers and not queue.reservation_count:
            new["metadata"]["finalizers"] = [finalizer for finalizer in finalizers if finalizer != RESOURCE_IN_USE]
            await self._write(self.cluster_queues, name, changes(resources.CLUSTER_QUEUE, old, new))
            return 0
        new.setdefault("status", {}).update(queue_report.cluster_queue(view, queue))
        if queue.share is None:
            new["status"].pop("fairSharing", None)
        else:
            new["status"]["fairSharing"] = {"weightedShare": queue.share.rounded}
        status, reason, message = queue_report.activity(queue.inactivity)
        now_ns = self._clock.now_ns()
        is_transition = conditions.put(new, "Active", status=status, reason=reason, message=message, now_ns=now_ns)
        await self._write(self.cluster_queues, name, changes(resources.CLUSTER_QUEUE, old, new), new["status"])
        if is_transition:
            for notify in self.on_activity_change:
                notify(name)
        return 0

    async def reconcile_cohort(self, name: str) -> int:
        """Write the status of a Cohort, which exists only with fair sharing."""
        old = self._cache.get(resources.COHORT, name)
        cohort = self._scheduler.engine.view.cohort(name)
        if old is None or cohort is None or cohort.share is None:
            await self._write(self.cohorts, name, [])
            return 0
        new = copied(old)
        new.setdefault("status", {})["fairSharing"] = {"weightedShare": cohort.share.rounded}
        await self._write(self.cohorts, name, changes(resources.COHORT, old, new), new["status"])
        return 0

    async def reconcile_local_queue(self, key: Key) -> int:
        namespace, name = key
        old = self._cache.get(resources.LOCAL_QUEUE, name, namespace)
        if old is None:
            await self._write(self.local_queues, key, [])
            return 0
        new = copied(old)
        is_stopped = old["spec"].get("stopPolicy", "None") != "None"
        queue_name = old["spec"].get("clusterQueue", "")
        cluster_queue = self._cache.get(resources.CLUSTER_QUEUE, queue_name)
        status, reason, message = _local_queue_activity(cluster_queue, is_stopped=is_stopped)
        view = self._scheduler.engine.view
        queue = view.cluster_queue(values.ClusterQueueName(queue_name))
        local_queue = values.LocalQueueKey(f"{namespace}/{name}")
        queue_status = new.setdefault("status", {})
        if queue is not None and (cluster_queue is not None or is_stopped):
            queue_status.update(queue_report.local_queue(view, queue, local_queue))
        else:
            pending = view.pending_count(local_queue)
            queue_status.update({"pendingWorkloads": pending, "reservingWorkloads": 0, "admittedWorkloads": 0})
            queue_status.pop("flavorsReservation", None)
            queue_status.pop("flavorsUsage", None)
        conditions.put(new, "Active", status=status, reason=reason, message=message, now_ns=self._clock.now_ns())
        await self._write(self.local_queues, key, changes(resources.LOCAL_QUEUE, old, new), queue_status)
        return 0


def _local_queue_activity(cluster_queue: Object | None, *, is_stopped: bool) -> tuple[bool, str, str]:
    if is_stopped:
        return False, "Stopped", "LocalQueue is stopped"
    if cluster_queue is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if not conditions.is_true(cluster_queue, "Active"):
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"
