"""The LeaderWorkerSet controller: one Workload for each group, and labels on its pods.

Neither a LeaderWorkerSet nor its StatefulSets can be suspended. Their pods are created with a
scheduling gate, and the pod controller removes the gates of a group when its Workload is admitted.
"""

from pykueue.api import objects, resources
from pykueue.api.labels import POD_SUSPENDING_PARENT
from pykueue.api.scheme import Object
from pykueue.controllers.cache import namespace_labels, priority_classes, split_key
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.jobs.missing_classes import MissingPriorityClasses
from pykueue.controllers.leader_worker_sets import decide as groups
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Action, Update
from pykueue.translate.jobs import framework, pods

_INDEX = "leaderWorkerSet"


class LeaderWorkerSetController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, policy: JobPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("leaderworkerset", clock)
        cache.add_index(resources.POD, _INDEX, _set_of_pod)
        cache.add_index(resources.WORKLOAD, _INDEX, _sets_of_workload)
        cache.on_change(resources.LEADER_WORKER_SET, self._changed)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.STATEFUL_SET, self._stateful_set_changed)
        self._missing_classes = MissingPriorityClasses(cache, executor, self.queue)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(key_of(latest(old, new)))

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        self._add(_set_of_pod(new) if new is not None else [])

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        self._add(_sets_of_workload(latest(old, new)))

    def _stateful_set_changed(self, _old: Object | None, new: Object | None) -> None:
        """The status of the StatefulSet has the revision that makes pods outdated."""
        name = objects.labels(new).get(groups.SET_NAME_LABEL, "") if new is not None else ""
        if new is not None and name:
            self.queue.add((new["metadata"]["namespace"], name))

    def _add(self, names: list[str]) -> None:
        for name in names:
            self.queue.add(split_key(name))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        self._missing_classes.forget(key)
        leader_worker_set = self._cache.get(resources.LEADER_WORKER_SET, name, namespace)
        workloads = self._cache.indexed(resources.WORKLOAD, _INDEX, f"{namespace}/{name}")
        if leader_worker_set is None or objects.is_deleted(leader_worker_set):
            ending = (workload for workload in workloads if objects.is_deleted(workload))
            await self._executor.apply([action for old in ending for action in groups.without_finalizer(old)])
            return 0
        if not self._is_managed(leader_worker_set):
            return 0
        uid = objects.uid(leader_worker_set)
        own = tuple(workload for workload in workloads if _is_owned_by(workload, uid))
        try:
            actions = groups.plan(self._context(leader_worker_set, own), leader_worker_set)
        except MissingPriorityClassError as fault:
            return self._missing_classes.wait(key, leader_worker_set, fault)
        await self._executor.apply([*actions, *self._pod_updates(leader_worker_set)])
        return 0

    def _is_managed(self, leader_worker_set: Object) -> bool:
        labels = namespace_labels(self._cache, objects.namespace(leader_worker_set))
        if labels is None or not self._policy.manages(labels):
            return False
        return bool(framework.queue_name(leader_worker_set)) or self._policy.manage_jobs_without_queue_name

    def _context(self, leader_worker_set: Object, workloads: tuple[Object, ...]) -> JobContext:
        return JobContext(
            kind=pods.FRAMEWORK,
            job=leader_worker_set,
            workloads=workloads,
            classes=priority_classes(self._cache),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _pod_updates(self, leader_worker_set: Object) -> list[Action]:
        namespace, name = key_of(leader_worker_set)
        actions: list[Action] = []
        for pod in self._cache.indexed(resources.POD, _INDEX, f"{namespace}/{name}"):
            if objects.is_deleted(pod) or pods.is_terminated(pod):
                continue
            owner = objects.controller_of(pod) or {"name": ""}
            stateful_set = self._cache.get(resources.STATEFUL_SET, owner["name"], namespace)
            if groups.is_outdated(pod, stateful_set):
                new = groups.ungated(pod)
            else:
                length = self._policy.max_name_length
                new = groups.with_group_labels(pod, leader_worker_set, max_name_length=length)
            if new != pod:
                actions.append(Update(resource=resources.POD, old=pod, new=new))
        return actions


def _set_of_pod(pod: Object) -> list[str]:
    if objects.annotations(pod).get(POD_SUSPENDING_PARENT) != groups.NAME:
        return []
    name = objects.labels(pod).get(groups.SET_NAME_LABEL, "")
    return [f"{pod['metadata']['namespace']}/{name}"] if name else []


def _sets_of_workload(workload: Object) -> list[str]:
    resource = resources.LEADER_WORKER_SET
    return [
        f"{workload['metadata']['namespace']}/{owner['name']}"
        for owner in objects.owner_references(workload)
        if (owner["kind"], owner["apiVersion"]) == (resource.kind, resource.api_version)
    ]


def _is_owned_by(workload: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in objects.owner_references(workload))
