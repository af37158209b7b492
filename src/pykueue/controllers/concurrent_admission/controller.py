"""The concurrent admission controller: reconciles the variants of parent Workloads."""

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.controllers.concurrent_admission import decide
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import variants

COMPONENT = "concurrent-admission-controller"


class ConcurrentAdmissionController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock, policy: JobPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("concurrentadmission", clock)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        cache.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        if variants.is_variant(workload):
            self.queue.add((objects.namespace(workload), variants.parent_name(workload)))
        elif variants.is_parent(workload):
            self.queue.add(key_of(workload))

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old["spec"] != new["spec"]):
            self._add_parents(new)

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile its parents if its flavors changed."""
        if new is None or (old is not None and _flavors(old) == _flavors(new)):
            return
        for local_queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", objects.name(new)):
            self._add_parents(local_queue)

    def _add_parents(self, local_queue: Object) -> None:
        for workload in self._cache.indexed(resources.WORKLOAD, "localQueue", predicates.key(local_queue)):
            if variants.is_parent(workload):
                self.queue.add(key_of(workload))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        parent = self._cache.get(resources.WORKLOAD, name, namespace)
        cluster_queue = None if parent is None else self._cluster_queue_of(parent)
        if parent is None or cluster_queue is None or not variants.is_parent(parent):
            return 0
        plan = decide.plan(
            parent,
            self._variants_of(parent),
            cluster_queue,
            self._clock.now_ns(),
            max_name_length=self._policy.max_name_length,
            unadmitted=self._policy.unadmitted,
        )
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns

    def _cluster_queue_of(self, workload: Object) -> Object | None:
        """The ClusterQueue of the Workload, if it has a `concurrentAdmissionPolicy`."""
        name = workload["spec"].get("queueName", "")
        local_queue = self._cache.get(resources.LOCAL_QUEUE, name, objects.namespace(workload))
        if local_queue is None:
            return None
        cluster_queue = self._cache.get(resources.CLUSTER_QUEUE, local_queue["spec"].get("clusterQueue", ""))
        has_policy = cluster_queue is not None and cluster_queue["spec"].get("concurrentAdmissionPolicy") is not None
        return cluster_queue if has_policy else None

    def _variants_of(self, parent: Object) -> list[Object]:
        key = f"{resources.WORKLOAD.kind}/{predicates.key(parent)}"
        return [
            workload
            for workload in self._cache.indexed(resources.WORKLOAD, "owner", key)
            if variants.parent_uid(workload) == objects.uid(parent)
        ]


def _flavors(cluster_queue: Object) -> list[list[str]]:
    groups = objects.nested_list(cluster_queue, "spec", "resourceGroups")
    return [[flavor["name"] for flavor in group.get("flavors") or ()] for group in groups]
