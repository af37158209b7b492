"""The machine room as one thing to start and stop. `pykueue up` starts it beside the API; tests start it in process.

none       Jobs get pods, CronJobs get Jobs, Deployments their ReplicaSets; nobody runs the pods
simulated  also nodes, placement and an agent that lets time pass
process    the same on this machine, with real processes
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client
from pykueue.kube.clock import SECOND_NS, Clock
from pykueue.node import job_set, kinds, leader_worker_set, machines, mirrors, train_job
from pykueue.node.apps import deployment, replica_set, stateful_set
from pykueue.node.cron import sync as cron_sync
from pykueue.node.jobs import controller as jobs
from pykueue.node.kubelet.agent import Agent
from pykueue.node.lost_nodes import LostNodes
from pykueue.node.mirrors import Journal, MirroringRuntime
from pykueue.node.placement.controller import Placement
from pykueue.node.pools.controller import Pools
from pykueue.node.ray import cluster as ray_cluster
from pykueue.node.ray import job as ray_job
from pykueue.node.ray import service as ray_service
from pykueue.node.runtimes.process import ProcessRuntime
from pykueue.node.runtimes.protocol import Runtime
from pykueue.node.runtimes.simulated import SimulatedRuntime
from pykueue.node.shell.controller import Controller, Sync
from pykueue.node.shell.performer import Performer
from pykueue.node.shell.recorder import Recorder
from pykueue.node.shell.views import Views
from pykueue.node.training import sync as training
from pykueue.node.training.frameworks import FRAMEWORKS
from pykueue.translate.jobs.train_job import CLUSTER_RUNTIME, RUNTIME

log = logging.getLogger(__name__)

PODS_TOGETHER_NS = 100_000_000
"""Pods of a Job that end together are counted together, as Kubernetes counts them (it waits for a second)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """What the room is given: a runtime (none, simulated, process), a place for files, and Node and NodePool manifests if any."""

    runtime: str = "none"
    directory: Path = Path()
    nodes: tuple[Object, ...] = ()
    shows_itself: bool = False
    """Whether the parts inside pykueue appear as deployments."""


