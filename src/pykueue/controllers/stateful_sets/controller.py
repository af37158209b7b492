"""The StatefulSet controller: one Workload for each StatefulSet, and labels on its pods."""

from pykueue.api import objects, resources
from pykueue.api.labels import MULTI_KUEUE_ORIGIN, POD_SUSPENDING_PARENT
from pykueue.api.scheme import Object
from pykueue.controllers.cache import namespace_labels, priority_classes, split_key
from pykueue.controllers.jobs import matching
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.jobs.missing_classes import MissingPriorityClasses
from pykueue.controllers.stateful_sets import decide
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Action, Create, Event, Update
from pykueue.translate.jobs import framework, pods


class StatefulSetController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, policy: JobPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("statefulset", clock)
        self._missing_classes = MissingPriorityClasses(cache, executor, self.queue)
        cache.add_index(resources.POD, "statefulSet", _parent_of)
        cache.on_change(resources.STATEFUL_SET, self._changed)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(key_of(latest(old, new)))

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        for name in _parent_of(new) if new is not None else ():
            self.queue.add(split_key(name))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        for owner in objects.owner_references(workload):
            if owner["kind"] == "StatefulSet":
                self.queue.add((workload["metadata"]["namespace"], owner["name"]))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        self._missing_classes.forget(key)
        stateful_set = self._cache.get(resources.STATEFUL_SET, name, namespace)
        members = self._cache.indexed(resources.POD, "statefulSet", f"{namespace}/{name}")
        if stateful_set is None or objects.is_deleted(stateful_set) or not self._is_managed(stateful_set):
            return 0
        try:
            actions = self._workload_actions(stateful_set)
        except MissingPriorityClassError as fault:
            return self._missing_classes.wait(key, stateful_set, fault)
        for pod in members:
            if objects.is_deleted(pod) or pods.is_terminated(pod):
                continue
            group = matching.prebuilt_name(pod, self._policy)
            if not group:
                labelled = decide.with_group_labels(pod, stateful_set, self._workload_name(stateful_set))
                actions.append(Update(resource=resources.POD, old=pod, new=labelled))
            elif group == self._workload_name(stateful_set):
                actions += decide.sync_queue_label(pod, stateful_set)
        await self._executor.apply(actions)
        return 0

    def _is_managed(self, stateful_set: Object) -> bool:
        labels = namespace_labels(self._cache, objects.namespace(stateful_set))
        if labels is None or not self._policy.manages(labels):
            return False
        annotations = objects.nested(stateful_set, "spec", "template", "metadata", "annotations")
        if annotations.get(POD_SUSPENDING_PARENT, decide.PARENT) != decide.PARENT:
            return False
        return bool(framework.queue_name(stateful_set)) or self._policy.manage_jobs_without_queue_name

    def _workload_name(self, stateful_set: Object) -> str:
        """The name of its Workload; the one that an older Kueue created keeps its name."""
        length, namespace = self._policy.max_name_length, objects.namespace(stateful_set)
        name = decide.workload_name(stateful_set, max_length=length)
        former = decide.former_workload_name(stateful_set, max_length=length)
        has_former = self._cache.get(resources.WORKLOAD, former, namespace) is not None
        return former if has_former and self._cache.get(resources.WORKLOAD, name, namespace) is None else name

    def _workload_actions(self, stateful_set: Object) -> list[Action]:
        namespace = stateful_set["metadata"]["namespace"]
        old = self._cache.get(resources.WORKLOAD, self._workload_name(stateful_set), namespace)
        if old is not None:
            return decide.sync_workload(stateful_set, old, self._clock.now_ns(), unadmitted=self._policy.unadmitted)
        if not decide.replicas(stateful_set) or MULTI_KUEUE_ORIGIN in objects.labels(stateful_set):
            return []
        workload = decide.workload_of(stateful_set, priority_classes(self._cache), self._policy)
        message = f"Created Workload: {predicates.key(workload)}"
        return [
            Create(resource=resources.WORKLOAD, object=workload),
            Event(about=stateful_set, reason="CreatedWorkload", message=message),
        ]


def _parent_of(pod: Object) -> list[str]:
    owner = objects.controller_of(pod)
    if owner is None or owner["kind"] != "StatefulSet":
        return []
    if objects.annotations(pod).get(POD_SUSPENDING_PARENT) != decide.PARENT:
        return []
    return [f"{pod['metadata']['namespace']}/{owner['name']}"]
