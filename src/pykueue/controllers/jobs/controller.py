"""The controller of one job framework: reads a job and applies what `decide` plans."""

from collections.abc import Mapping
from functools import partial

from pykueue.api import objects
from pykueue.api import resources as kinds
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.controllers.cache import namespace_labels, priority_classes
from pykueue.controllers.jobs import ancestry, decide, matching
from pykueue.controllers.jobs.construction import MissingPriorityClassError
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.jobs.missing_classes import MissingPriorityClasses
from pykueue.controllers.jobs.workload_handlers import WorkloadHandlers, with_former_owners
from pykueue.controllers.workloads import predicates
from pykueue.kube.client import Client, get_or_none
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.kube.controller.writes import Create, Event
from pykueue.translate.jobs.framework import JobFramework, MissingDependencyError

ADOPTION_PAUSE_NS = SECOND_NS
"""The pause before a job adopts its prebuilt Workload, which may be admitted first."""


class JobController:
    def __init__(
        self,
        framework: JobFramework,
        client: Client,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        policy: JobPolicy,
        frameworks: Mapping[str, JobFramework],
        workload_handlers: WorkloadHandlers,
    ) -> None:
        self._framework = framework
        self._client = client
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self._ancestry = ancestry.Ancestry(client, cache, frameworks, policy.external_jobs)
        self.queue: WorkQueue[Key] = WorkQueue(framework.resource.kind.lower(), clock)
        self._without_workload: set[Key] = set()
        """Jobs whose Workload was deleted, perhaps together with the job."""
        cache.add_index(framework.resource, "prebuilt", self._prebuilt_key)
        cache.add_index(framework.resource, "owner", _owner_uids)
        cache.on_change(framework.resource, self._job_changed)
        cache.add_index(framework.resource, "dependency", self._dependency_key)
        for resource in self._dependencies:
            cache.on_change(resource, partial(self._dependency_changed, resource))
        workload_handlers.add(framework.resource, self._workload_changed)
        self._missing_classes = MissingPriorityClasses(cache, executor, self.queue)

    @property
    def resource(self) -> Resource:
        return self._framework.resource

    @property
    def _dependencies(self) -> tuple[Resource, ...]:
        return self._framework.dependency.resources if self._framework.dependency is not None else ()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The kind of the jobs, and the kinds that they refer to."""
        return self._framework.resource, *self._dependencies

    def _dependency_key(self, job: Object) -> list[str]:
        dependency = self._framework.dependency
        reference = dependency.reference(job) if dependency is not None else None
        return [] if reference is None else [f"{reference.resource.plural}/{reference.namespace}/{reference.name}"]

    def _dependency_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        namespace, name = key_of(latest(old, new))
        for job in self._cache.indexed(self._framework.resource, "dependency", f"{resource.plural}/{namespace}/{name}"):
            self.queue.add(key_of(job))

    def _prebuilt_key(self, job: Object) -> list[str]:
        name = matching.prebuilt_name(job, self._policy)
        return [f"{objects.namespace(job)}/{name}"] if name else []

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._without_workload.discard(key_of(latest(old, new)))
        self.queue.add(key_of(latest(old, new)))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        resource = self._framework.resource
        has_jobs = not self._cache.is_empty(resource)
        for workload in with_former_owners(old, new):
            namespace = workload["metadata"]["namespace"]
            for reference in objects.owner_references(workload):
                if reference["kind"] == resource.kind and _group(reference) == resource.group:
                    self.queue.add((namespace, reference["name"]))
                    if new is None and self._cache.get(resource, reference["name"], namespace):
                        self._without_workload.add((namespace, reference["name"]))
                if has_jobs:
                    for child in self._cache.indexed(resource, "owner", reference["uid"]):
                        self.queue.add(key_of(child))
            if has_jobs:
                for job in self._cache.indexed(resource, "prebuilt", predicates.key(workload)):
                    self.queue.add_after(key_of(job), ADOPTION_PAUSE_NS)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        self._missing_classes.forget(key)
        job = self._cache.get(self._framework.resource, name, namespace)
        if job is None and self._workloads(namespace, name, None):
            job = await self._read_job(namespace, name)
        try:
            plan = decide.plan(await self._context(namespace, name, job))
        except MissingPriorityClassError as fault:
            assert job is not None
            return self._missing_classes.wait(key, job, fault)
        except MissingDependencyError as fault:
            assert job is not None
            self._executor.record(Event(about=job, reason="ErrWorkloadCompose", message=str(fault), type="Warning"))
            return LONGEST_PAUSE_NS
        except ancestry.NestingError as fault:
            assert job is not None
            self._executor.record(Event(about=job, reason="JobNestingTooDeep", message=str(fault), type="Warning"))
            return LONGEST_PAUSE_NS
        if key in self._without_workload and any(isinstance(action, Create) for action in plan.actions):
            exists = await self._exists(job)
            self._without_workload.discard(key)
            if not exists:
                return 0
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns

    async def _exists(self, job: Object | None) -> bool:
        """Whether the API has the job as the cache shows it.

        The watch of jobs may be behind. A Workload for a job that was deleted would be deleted
        too, and the next one would follow it at once, until the watch has caught up.
        """
        assert job is not None
        name, namespace = objects.name(job), objects.namespace(job)
        if await self._read_job(namespace, name) is None:
            self._cache.forget(self._framework.resource, job)
        return self._cache.get(self._framework.resource, name, namespace) is job

    async def _read_job(self, namespace: str, name: str) -> Object | None:
        """Read the job from the API: the watch of jobs may be behind the watch of Workloads."""
        job = await get_or_none(self._client, self._framework.resource, name, namespace)
        if job is None:
            return None
        self._cache.observe(self._framework.resource, job)
        return self._cache.get(self._framework.resource, name, namespace)

    async def _context(self, namespace: str, name: str, job: Object | None) -> JobContext:
        ancestor = await self._ancestry.topmost(job, self._policy) if job is not None else None
        return JobContext(
            kind=self._framework_for(job),
            job=job,
            workloads=self._workloads(namespace, name, job),
            namespace_labels=namespace_labels(self._cache, namespace),
            ancestor=ancestor,
            ancestor_workloads=self._owned_by(ancestor) if ancestor is not None else (),
            flavors=self._cache.by_name(kinds.RESOURCE_FLAVOR),
            classes=priority_classes(self._cache),
            policy=self._policy,
            now_ns=self._clock.now_ns(),
        )

    def _framework_for(self, job: Object | None) -> JobFramework:
        dependency = self._framework.dependency
        reference = dependency.reference(job) if dependency is not None and job is not None else None
        if dependency is None or reference is None:
            return self._framework
        return dependency.framework_for(self._cache.get(reference.resource, reference.name, reference.namespace))

    def _workloads(self, namespace: str, name: str, job: Object | None) -> tuple[Object, ...]:
        owner = f"{self._framework.resource.kind}/{namespace}/{name}"
        workloads = self._cache.indexed(kinds.WORKLOAD, "owner", owner)
        prebuilt = matching.prebuilt_name(job, self._policy) if job is not None else ""
        if prebuilt:
            workload = self._cache.get(kinds.WORKLOAD, prebuilt, namespace)
            if workload is not None and workload not in workloads:
                workloads.append(workload)
        return tuple(workloads)

    def _owned_by(self, ancestor: Object) -> tuple[Object, ...]:
        metadata = ancestor["metadata"]
        owner = f"{ancestor['kind']}/{metadata['namespace']}/{metadata['name']}"
        workloads = self._cache.indexed(kinds.WORKLOAD, "owner", owner)
        return tuple(sorted(workloads, key=lambda workload: str(workload["metadata"].get("creationTimestamp", ""))))


def _group(reference: Object) -> str:
    group, slash, _ = str(reference.get("apiVersion", "")).partition("/")
    return group if slash else ""


def _owner_uids(job: Object) -> list[str]:
    return [reference["uid"] for reference in objects.owner_references(job)]
