"""The controller of pods and pod groups: reads a group and applies what `decide` plans."""

from typing import NamedTuple

from pykueue.api import objects, resources
from pykueue.api.labels import IS_GROUP_WORKLOAD, MANAGED
from pykueue.api.rules.jobs.pod import role_hash
from pykueue.api.scheme import Object
from pykueue.controllers.cache import namespace_labels, priority_classes
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.pods import decide
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.pods import PodGroup


class GroupKey(NamedTuple):
    namespace: str
    name: str
    is_group: bool
    """Whether it is the name of a group or of a single pod."""


class PodController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, policy: JobPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[GroupKey] = WorkQueue("pod", clock)
        cache.add_index(resources.POD, "group", _group_of)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = latest(old, new)
        if objects.labels(pod).get(MANAGED) != "true":
            return
        namespace, name = key_of(pod)
        group = pods.group_name(pod)
        self.queue.add(GroupKey(namespace, group or name, is_group=bool(group)))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        namespace, name = key_of(workload)
        if self._cache.indexed(resources.POD, "group", f"{namespace}/{name}"):
            self.queue.add(GroupKey(namespace, name, is_group=True))
        for reference in objects.owner_references(workload):
            if reference["kind"] == "Pod":
                self.queue.add(GroupKey(namespace, reference["name"], is_group=False))

    async def reconcile(self, key: GroupKey) -> int:
        namespace, name, is_group = key
        if is_group:
            members = tuple(self._cache.indexed(resources.POD, "group", f"{namespace}/{name}"))
        else:
            pod = self._cache.get(resources.POD, name, namespace)
            members = () if pod is None or pods.group_name(pod) else (pod,)
            if pod is not None and not members:
                return 0
        ordered = tuple(sorted(members, key=lambda pod: str(pod["metadata"]["name"])))
        group = PodGroup(name=name if is_group else "", pods=ordered, role_hash=role_hash) if members else None
        try:
            plan = decide.plan(self._context(namespace, name, is_group=is_group), group)
        except MissingPriorityClassError:
            return LONGEST_PAUSE_NS
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns

    def _context(self, namespace: str, name: str, *, is_group: bool) -> JobContext:
        return JobContext(
            kind=pods.FRAMEWORK,
            job=None,
            workloads=self._workloads(namespace, name, is_group=is_group),
            namespace_labels=namespace_labels(self._cache, namespace),
            flavors=self._cache.by_name(resources.RESOURCE_FLAVOR),
            classes=priority_classes(self._cache),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _workloads(self, namespace: str, name: str, *, is_group: bool) -> tuple[Object, ...]:
        if not is_group:
            return tuple(self._cache.indexed(resources.WORKLOAD, "owner", f"Pod/{namespace}/{name}"))
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return ()
        is_ours = objects.annotations(workload).get(IS_GROUP_WORKLOAD) == "true"
        is_free = objects.controller_of(workload) is None
        has_members = bool(self._cache.indexed(resources.POD, "group", f"{namespace}/{name}"))
        return (workload,) if is_ours or is_free or has_members else ()


def _group_of(pod: Object) -> list[str]:
    name = pods.group_name(pod)
    return [f"{pod['metadata']['namespace']}/{name}"] if name else []
