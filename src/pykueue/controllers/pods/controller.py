"""The controller of pods and pod groups: reads a group and applies what `decide` plans."""

from typing import NamedTuple

from pykueue.api import objects, resources
from pykueue.api.labels import IS_GROUP_WORKLOAD, MANAGED
from pykueue.api.rules.jobs.pod import role_hash
from pykueue.api.scheme import Object
from pykueue.controllers.cache import dispatching_checks, namespace_labels, priority_classes
from pykueue.controllers.jobs import matching
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.jobs.missing_classes import MissingPriorityClasses
from pykueue.controllers.pods import decide
from pykueue.kube.client import Client, get_or_none
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.pods import PodGroup


class GroupKey(NamedTuple):
    namespace: str
    name: str
    is_group: bool
    """Whether it is the name of a group or of a single pod."""


class PodController:
    def __init__(
        self, client: Client, cache: ObjectCache, executor: WriteExecutor, *, clock: Clock, policy: JobPolicy
    ) -> None:
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[GroupKey] = WorkQueue("pod", clock)
        self._disowned: set[str] = set()
        """The uids of pods that no longer own their Workload."""
        self._missing_classes = MissingPriorityClasses(cache, executor, self.queue)
        cache.add_index(resources.POD, "group", self._group_key)
        cache.add_index(resources.POD, "prebuilt", self._prebuilt_key)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = latest(old, new)
        if new is None:
            self._disowned.discard(objects.uid(pod))
        if objects.labels(pod).get(MANAGED) != "true":
            return
        namespace, name = key_of(pod)
        group = self._group_name(pod)
        self.queue.add(GroupKey(namespace, group or name, is_group=bool(group)))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = latest(old, new)
        namespace, name = key_of(workload)
        is_group = objects.annotations(workload).get(IS_GROUP_WORKLOAD) == "true"
        has_members = bool(self._cache.indexed(resources.POD, "group", f"{namespace}/{name}"))
        if has_members or (is_group and objects.is_deleted(workload)):
            self.queue.add(GroupKey(namespace, name, is_group=True))
        if old is not None and new is not None and objects.owner_references(old) != objects.owner_references(new):
            uids = _owner_uids(old).keys() - _owner_uids(new).keys()
            self._disowned |= {uid for uid in uids if self._is_cached(uid, namespace, _owner_uids(old)[uid])}
        for reference in objects.owner_references(workload):
            if reference["kind"] == "Pod":
                self.queue.add(GroupKey(namespace, reference["name"], is_group=False))
        for pod in self._cache.indexed(resources.POD, "prebuilt", f"{namespace}/{name}"):
            self.queue.add(GroupKey(namespace, objects.name(pod), is_group=False))

    def _is_cached(self, uid: str, namespace: str, name: str) -> bool:
        pod = self._cache.get(resources.POD, name, namespace)
        return pod is not None and objects.uid(pod) == uid

    def _prebuilt_key(self, pod: Object) -> list[str]:
        """The prebuilt Workload of a single pod; the Workload of a group has the group's name."""
        name = "" if self._group_name(pod) else matching.prebuilt_name(pod, self._policy)
        return [f"{objects.namespace(pod)}/{name}"] if name else []

    async def reconcile(self, key: GroupKey) -> int:
        namespace, name, is_group = key
        self._missing_classes.forget(key)
        if is_group:
            members = await self._members(f"{namespace}/{name}")
        else:
            pod = self._cache.get(resources.POD, name, namespace)
            members = () if pod is None or self._group_name(pod) else (pod,)
            if pod is not None and not members:
                return 0
        ordered = tuple(sorted(members, key=lambda pod: str(pod["metadata"]["name"])))
        group = PodGroup(name=name if is_group else "", pods=ordered, role_hash=role_hash) if members else None
        try:
            plan = decide.plan(self._context(namespace, name, is_group=is_group), group)
        except MissingPriorityClassError as fault:
            assert group is not None
            return self._missing_classes.wait(key, group.lead, fault)
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns

    async def _members(self, group: str) -> tuple[Object, ...]:
        """The pods of a group.

        The garbage collector removes a deleted pod from the owners of the Workload. The watch of
        pods may be behind; the pod would become an owner again, and again be removed.
        """
        for pod in self._cache.indexed(resources.POD, "group", group):
            uid = objects.uid(pod)
            if uid in self._disowned:
                present = await get_or_none(self._client, resources.POD, objects.name(pod), objects.namespace(pod))
                if present is None or objects.uid(present) != uid:
                    self._cache.forget(resources.POD, pod)
                self._disowned.discard(uid)
        return tuple(self._cache.indexed(resources.POD, "group", group))

    def _context(self, namespace: str, name: str, *, is_group: bool) -> JobContext:
        return JobContext(
            kind=pods.FRAMEWORK,
            job=None,
            workloads=self._workloads(namespace, name, is_group=is_group),
            namespace_labels=namespace_labels(self._cache, namespace),
            flavors=self._cache.by_name(resources.RESOURCE_FLAVOR),
            classes=priority_classes(self._cache),
            dispatching_checks=dispatching_checks(self._cache) if self._policy.dispatches else frozenset(),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _workloads(self, namespace: str, name: str, *, is_group: bool) -> tuple[Object, ...]:
        if not is_group:
            return self._workloads_of_pod(namespace, name)
        workload = self._cache.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return ()
        is_ours = objects.annotations(workload).get(IS_GROUP_WORKLOAD) == "true"
        is_free = objects.controller_of(workload) is None
        has_members = bool(self._cache.indexed(resources.POD, "group", f"{namespace}/{name}"))
        return (workload,) if is_ours or is_free or has_members else ()

    def _workloads_of_pod(self, namespace: str, name: str) -> tuple[Object, ...]:
        workloads = self._cache.indexed(resources.WORKLOAD, "owner", f"Pod/{namespace}/{name}")
        pod = self._cache.get(resources.POD, name, namespace)
        prebuilt = "" if pod is None or objects.is_deleted(pod) else matching.prebuilt_name(pod, self._policy)
        workload = self._cache.get(resources.WORKLOAD, prebuilt, namespace) if prebuilt else None
        if workload is not None and workload not in workloads:
            workloads.append(workload)
        return tuple(workloads)

    def _group_name(self, pod: Object) -> str:
        return pods.group_name(pod, by_annotation=self._policy.identifies_by_annotation)

    def _group_key(self, pod: Object) -> list[str]:
        name = self._group_name(pod)
        return [f"{objects.namespace(pod)}/{name}"] if name else []


def _owner_uids(workload: Object) -> dict[str, str]:
    """The names of the pods that own a Workload, by their uids."""
    references = objects.owner_references(workload)
    return {reference["uid"]: reference["name"] for reference in references if reference["kind"] == "Pod"}
