"""All controllers as one part: built on any client, started in process by `pykueue up` and on a cluster elsewhere."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from pykueue.api import resources as kinds
from pykueue.api.scheme import Resource
from pykueue.controllers import settings
from pykueue.controllers.cache import new_cache
from pykueue.controllers.jobs.controller import JobController
from pykueue.controllers.jobs.policy import JobPolicy
from pykueue.controllers.leader_worker_sets import decide
from pykueue.controllers.leader_worker_sets.controller import LeaderWorkerSetController
from pykueue.controllers.metrics import instruments
from pykueue.controllers.metrics.collector import Metrics
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
from pykueue.kube.controller.cache import InformerSet
from pykueue.kube.controller.event_recorder import EventRecorder, EventsV1
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.supervisor import Supervisor

MIRRORED: tuple[Resource, ...] = (
    *REQUIRED_KINDS,
    kinds.NODE,
    kinds.WORKLOAD_PRIORITY_CLASS,
    kinds.PRIORITY_CLASS,
)

OPTIONAL: tuple[Resource, ...] = (*PROVISIONING_RESOURCES, *DEVICE_RESOURCES)
"""Kinds that a cluster may lack."""

Loop = Callable[[], Awaitable[None]]

_WORKERS = 32
"""Of the kinds that come by the thousand: each mostly waits for an answer of the API."""


class Controllers:
    """`start` returns when the state is rebuilt from the API and decisions begin; `stop` leaves nothing running."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        clock: Clock | None = None,
        *,
        role: str = instruments.STANDALONE,
    ) -> None:
        clock = clock or WallClock()
        self._client = client
        self._clock = clock
        self.cache = cache = new_cache()
        self._recorder = EventRecorder(client, clock, EventsV1(instance=f"kueue-{socket.gethostname()}"))
        self.scheduler = Scheduler(
            client, cache, self._executor("kueue-admission"), clock=clock, configuration=configuration
        )
        frameworks = settings.frameworks(configuration)
        self.metrics = Metrics(
            cache,
            self.scheduler.engine.world,
            clock,
            configuration,
            role=role,
            job_resources=(kinds.POD, *(kind.resource for kind in frameworks.values())),
        )
        self.scheduler.metrics = self.metrics
        self._workloads = WorkloadController(
            self.scheduler,
            cache,
            self._executor("kueue-workload-controller"),
            clock=clock,
            policy=settings.lifecycle_policy(configuration),
        )
        core = self._executor("kueue")
        self._queues = QueueControllers(self.scheduler, cache, core, clock)
        self._usage: UsageSampler | None = None
        if self.scheduler.usage_sharing is not None:
            self._usage = UsageSampler(self.scheduler, cache, core, clock=clock, config=self.scheduler.usage_sharing)
        self._in_use = InUseController(cache, core, clock)
        self._classes = PriorityClassController(cache, core, clock)
        policy = settings.job_policy(configuration)
        self._jobs = [
            JobController(
                kind,
                client,
                cache,
                self._executor("kueue-job-controller"),
                clock=clock,
                policy=policy,
                frameworks=frameworks,
            )
            for kind in frameworks.values()
        ]
        self._places = TopologyEventSource(cache, clock, self.scheduler.handle)
        self._ungaters = (TopologyUngater(cache, core, clock), SliceUngater(cache, core, clock))
        self._nodes = NodeController(cache, self._executor(NODES), clock, settings.replacement_policy(configuration))
        self._provisioning = ProvisioningController(cache, self._executor(PROVISIONING), clock)
        self._resources = [*MIRRORED, *OPTIONAL, *(resource for jobs in self._jobs for resource in jobs.resources)]
        self._held_by_gates = self._controllers_of_gated_pods(configuration, policy)
        self._resources += (resource for resources, _ in self._held_by_gates for resource in resources)
        self._supervisor = Supervisor()

    def _executor(self, name: str) -> WriteExecutor:
        return WriteExecutor(self._client, self.cache, self._recorder, name, field_manager=name)

    def _controllers_of_gated_pods(
        self, configuration: Configuration, policy: JobPolicy
    ) -> list[tuple[tuple[Resource, ...], Loop]]:
        """For kinds that cannot be suspended: each loop with the kinds that it looks at."""
        if not settings.manages_pods(configuration):
            return []
        names = settings.framework_names(configuration)
        cache, executor, clock = self.cache, self._executor("kueue-job-controller"), self._clock
        pods = PodController(cache, executor, clock=clock, policy=policy)
        found: list[tuple[tuple[Resource, ...], Loop]] = [((kinds.POD,), partial(pods.queue.run, pods.reconcile))]
        if "statefulset" in names:
            sets = StatefulSetController(cache, executor, clock=clock, policy=policy)
            found.append(((kinds.POD, kinds.STATEFUL_SET), partial(sets.queue.run, sets.reconcile)))
        if decide.NAME in names:
            groups = LeaderWorkerSetController(cache, executor, clock=clock, policy=policy)
            seen = (kinds.POD, kinds.STATEFUL_SET, kinds.LEADER_WORKER_SET)
            found.append((seen, partial(groups.queue.run, groups.reconcile)))
        return found

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
        feeds = InformerSet(self._client, self.cache, self._clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(feeds.run(self._resources))
            group.create_task(self._recorder.run())
            group.create_task(self.scheduler.run())
            group.create_task(self._places.run())
            group.create_task(self._follow_pods(feeds))
            for resources, loop in self._loops():
                group.create_task(self._once_listed(resources, loop))

    def _loops(self) -> Iterator[tuple[Iterable[Resource], Loop]]:
        """Every controller's loop, and the kinds besides `MIRRORED` that it takes to be absent if it does not see them."""
        yield (), partial(self._workloads.queue.run, self._workloads.reconcile, workers=_WORKERS)
        yield (), partial(self._queues.cluster_queues.run, self._queues.reconcile_cluster_queue)
        yield (), partial(self._queues.local_queues.run, self._queues.reconcile_local_queue)
        yield (), partial(self._queues.cohorts.run, self._queues.reconcile_cohort)
        yield (), partial(self._in_use.queue.run, self._in_use.reconcile)
        yield (), partial(self._classes.queue.run, self._classes.reconcile)
        yield PROVISIONING_RESOURCES, partial(self._provisioning.checks.run, self._provisioning.reconcile_check)
        yield PROVISIONING_RESOURCES, partial(self._provisioning.workloads.run, self._provisioning.reconcile_workload)
        for ungater in self._ungaters:
            yield (kinds.POD, kinds.WORKLOAD), partial(ungater.queue.run, ungater.reconcile)
        yield (kinds.POD,), partial(self._nodes.queue.run, self._nodes.reconcile)
        for jobs in self._jobs:
            yield jobs.resources, partial(jobs.queue.run, jobs.reconcile, workers=_WORKERS)
        if self._usage is not None:
            yield (), partial(self._usage.queue.run, self._usage.reconcile)
        yield from self._held_by_gates

    async def _follow_pods(self, feeds: InformerSet) -> None:
        """Pods are many: without topologies or the pod integration nobody looks at them."""
        if kinds.POD not in self._resources:
            await self._places.needed()
            await feeds.run([kinds.POD])

    async def _once_listed(self, resources: Iterable[Resource], loop: Loop) -> None:
        """A controller that looked earlier would take what is not here yet for gone, and let go of running jobs."""
        await self.cache.listed((*MIRRORED, *resources))
        await loop()
