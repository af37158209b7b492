"""One controller for one kind of job: gathers its situation, asks `jobs.decide` and applies the plan."""

from collections.abc import Mapping
from functools import partial

from pykueue.api import resources as kinds
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs import ancestry, decide, matching
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy, PriorityClasses
from pykueue.controllers.workloads import predicates
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, named
from pykueue.kube.controller.plan import Event
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.translate.jobs.framework import JobFramework, MissingDependencyError

ADOPTION_PAUSE_NS = SECOND_NS
"""A prebuilt Workload is a Workload of its own right first: it may be admitted before its job takes it."""


class JobController:
    def __init__(
        self,
        kind: JobFramework,
        client: Client,
        mirror: ObjectCache,
        applier: Applier,
        *,
        clock: Clock,
        policy: JobPolicy,
        frameworks: Mapping[str, JobFramework],
    ) -> None:
        self._kind = kind
        self._client = client
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy
        self._ancestry = ancestry.Ancestry(client, mirror, frameworks)
        self._waiting_for_class: set[Key] = set()
        self.queue: WorkQueue[Key] = WorkQueue(kind.resource.kind.lower(), clock)
        mirror.add_index(kind.resource, "prebuilt", _prebuilt_key)
        mirror.add_index(kind.resource, "owner", _owner_uids)
        mirror.on_change(kind.resource, self._job_changed)
        mirror.add_index(kind.resource, "dependency", self._dependency_key)
        for resource in self._dependencies:
            mirror.on_change(resource, partial(self._dependency_changed, resource))
        mirror.on_change(kinds.WORKLOAD, self._workload_changed)
        mirror.on_change(kinds.WORKLOAD_PRIORITY_CLASS, self._class_appeared)
        mirror.on_change(kinds.PRIORITY_CLASS, self._class_appeared)

    @property
    def resource(self) -> Resource:
        return self._kind.resource

    @property
    def _dependencies(self) -> tuple[Resource, ...]:
        return self._kind.dependency.resources if self._kind.dependency is not None else ()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Its kind, and those that its jobs refer to."""
        return self._kind.resource, *self._dependencies

    def _dependency_key(self, job: Object) -> list[str]:
        found = self._kind.dependency.reference(job) if self._kind.dependency is not None else None
        return [] if found is None else [f"{found.resource.plural}/{found.namespace}/{found.name}"]

    def _dependency_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        namespace, name = key_of(obj)
        for job in self._mirror.indexed(self._kind.resource, "dependency", f"{resource.plural}/{namespace}/{name}"):
            self.queue.add(key_of(job))

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self.queue.add(key_of(obj))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        for workload in _with_other_owners(old, new):
            namespace = workload["metadata"]["namespace"]
            for reference in workload["metadata"].get("ownerReferences") or ():
                if reference["kind"] == self._kind.resource.kind and _group(reference) == self._kind.resource.group:
                    self.queue.add((namespace, reference["name"]))
                for child in self._mirror.indexed(self._kind.resource, "owner", reference["uid"]):
                    self.queue.add(key_of(child))
            for job in self._mirror.indexed(self._kind.resource, "prebuilt", predicates.key(workload)):
                self.queue.add_after(key_of(job), ADOPTION_PAUSE_NS)

    def _class_appeared(self, old: Object | None, _new: Object | None) -> None:
        if old is None:
            for job in self._waiting_for_class.copy():
                self.queue.add(job)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        job = self._mirror.get(self._kind.resource, name, namespace)
        if job is None and self._workloads(namespace, name, None):
            job = await self._asked(namespace, name)
        try:
            plan = decide.plan(await self._situation(namespace, name, job))
        except MissingPriorityClassError:
            self._waiting_for_class.add(key)
            return LONGEST_PAUSE_NS
        except MissingDependencyError as fault:
            assert job is not None
            self._applier.tell(Event(about=job, reason="ErrWorkloadCompose", message=str(fault), warning=True))
            return LONGEST_PAUSE_NS
        except ancestry.NestingError as fault:
            assert job is not None
            self._applier.tell(Event(about=job, reason="JobNestingTooDeep", message=str(fault), warning=True))
            return LONGEST_PAUSE_NS
        self._waiting_for_class.discard(key)
        await self._applier.carry_out(plan.actions)
        return plan.requeue_after_ns

    async def _asked(self, namespace: str, name: str) -> Object | None:
        """The watch of Workloads may be ahead of that of jobs: only the API knows that a job is gone."""
        try:
            job = named(self._kind.resource, await self._client.get(self._kind.resource, name, namespace))
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        self._mirror.observe(self._kind.resource, job)
        return self._mirror.get(self._kind.resource, name, namespace)

    async def _situation(self, namespace: str, name: str, job: Object | None) -> JobContext:
        space = self._mirror.get(kinds.NAMESPACE, namespace)
        ancestor = await self._ancestry.topmost(job, self._policy) if job is not None else None
        return JobContext(
            kind=self._kind_for(job),
            job=job,
            workloads=self._workloads(namespace, name, job),
            namespace_labels=None if space is None else space["metadata"].get("labels") or {},
            ancestor=ancestor,
            ancestor_workloads=self._owned_by(ancestor) if ancestor is not None else (),
            flavors=self._mirror.by_name(kinds.RESOURCE_FLAVOR),
            classes=PriorityClasses(
                workload=self._mirror.by_name(kinds.WORKLOAD_PRIORITY_CLASS),
                pod=self._mirror.by_name(kinds.PRIORITY_CLASS),
            ),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _kind_for(self, job: Object | None) -> JobFramework:
        dependency = self._kind.dependency
        found = dependency.reference(job) if dependency is not None and job is not None else None
        if dependency is None or found is None:
            return self._kind
        return dependency.framework_for(self._mirror.get(found.resource, found.name, found.namespace))

    def _workloads(self, namespace: str, name: str, job: Object | None) -> tuple[Object, ...]:
        owner = f"{self._kind.resource.kind}/{namespace}/{name}"
        found = self._mirror.indexed(kinds.WORKLOAD, "owner", owner)
        prebuilt = matching.prebuilt_name(job) if job is not None else ""
        if prebuilt:
            workload = self._mirror.get(kinds.WORKLOAD, prebuilt, namespace)
            if workload is not None and workload not in found:
                found.append(workload)
        return tuple(found)

    def _owned_by(self, ancestor: Object) -> tuple[Object, ...]:
        metadata = ancestor["metadata"]
        owner = f"{ancestor['kind']}/{metadata['namespace']}/{metadata['name']}"
        found = self._mirror.indexed(kinds.WORKLOAD, "owner", owner)
        return tuple(sorted(found, key=lambda workload: str(workload["metadata"].get("creationTimestamp", ""))))


def _with_other_owners(old: Object | None, new: Object | None) -> list[Object]:
    """The Workload as it is, and as it was if others owned it then."""
    if new is None or old is None:
        return [workload for workload in (old, new) if workload is not None]
    owners = (workload["metadata"].get("ownerReferences") for workload in (old, new))
    return [new] if next(owners) == next(owners) else [old, new]


def _group(reference: Object) -> str:
    group, slash, _ = str(reference.get("apiVersion", "")).partition("/")
    return group if slash else ""


def _prebuilt_key(job: Object) -> list[str]:
    name = matching.prebuilt_name(job)
    return [f"{job['metadata']['namespace']}/{name}"] if name else []


def _owner_uids(job: Object) -> list[str]:
    return [reference["uid"] for reference in job["metadata"].get("ownerReferences") or ()]
