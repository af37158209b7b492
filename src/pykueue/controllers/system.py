"""All controllers as one part: built on any client, started in process by `pykueue up` and on a cluster elsewhere."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from pykueue.api import resources as kinds
from pykueue.api.scheme import Object, Resource
from pykueue.controllers import settings
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
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.event_recorder import EventRecorder
from pykueue.kube.controller.informer_set import InformerSet

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
        self.mirror = mirror = ObjectCache()
        _add_indexes(mirror)
        self._recorder = EventRecorder(client, clock, controller="kueue", instance=f"kueue-{socket.gethostname()}")
        self.scheduler = Scheduler(
            client, mirror, self._applier("kueue-admission"), clock=clock, configuration=configuration
        )
        frameworks = settings.frameworks(configuration)
        self.metrics = Metrics(
            mirror,
            self.scheduler.engine.view,
            clock,
            configuration,
            role=role,
            job_resources=(kinds.POD, *(kind.resource for kind in frameworks.values())),
        )
        self.scheduler.metrics = self.metrics
        self._workloads = WorkloadController(
            self.scheduler,
            mirror,
            self._applier("kueue-workload-controller"),
            clock=clock,
            policy=settings.lifecycle_policy(configuration),
        )
        core = self._applier("kueue")
        self._queues = QueueControllers(self.scheduler, mirror, core, clock)
        self._usage: UsageSampler | None = None
        if self.scheduler.usage_sharing is not None:
            self._usage = UsageSampler(self.scheduler, mirror, core, clock=clock, config=self.scheduler.usage_sharing)
        self._in_use = InUseController(mirror, core, clock)
        self._classes = PriorityClassController(mirror, core, clock)
        policy = settings.job_policy(configuration)
        self._jobs = [
            JobController(
                kind,
                client,
                mirror,
                self._applier("kueue-job-controller"),
                clock=clock,
                policy=policy,
                frameworks=frameworks,
            )
            for kind in frameworks.values()
        ]
        self._places = TopologyEventSource(mirror, clock, self.scheduler.tell)
        self._ungaters = (TopologyUngater(mirror, core, clock), SliceUngater(mirror, core, clock))
        self._nodes = NodeController(mirror, self._applier(NODES), clock, settings.replacement_policy(configuration))
        self._provisioning = ProvisioningController(mirror, self._applier(PROVISIONING), clock)
        self._resources = [*MIRRORED, *OPTIONAL, *(resource for jobs in self._jobs for resource in jobs.resources)]
        self._held_by_gates = self._controllers_of_gated_pods(configuration, policy)
        self._resources += (resource for resources, _ in self._held_by_gates for resource in resources)
        self._task: asyncio.Task[None] | None = None

    def _applier(self, name: str) -> Applier:
        return Applier(self._client, self.mirror, self._recorder, name)

    def _controllers_of_gated_pods(
        self, configuration: Configuration, policy: JobPolicy
    ) -> list[tuple[tuple[Resource, ...], Loop]]:
        """For kinds that cannot be suspended: each loop with the kinds that it looks at."""
        if not settings.manages_pods(configuration):
            return []
        names = settings.framework_names(configuration)
        mirror, applier, clock = self.mirror, self._applier("kueue-job-controller"), self._clock
        pods = PodController(mirror, applier, clock=clock, policy=policy)
        found: list[tuple[tuple[Resource, ...], Loop]] = [((kinds.POD,), partial(pods.queue.run, pods.reconcile))]
        if "statefulset" in names:
            sets = StatefulSetController(mirror, applier, clock=clock, policy=policy)
            found.append(((kinds.POD, kinds.STATEFUL_SET), partial(sets.queue.run, sets.reconcile)))
        if decide.NAME in names:
            groups = LeaderWorkerSetController(mirror, applier, clock=clock, policy=policy)
            seen = (kinds.POD, kinds.STATEFUL_SET, kinds.LEADER_WORKER_SET)
            found.append((seen, partial(groups.queue.run, groups.reconcile)))
        return found

    async def start(self) -> None:
        self._task = asyncio.create_task(self.run())
        while not all(self.mirror.is_listed(resource) for resource in REQUIRED_KINDS):
            if self._task.done():
                await self._task
            await self._clock.sleep(0.01)

    async def listed(self) -> None:
        """Returns when all that decisions depend on has been seen."""
        await self.mirror.listed(REQUIRED_KINDS)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self) -> None:
        feeds = InformerSet(self._client, self.mirror, self._clock)
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
        await self.mirror.listed((*MIRRORED, *resources))
        await loop()


def _add_indexes(mirror: ObjectCache) -> None:
    mirror.add_index(kinds.WORKLOAD, "localQueue", _local_queue_of)
    mirror.add_index(kinds.WORKLOAD, "owner", _owner_of)
    mirror.add_index(kinds.WORKLOAD, "workloadPriorityClass", _priority_class_of)
    mirror.add_index(kinds.LOCAL_QUEUE, "clusterQueue", lambda queue: [queue["spec"].get("clusterQueue", "")])
    mirror.add_index(kinds.LIMIT_RANGE, "namespace", lambda item: [item["metadata"]["namespace"]])


def _local_queue_of(workload: Object) -> list[str]:
    return [f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}"]


def _owner_of(workload: Object) -> list[str]:
    namespace = workload["metadata"]["namespace"]
    return [
        f"{reference['kind']}/{namespace}/{reference['name']}"
        for reference in workload["metadata"].get("ownerReferences") or ()
        if reference.get("controller")
    ]


def _priority_class_of(workload: Object) -> list[str]:
    reference = workload["spec"].get("priorityClassRef") or {}
    return [reference["name"]] if reference.get("kind") == "WorkloadPriorityClass" else []
