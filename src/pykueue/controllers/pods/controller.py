"""The controller of pods and pod groups: gathers the members of a group, asks `jobs.pod_plan` and applies the plan."""

from pykueue.api import objects, resources
from pykueue.api.labels import IS_GROUP_WORKLOAD, MANAGED
from pykueue.api.rules.jobs.pod import role_hash
from pykueue.api.scheme import Object
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy, PriorityClasses
from pykueue.controllers.pods import decide
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import ObjectCache, key_of
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.pods import PodGroup

GroupKey = tuple[str, str, bool]
"""Namespace, name, and whether it is the name of a group or of a pod."""


class PodController:
    def __init__(self, mirror: ObjectCache, applier: Applier, *, clock: Clock, policy: JobPolicy) -> None:
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[GroupKey] = WorkQueue("pod", clock)
        mirror.add_index(resources.POD, "group", _group_of)
        mirror.on_change(resources.POD, self._pod_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if (pod["metadata"].get("labels") or {}).get(MANAGED) != "true":
            return
        namespace, name = key_of(pod)
        group = pods.group_name(pod)
        self.queue.add((namespace, group, True) if group else (namespace, name, False))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = new or old
        assert workload is not None
        namespace, name = key_of(workload)
        if self._mirror.indexed(resources.POD, "group", f"{namespace}/{name}"):
            self.queue.add((namespace, name, True))
        for reference in workload["metadata"].get("ownerReferences") or ():
            if reference["kind"] == "Pod":
                self.queue.add((namespace, reference["name"], False))

    async def reconcile(self, key: GroupKey) -> int:
        namespace, name, is_group = key
        if is_group:
            members = tuple(self._mirror.indexed(resources.POD, "group", f"{namespace}/{name}"))
        else:
            pod = self._mirror.get(resources.POD, name, namespace)
            members = () if pod is None or pods.group_name(pod) else (pod,)
            if pod is not None and not members:
                return 0
        ordered = tuple(sorted(members, key=lambda pod: str(pod["metadata"]["name"])))
        group = PodGroup(name=name if is_group else "", pods=ordered, role_hash=role_hash) if members else None
        try:
            plan = decide.plan(self._situation(namespace, name, is_group=is_group), group)
        except MissingPriorityClassError:
            return LONGEST_PAUSE_NS
        await self._applier.carry_out(plan.actions)
        return plan.requeue_after_ns

    def _situation(self, namespace: str, name: str, *, is_group: bool) -> JobContext:
        space = self._mirror.get(resources.NAMESPACE, namespace)
        return JobContext(
            kind=pods.FRAMEWORK,
            job=None,
            workloads=self._workloads(namespace, name, is_group=is_group),
            namespace_labels=None if space is None else space["metadata"].get("labels") or {},
            flavors=self._mirror.by_name(resources.RESOURCE_FLAVOR),
            classes=PriorityClasses(
                workload=self._mirror.by_name(resources.WORKLOAD_PRIORITY_CLASS),
                pod=self._mirror.by_name(resources.PRIORITY_CLASS),
            ),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _workloads(self, namespace: str, name: str, *, is_group: bool) -> tuple[Object, ...]:
        if not is_group:
            return tuple(self._mirror.indexed(resources.WORKLOAD, "owner", f"Pod/{namespace}/{name}"))
        workload = self._mirror.get(resources.WORKLOAD, name, namespace)
        if workload is None:
            return ()
        is_ours = (workload["metadata"].get("annotations") or {}).get(IS_GROUP_WORKLOAD) == "true"
        is_free = objects.controller_of(workload) is None
        has_members = bool(self._mirror.indexed(resources.POD, "group", f"{namespace}/{name}"))
        return (workload,) if is_ours or is_free or has_members else ()


def _group_of(pod: Object) -> list[str]:
    name = pods.group_name(pod)
    return [f"{pod['metadata']['namespace']}/{name}"] if name else []
