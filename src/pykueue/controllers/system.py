"""All controllers together, on any client; started by `pykueue up` and by `pykueue controller`."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from pykueue.api import resources as kinds
from pykueue.api.scheme import Resource
from pykueue.controllers import settings
from pykueue.controllers.cache import new_cache
from pykueue.controllers.concurrent_admission.controller import COMPONENT as CONCURRENT_ADMISSION
from pykueue.controllers.concurrent_admission.controller import ConcurrentAdmissionController
from pykueue.controllers.dependencies.controller import COMPONENT as DEPENDENCIES
from pykueue.controllers.dependencies.controller import DependencyController
from pykueue.controllers.failure_recovery.controller import COMPONENT as FAILURE_RECOVERY
from pykueue.controllers.failure_recovery.controller import FailureRecoveryController
from pykueue.controllers.jobs.controller import JobController
from pykueue.controllers.jobs.workload_handlers import WorkloadHandlers
from pykueue.controllers.leader_worker_sets import decide
from pykueue.controllers.leader_worker_sets.controller import LeaderWorkerSetController
from pykueue.controllers.metrics import instruments
from pykueue.controllers.metrics.collector import Metrics
from pykueue.controllers.multikueue.composition import RESOURCES as MULTI_KUEUE_RESOURCES
from pykueue.controllers.multikueue.composition import MultiKueueControllers
from pykueue.controllers.multikueue.remote import Connect, connect_http
from pykueue.controllers.nodes.controller import REPORTER as NODES
from pykueue.controllers.nodes.controller import NodeController
from pykueue.controllers.pods.controller import PodController
from pykueue.controllers.priority_classes.controller import PriorityClassController
from pykueue.controllers.provisioning.controller import RESOURCES as PROVISIONING_RESOURCES
from pykueue.controllers.provisioning.controller import ProvisioningController
from pykueue.controllers.provisioning.decide import CONTROLLER as PROVISIONING
from pykueue.controllers.queues.controller import QueueControllers
from pykueue.controllers.queues.usage_sampler import UsageSampler
from pykueue.controllers.resources_in_use.controller import InUseController
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.scheduler.engine_events import REQUIRED_KINDS
from pykueue.controllers.scheduler.topology_events import TopologyEventSource
from pykueue.controllers.settings import Configuration
from pykueue.controllers.stateful_sets.controller import StatefulSetController
from pykueue.controllers.topology.controller import TopologyUngater
from pykueue.controllers.workload_slices.controller import SliceUngater
from pykueue.controllers.workloads.controller import WorkloadController
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock, WallClock
from pykueue.kube.controller.audit import CacheAudit
from pykueue.kube.controller.cache import InformerSet
from pykueue.kube.controller.event_recorder import EventRecorder, EventsV1
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import Reconcile, WorkQueue
from pykueue.kube.supervisor import Supervisor
from pykueue.recording.ring import RingOptions, RingWriter, recorded
from pykueue.translate import policy

CACHED_KINDS: tuple[Resource, ...] = (
    *REQUIRED_KINDS,
    kinds.NODE,
    kinds.WORKLOAD_PRIORITY_CLASS,
    kinds.PRIORITY_CLASS,
)
"""Kinds that every controller waits for."""

OPTIONAL_KINDS: tuple[Resource, ...] = (*PROVISIONING_RESOURCES, *DEVICE_RESOURCES, *MULTI_KUEUE_RESOURCES)
"""Kinds that a cluster may lack."""

MANY_WORKERS = 32
"""For kinds with thousands of objects: a worker mostly waits for an answer of the API."""


class CacheSyncError(Exception):
    """The API did not list what the controllers need in the time that the Configuration sets."""


class ControllerLoop(msgspec.Struct, frozen=True):
    """A queue of keys and its reconciler; it waits for `CACHED_KINDS` and `kinds` in the cache."""

    queue: WorkQueue[Any]
    reconcile: Reconcile[Any]
    kinds: tuple[Resource, ...] = ()
    workers: int = 8
    reconciles: Resource | None = None
    """The kind of the keys, for `controller.groupKindConcurrency`; None means Workloads."""


class Controllers:
    """`start` returns when the state is rebuilt from the API; `stop` leaves nothing running."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        clock: Clock | None = None,
        *,
        role: str = instruments.STANDALONE,
        connect: Connect = connect_http,
        recording: RingOptions | None = None,
    ) -> None:
        clock = clock or WallClock()
        self._client = client
        self._clock = clock
        self._configuration = configuration
        self.cache = new_cache()
        self._recorder = EventRecorder(client, clock, EventsV1(instance=f"kueue-{socket.gethostname()}"))
        self._recording = None if recording is None else RingWriter(recording, policy.engine_policy(configuration))
        self.scheduler = Scheduler(
            client,
            self.cache,
            self._executor("kueue-admission"),
            clock=clock,
            configuration=configuration,
            recorder=self._recording,
        )
        self._frameworks = settings.frameworks(configuration)
        self.metrics = Metrics(
            self.cache,
            self.scheduler.engine.view,
            clock,
            configuration,
            role=role,
            job_resources=(kinds.POD, *(framework.resource for framework in self._frameworks.values())),
        )
        self.scheduler.metrics = self.metrics
        self._topology = TopologyEventSource(self.cache, clock, self.scheduler.handle)
        self._multi_kueue = self._new_multi_kueue(connect)
        kueue_loops, job_loops = [*self._kueue_loops()], [*self._job_loops(), *self._pod_group_loops()]
        job_loops += self._failure_recovery_loops()
        self._loops = [*kueue_loops, *job_loops, *self._pod_loops(), *self._admission_check_loops()]
        self._kinds = [*CACHED_KINDS, *OPTIONAL_KINDS, *(kind for loop in job_loops for kind in loop.kinds)]
        self._supervisor = Supervisor()
        self.cache_audit = CacheAudit(
            client, self.cache, clock, lambda resource: self.metrics.differed("cache", resource.kind)
        )
        self.engine_audit = self.scheduler.audit(lambda kind: self.metrics.differed("engine", kind))

    def _executor(self, component: str) -> WriteExecutor:
        return WriteExecutor(self._client, self.cache, self._recorder, component, field_manager=component)

    # The controllers

    def _kueue_loops(self) -> Iterator[ControllerLoop]:
        """The controllers of Kueue's own kinds."""
        scheduler, cache, clock, executor = self.scheduler, self.cache, self._clock, self._executor("kueue")
        workloads = WorkloadController(
            scheduler,
            cache,
            self._executor("kueue-workload-controller"),
            clock=clock,
            policy=settings.lifecycle_policy(self._configuration),
        )
        yield ControllerLoop(workloads.queue, workloads.reconcile, workers=MANY_WORKERS)
        queues = QueueControllers(scheduler, cache, executor, clock)
        yield ControllerLoop(queues.cluster_queues, queues.reconcile_cluster_queue, reconciles=kinds.CLUSTER_QUEUE)
        yield ControllerLoop(queues.local_queues, queues.reconcile_local_queue, reconciles=kinds.LOCAL_QUEUE)
        yield ControllerLoop(queues.cohorts, queues.reconcile_cohort, reconciles=kinds.COHORT)
        if scheduler.usage_sharing is not None:
            sampler = UsageSampler(scheduler, cache, executor, clock=clock, config=scheduler.usage_sharing)
            yield ControllerLoop(sampler.queue, sampler.reconcile, reconciles=kinds.LOCAL_QUEUE)
        in_use = InUseController(cache, executor, clock)
        yield ControllerLoop(in_use.queue, in_use.reconcile, reconciles=kinds.RESOURCE_FLAVOR)
        priority_classes = PriorityClassController(cache, executor, clock)
        yield ControllerLoop(
            priority_classes.queue, priority_classes.reconcile, reconciles=kinds.WORKLOAD_PRIORITY_CLASS
        )

        if settings.admits_concurrently(self._configuration):
            variants = ConcurrentAdmissionController(
                cache,
                self._executor(CONCURRENT_ADMISSION),
                clock,
                settings.job_policy(self._configuration),
            )
            yield ControllerLoop(variants.queue, variants.reconcile)

    def _job_loops(self) -> Iterator[ControllerLoop]:
        """One controller for each enabled job framework."""
        workload_handlers = WorkloadHandlers(self.cache)
        for framework in self._frameworks.values():
            jobs = JobController(
                framework,
                self._client,
                self.cache,
                self._executor("kueue-job-controller"),
                clock=self._clock,
                policy=settings.job_policy(self._configuration),
                frameworks=self._frameworks,
                workload_handlers=workload_handlers,
            )
            yield ControllerLoop(
                jobs.queue, jobs.reconcile, jobs.resources, workers=MANY_WORKERS, reconciles=framework.resource
            )

        if any(framework.resource == kinds.JOB for framework in self._frameworks.values()):
            dependencies = DependencyController(self.cache, self._executor(DEPENDENCIES), self._clock)
            yield ControllerLoop(dependencies.queue, dependencies.reconcile, (kinds.JOB,), reconciles=kinds.JOB)

    def _pod_group_loops(self) -> Iterator[ControllerLoop]:
        """The controllers of kinds that are queued through gated pods, not by suspending."""
        if not settings.manages_pods(self._configuration):
            return
        names, policy = settings.framework_names(self._configuration), settings.job_policy(self._configuration)
        cache, executor, clock = self.cache, self._executor("kueue-job-controller"), self._clock
        pods = PodController(self._client, cache, executor, clock=clock, policy=policy)
        yield ControllerLoop(pods.queue, pods.reconcile, (kinds.POD,), reconciles=kinds.POD)
        if "statefulset" in names:
            stateful_sets = StatefulSetController(cache, executor, clock=clock, policy=policy)
            needed = (kinds.POD, kinds.STATEFUL_SET)
            yield ControllerLoop(stateful_sets.queue, stateful_sets.reconcile, needed, reconciles=kinds.STATEFUL_SET)
        if decide.NAME in names:
            groups = LeaderWorkerSetController(cache, executor, clock=clock, policy=policy)
            group_kinds = (kinds.POD, kinds.STATEFUL_SET, kinds.LEADER_WORKER_SET)
            yield ControllerLoop(groups.queue, groups.reconcile, group_kinds, reconciles=kinds.LEADER_WORKER_SET)

    def _failure_recovery_loops(self) -> Iterator[ControllerLoop]:
        if settings.recovers_from_failures(self._configuration):
            recovery = FailureRecoveryController(self.cache, self._executor(FAILURE_RECOVERY), self._clock)
            yield ControllerLoop(recovery.queue, recovery.reconcile, (kinds.POD,), reconciles=kinds.POD)

    def _admission_check_loops(self) -> Iterator[ControllerLoop]:
        provisioning = ProvisioningController(
            self.cache,
            self._executor(PROVISIONING),
            self._clock,
            deletes_on_eviction=settings.deletes_requests_on_eviction(self._configuration),
        )
        yield ControllerLoop(
            provisioning.checks,
            provisioning.reconcile_check,
            PROVISIONING_RESOURCES,
            reconciles=kinds.ADMISSION_CHECK,
        )
        yield ControllerLoop(provisioning.workloads, provisioning.reconcile_workload, PROVISIONING_RESOURCES)
        if self._multi_kueue is not None:
            for queue, reconcile, resource in self._multi_kueue.loops():
                yield ControllerLoop(queue, reconcile, MULTI_KUEUE_RESOURCES, MANY_WORKERS, reconciles=resource)

    def _new_multi_kueue(self, connect: Connect) -> MultiKueueControllers | None:
        options = settings.dispatch_options(self._configuration)
        if options is None:
            return None
        return MultiKueueControllers(
            self._client,
            self.cache,
            self._recorder,
            clock=self._clock,
            options=options,
            connect=connect,
            on_dispatched=self.metrics.dispatched,
            on_admitted=self.metrics.admitted_elsewhere,
        )

    def _pod_loops(self) -> Iterator[ControllerLoop]:
        """The controllers of admitted pods; they wait where pods are not listed."""
        cache, clock, executor = self.cache, self._clock, self._executor("kueue")
        self._slices = SliceUngater(cache, executor, clock)
        for ungater in (TopologyUngater(cache, executor, clock), self._slices):
            yield ControllerLoop(ungater.queue, ungater.reconcile, (kinds.POD,))
        nodes = NodeController(cache, self._executor(NODES), clock, settings.replacement_policy(self._configuration))
        yield ControllerLoop(nodes.queue, nodes.reconcile, (kinds.POD,), reconciles=kinds.NODE)

    # Running

    async def start(self) -> None:
        """Start everything and return when decisions begin."""
        self._supervisor.start("controllers", self.run)
        await self._supervisor.wait_for(self.listed())

    async def listed(self) -> None:
        """Wait until the cache has all kinds that decisions depend on."""
        await self.cache.listed(REQUIRED_KINDS)

    async def stop(self) -> None:
        await self._supervisor.stop()

    async def run(self) -> None:
        informers = InformerSet(self._client, self.cache, self._clock)
        async with recorded(self._recording), asyncio.TaskGroup() as group:
            group.create_task(informers.run(self._kinds))
            group.create_task(self._recorder.run())
            group.create_task(self.scheduler.run())
            group.create_task(self._topology.run())
            group.create_task(self._watch_pods(informers))
            group.create_task(self._check_caches())
            group.create_task(self.cache_audit.run(then=self.engine_audit.audit))
            if self._multi_kueue is not None:
                group.create_task(self._multi_kueue.run())
            for loop in self._loops:
                group.create_task(self._run_loop(loop))

    async def _check_caches(self) -> None:
        """Fail if the kinds that every controller needs are not listed within cacheSyncTimeout."""
        seconds = settings.cache_sync_seconds(self._configuration)
        try:
            await asyncio.wait_for(self.cache.listed(CACHED_KINDS), seconds)
        except TimeoutError:
            missing = ", ".join(kind.plural for kind in CACHED_KINDS if not self.cache.is_listed(kind))
            raise CacheSyncError(f"not listed within controller.cacheSyncTimeout ({seconds:g} s): {missing}") from None

    async def _watch_pods(self, informers: InformerSet) -> None:
        """Watch pods, which are many, when a topology, elastic job or framework needs them."""
        if kinds.POD not in self._kinds:
            waits = [asyncio.ensure_future(wait()) for wait in (self._topology.needed, self._slices.needed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            await informers.run([kinds.POD])

    async def _run_loop(self, loop: ControllerLoop) -> None:
        """Wait for the cache: a controller takes an object that is not in it for deleted."""
        await self.cache.listed((*CACHED_KINDS, *loop.kinds))
        resource = loop.reconciles or kinds.WORKLOAD
        group_kind = ".".join(filter(None, (resource.kind, resource.group)))
        workers = settings.workers_by_kind(self._configuration).get(group_kind, loop.workers)
        await loop.queue.run(loop.reconcile, workers=workers)