class MachineRoom:
    def __init__(self, client: Client, clock: Clock, furnishing: Furnishing | None = None) -> None:
        self._client = client
        self._clock = clock
        self._furnishing = furnishing or Furnishing()
        self._views = Views(client)
        self._recorder = Recorder(client, clock)
        self._controllers = [self._job_controller(), *self._other_controllers()]
        if self._furnishing.runtime != "none":
            self._controllers += self._operators()
        self._tasks: list[asyncio.Task[None]] = []
        self._journal = Journal(self._furnishing.directory / "journal")
        self.placement: Placement | None = None
        self.agent: Agent | None = None
        if self._furnishing.runtime != "none":
            self.placement = Placement(self._views, self._performer("default-scheduler"), clock)
            self._lost_nodes = LostNodes(self._views, self._performer("pod-garbage-collector"), clock)
            self._pools = Pools(self._views, self.placement, self._performer("cluster-autoscaler"), clock)
            self.agent = Agent(
                self._views,
                self._performer("kubelet"),
                clock,
                recorder=self._recorder,
                runtime=self._runtime(),
                root=self._furnishing.directory,
            )

    async def start(self) -> None:
        """Returns when every view has been filled and everything runs."""
        self._begin(self._recorder.run())
        for informer in self._views.informers():
            self._begin(informer.run())
        for informer in self._views.informers():
            await informer.synced()
        if self.placement is not None and self.agent is not None:
            await self._set_up_nodes()
            self._journal.open()
            if self._furnishing.shows_itself:
                await mirrors.ensure(self._client)
            self._begin(self.agent.run())
            self._begin(self.placement.run())
            self._begin(self._pools.run())
            self._begin(self._lost_nodes.run())
        for controller in self._controllers:
            self._begin(controller.run())

    async def stop(self) -> None:
        """Ends every pod, then everything else."""
        if self.agent is not None:
            await self.agent.stop()
        await self.abandon()

    async def abandon(self) -> None:
        """Stops working and leaves what runs running: the next room takes it over."""
        if self.agent is not None:
            self.agent.abandon()
        self._journal.close()
        for task in reversed(self._tasks):
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()

    def log_of(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        return None if self.agent is None else self.agent.runtime.log(pod, container, attempt)

    def ports_of(self, pod: Object) -> dict[int, int]:
        """Ports of the pod that stand elsewhere on this machine."""
        return {} if self.agent is None else self.agent.runtime.ports(pod)

    def is_running(self, pod_uid: str, container: str) -> bool:
        return self.agent is not None and self.agent.is_running(pod_uid, container)

    def _runtime(self) -> Runtime:
        inner: Runtime = SimulatedRuntime(self._clock)
        if self._furnishing.runtime == "process":
            inner = ProcessRuntime(self._furnishing.directory)
        return MirroringRuntime(inner, self._journal)

    async def _set_up_nodes(self) -> None:
        """Makes the nodes that were given, or else those that the runtime implies; nodes that exist stay as they are."""
        now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
        if self._furnishing.nodes:
            await self._set_up_pools()
            nodes_given = [found for found in self._furnishing.nodes if found.get("kind") != "NodePool"]
            wanted = [machines.complete(found, now) for found in nodes_given]
        elif self._furnishing.runtime == "process":
            wanted = [machines.this_machine(now)]
        else:
            wanted = machines.simulated_fleet(now)
        nodes = self._views.of(kinds.NODE)
        for found in wanted:
            if nodes.get(found["metadata"]["name"]) is None:
                await self._client.create(kinds.NODE, found)
                name, status = found["metadata"]["name"], {"status": found["status"]}
                nodes.wrote(await self._client.patch(kinds.NODE, name, "", status, subresource="status"))

    async def _set_up_pools(self) -> None:
        for found in self._furnishing.nodes:
            if (
                found.get("kind") == "NodePool"
                and self._views.of(kinds.NODE_POOL).get(found["metadata"]["name"]) is None
            ):
                await self._client.create(kinds.NODE_POOL, found)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_tell_failure)
        self._tasks.append(task)

    def _performer(self, component: str) -> Performer:
        return Performer(self._client, self._views, self._recorder, component)

    def _job_controller(self) -> Controller:
        reconciler = jobs.JobReconciler()
        return Controller(
            kinds.JOB,
            (kinds.POD,),
            sync=reconciler.sync,
            views=self._views,
            performer=self._performer("job-controller"),
            clock=self._clock,
            gathers_ns=PODS_TOGETHER_NS,
            orphaned=jobs.release,
            forgotten=reconciler.forget,
        )

    def _other_controllers(self) -> list[Controller]:
        return [
            self._controller("cronjob-controller", kinds.CRON_JOB, cron_sync.sync, kinds.JOB),
            self._controller("replicaset-controller", kinds.REPLICA_SET, replica_set.sync, kinds.POD),
            self._controller("deployment-controller", kinds.DEPLOYMENT, deployment.sync, kinds.REPLICA_SET),
            self._controller("statefulset-controller", kinds.STATEFUL_SET, stateful_set.sync, kinds.POD),
        ]

    def _operators(self) -> list[Controller]:
        """Controllers of kinds that Kubernetes does not know by itself."""
        return [
            self._controller("raycluster-controller", kinds.RAY_CLUSTER, ray_cluster.sync, kinds.POD, kinds.SERVICE),
            self._controller("rayjob-controller", kinds.RAY_JOB, ray_job.sync, kinds.RAY_CLUSTER, kinds.JOB),
            self._controller(
                "rayservice-controller",
                kinds.RAY_SERVICE,
                ray_service.sync,
                kinds.RAY_CLUSTER,
                kinds.JOB,
                kinds.SERVICE,
            ),
            self._controller("jobset", kinds.JOB_SET, job_set.sync, kinds.JOB),
            self._train_jobs(),
            self._controller("leaderworkerset", kinds.LEADER_WORKER_SET, leader_worker_set.sync, kinds.POD),
            *(
                self._controller(
                    f"{framework.kind.lower()}-controller",
                    framework.resource,
                    training.reconciler(framework),
                    kinds.POD,
                )
                for framework in FRAMEWORKS
            ),
        ]

    def _train_jobs(self) -> Controller:
        runtimes = {resource: self._views.of(resource) for resource in (RUNTIME, CLUSTER_RUNTIME)}
        sync = train_job.reconciler(lambda found: runtimes[found.resource].get(found.name, found.namespace))
        return self._controller("trainjob", kinds.TRAIN_JOB, sync, kinds.JOB_SET)

    def _controller(self, component: str, owner: Resource, sync: Sync, *children: Resource) -> Controller:
        return Controller(
            owner,
            children,
            sync=sync,
            views=self._views,
            performer=self._performer(component),
            clock=self._clock,
        )


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a part of the machine room stopped", exc_info=error)
