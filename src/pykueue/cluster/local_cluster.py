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

from pykueue.api import resources
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.cluster import component_deployments
from pykueue.cluster import nodes as machines
from pykueue.cluster.apps import deployment, replica_set, stateful_set
from pykueue.cluster.autoscaler.controller import Autoscaler
from pykueue.cluster.component_deployments import ComponentRuntime, Journal
from pykueue.cluster.cron_job_controller import sync as cron_sync
from pykueue.cluster.job_controller import controller as jobs
from pykueue.cluster.kubelet.agent import Agent
from pykueue.cluster.node_lifecycle import NodeLifecycleController
from pykueue.cluster.operators import job_set, leader_worker_set, train_job
from pykueue.cluster.operators.kubeflow import sync as training
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS
from pykueue.cluster.operators.ray import cluster as ray_cluster
from pykueue.cluster.operators.ray import job as ray_job
from pykueue.cluster.operators.ray import service as ray_service
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import Runtime
from pykueue.cluster.runtimes.simulated import SimulatedRuntime
from pykueue.cluster.scheduler.controller import SchedulerController
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.controller import Controller, Sync
from pykueue.kube.controller.core_event_recorder import Recorder
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import Views

log = logging.getLogger(__name__)

PODS_TOGETHER_NS = 100_000_000
"""Pods of a Job that end together are counted together, as Kubernetes counts them (it waits for a second)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What the room is given: a runtime (none, simulated, process), a place for files, and Node and NodePool manifests if any."""

    runtime: str = "none"
    directory: Path = Path()
    nodes: tuple[Object, ...] = ()
    shows_itself: bool = False
    """Whether the parts inside pykueue appear as deployments."""


class LocalCluster:
    def __init__(self, client: Client, clock: Clock, furnishing: ClusterOptions | None = None) -> None:
        self._client = client
        self._clock = clock
        self._furnishing = furnishing or ClusterOptions()
        self._views = Views(client)
        self._recorder = Recorder(client, clock)
        self._controllers = [self._job_controller(), *self._other_controllers()]
        if self._furnishing.runtime != "none":
            self._controllers += self._operators()
        self._tasks: list[asyncio.Task[None]] = []
        self._journal = Journal(self._furnishing.directory / "journal")
        self.placement: SchedulerController | None = None
        self.agent: Agent | None = None
        if self._furnishing.runtime != "none":
            self.placement = SchedulerController(self._views, self._performer("default-scheduler"), clock)
            self._lost_nodes = NodeLifecycleController(self._views, self._performer("pod-garbage-collector"), clock)
            self._pools = Autoscaler(self._views, self.placement, self._performer("cluster-autoscaler"), clock)
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
                await component_deployments.ensure(self._client)
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
        return ComponentRuntime(inner, self._journal)

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
        nodes = self._views.of(resources.NODE)
        for found in wanted:
            if nodes.get(found["metadata"]["name"]) is None:
                await self._client.create(resources.NODE, found)
                name, status = found["metadata"]["name"], {"status": found["status"]}
                nodes.wrote(await self._client.patch(resources.NODE, name, "", status, subresource="status"))

    async def _set_up_pools(self) -> None:
        for found in self._furnishing.nodes:
            if (
                found.get("kind") == "NodePool"
                and self._views.of(resources.NODE_POOL).get(found["metadata"]["name"]) is None
            ):
                await self._client.create(resources.NODE_POOL, found)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_tell_failure)
        self._tasks.append(task)

    def _performer(self, component: str) -> WriteExecutor:
        return WriteExecutor(self._client, self._views, self._recorder, component)

    def _job_controller(self) -> Controller:
        reconciler = jobs.JobReconciler()
        return Controller(
            resources.JOB,
            (resources.POD,),
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
            self._controller("cronjob-controller", resources.CRON_JOB, cron_sync.sync, resources.JOB),
            self._controller("replicaset-controller", resources.REPLICA_SET, replica_set.sync, resources.POD),
            self._controller("deployment-controller", resources.DEPLOYMENT, deployment.sync, resources.REPLICA_SET),
            self._controller("statefulset-controller", resources.STATEFUL_SET, stateful_set.sync, resources.POD),
        ]

    def _operators(self) -> list[Controller]:
        """Controllers of kinds that Kubernetes does not know by itself."""
        return [
            self._controller(
                "raycluster-controller", resources.RAY_CLUSTER, ray_cluster.sync, resources.POD, resources.SERVICE
            ),
            self._controller(
                "rayjob-controller", resources.RAY_JOB, ray_job.sync, resources.RAY_CLUSTER, resources.JOB
            ),
            self._controller(
                "rayservice-controller",
                resources.RAY_SERVICE,
                ray_service.sync,
                resources.RAY_CLUSTER,
                resources.JOB,
                resources.SERVICE,
            ),
            self._controller("jobset", resources.JOB_SET, job_set.sync, resources.JOB),
            self._train_jobs(),
            self._controller("leaderworkerset", resources.LEADER_WORKER_SET, leader_worker_set.sync, resources.POD),
            *(
                self._controller(
                    f"{framework.kind.lower()}-controller",
                    framework.resource,
                    training.reconciler(framework),
                    resources.POD,
                )
                for framework in FRAMEWORKS
            ),
        ]

    def _train_jobs(self) -> Controller:
        runtimes = {
            resource: self._views.of(resource)
            for resource in (resources.TRAINING_RUNTIME, resources.CLUSTER_TRAINING_RUNTIME)
        }
        sync = train_job.reconciler(lambda found: runtimes[found.resource].get(found.name, found.namespace))
        return self._controller("trainjob", resources.TRAIN_JOB, sync, resources.JOB_SET)

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
