"""The embedded cluster as one part of `pykueue up`; tests start it in process.

runtime    what runs
none       the controllers (Jobs get pods, Deployments get ReplicaSets), but no pods; without
           nodes, pods get the event FailedScheduling
simulated  also nodes, a scheduler, and a kubelet that simulates containers
process    the same, with containers as processes of this machine
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pykueue.api import objects, resources
from pykueue.api.rules.jobs import wrapped_kinds
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.cluster import component_deployments, nodes, pods, refused_children
from pykueue.cluster.apps import deployment, replica_set, stateful_set
from pykueue.cluster.autoscaler.controller import Autoscaler
from pykueue.cluster.component_deployments import ComponentLogs, ComponentRuntime
from pykueue.cluster.cron_job_controller import sync as cron_sync
from pykueue.cluster.job_controller import sync as jobs
from pykueue.cluster.kubelet.kubelet import Kubelet
from pykueue.cluster.kubelet.pod_security import PodSecurity
from pykueue.cluster.operators import (
    app_wrapper,
    job_set,
    leader_worker_set,
    managed_by,
    spark_application,
    train_job,
    training_runtimes,
)
from pykueue.cluster.operators.kubeflow import sync as training
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS
from pykueue.cluster.operators.ray import cluster as ray_cluster
from pykueue.cluster.operators.ray import job as ray_job
from pykueue.cluster.operators.ray import service as ray_service
from pykueue.cluster.pod_garbage_collector import PodGarbageCollector
from pykueue.cluster.resource_claims import ResourceClaimController
from pykueue.cluster.runtimes.cgroups import Cgroups
from pykueue.cluster.runtimes.isolation import Isolation
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.podman import PodmanRuntime
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import Connection, Runtime
from pykueue.cluster.runtimes.simulated import SimulatedRuntime
from pykueue.cluster.scheduler.controller import SchedulerController
from pykueue.cluster.taint_eviction import TaintEvictionController
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.audit import CacheAudit
from pykueue.kube.controller.cache import InformerSet, ObjectCache, key_of
from pykueue.kube.controller.controller import Controller, Sync
from pykueue.kube.controller.event_recorder import CoreEvents, EventRecorder
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.supervisor import Supervisor

POD_BATCH_NS = 100_000_000
"""Pods of a Job that change within this time are counted together."""
OUTSIDE_POD_BATCH_NS = SECOND_NS
"""The same where others run the pods: Kubernetes' own time, so that Jobs show the same states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    runtime: str = "none"
    """none, simulated or process."""
    directory: Path = Path()
    """Where logs and volumes lie."""
    nodes: tuple[Object, ...] = ()
    """Node, NodePool and ResourceSlice manifests; without any, the runtime has its own nodes."""
    publish_components: bool = False
    """Whether the components inside pykueue appear as Deployments."""
    isolation: Isolation | None = None
    """How processes are isolated; None: not at all, and security contexts are ignored."""
    cgroups: Cgroups | None = None
    gpu_shares: Mapping[int | None, int] = field(default_factory=dict)
    """How many pods use a GPU of this machine at a time; see `cluster.gpus`."""
    limits: ContainerLimits = field(default_factory=ContainerLimits)


class LocalCluster:
    def __init__(self, client: Client, clock: Clock, options: ClusterOptions | None = None) -> None:
        self._client = client
        self._clock = clock
        self._options = options or ClusterOptions()
        self._cache = cache = ObjectCache()
        self._recorder = EventRecorder(client, clock, CoreEvents())
        self._supervisor = Supervisor()
        self._controllers = [self._job_controller(), *self._builtin_controllers()]
        self._component_logs = ComponentLogs(self._options.directory / "journal")
        self.kubelet: Kubelet | None = None
        has_kubelet = self._options.runtime != "none"
        self._scheduler = SchedulerController(cache, self._executor("default-scheduler"), clock, binds=has_kubelet)
        if has_kubelet:
            self._controllers += self._operators()
            self._pod_garbage_collector = PodGarbageCollector(cache, self._executor("pod-garbage-collector"), clock)
            executor = self._executor("taint-eviction-controller")
            self._taint_eviction = TaintEvictionController(cache, executor, clock)
            self._resource_claims = ResourceClaimController(cache, self._executor("resource-claim-controller"), clock)
            self._autoscaler = Autoscaler(
                cache,
                self._scheduler,
                self._executor("cluster-autoscaler"),
                clock,
                runtime=self._options.runtime,
            )
            self.kubelet = Kubelet(
                cache,
                self._executor("kubelet"),
                clock,
                recorder=self._recorder,
                runtime=self._runtime(),
                root=self._options.directory,
                security=self._pod_security(),
            )

    async def start(self) -> None:
        """Return when the cache is filled and everything runs."""
        await self._delete_nodes_of_other_runtimes()
        start = self._supervisor.start
        start("event recorder", self._recorder.run)
        start("informers", partial(InformerSet(self._client, self._cache, self._clock).run, self._cache.kinds))
        await self._supervisor.wait_for(self._cache.listed(self._cache.kinds))
        if self.kubelet is not None:
            await self._create_nodes()
            self._component_logs.open()
            if self._options.publish_components:
                await component_deployments.ensure(self._client)
                await training_runtimes.ensure(self._client)
            start("kubelet", self.kubelet.run)
            start("autoscaler", self._autoscaler.run)
            start("pod garbage collector", self._pod_garbage_collector.run)
            start("taint eviction", self._taint_eviction.run)
            start("resource claims", self._resource_claims.run)
        start("scheduler", self._scheduler.run)
        start("audit", CacheAudit(self._client, self._cache, self._clock).run)
        for controller in self._controllers:
            start(f"controller of {controller.resource.plural}", controller.run)

    async def stop(self) -> None:
        """Terminate all pods, then stop everything."""
        if self.kubelet is not None:
            await self.kubelet.stop()
        await self.abandon()

    async def abandon(self) -> None:
        """Stop everything but the containers: the next kubelet adopts them."""
        if self.kubelet is not None:
            self.kubelet.abandon()
        self._component_logs.close()
        await self._supervisor.stop()

    def log_of(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        return None if self.kubelet is None else self.kubelet.runtime.log(pod, container, attempt)

    async def connect(self, pod: Object, port: int) -> Connection:
        """Connect to a port on which the pod listens; OSError if it does not."""
        assert self.kubelet is not None
        return await self.kubelet.runtime.connect(pod, port)

    def is_running(self, pod_uid: str, container: str) -> bool:
        return self.kubelet is not None and self.kubelet.is_running(pod_uid, container)

    def _pod_security(self) -> PodSecurity | None:
        isolation = self._options.isolation
        return None if isolation is None else PodSecurity(self._cache, isolation, self._options.directory)

    def _runtime(self) -> Runtime:
        runtime: Runtime = SimulatedRuntime(self._clock)
        if self._options.runtime == "process":
            runtime = ProcessRuntime(self._options.directory, self._options.limits, self._options.cgroups)
        elif self._options.runtime == "podman":
            runtime = PodmanRuntime(self._options.directory, self._options.limits)
        return ComponentRuntime(runtime, self._component_logs)

    # Nodes

    async def _delete_nodes_of_other_runtimes(self) -> None:
        """Delete what pykueue created for another runtime; its pods are then deleted as well.

        Otherwise processes would run on simulated nodes, with CPUs and GPUs that do not exist.
        """
        for resource in (resources.NODE_POOL, resources.RESOURCE_SLICE, resources.NODE):
            for obj in (await self._client.list(resource)).items:
                if nodes.belongs_to_another_runtime(obj, self._options.runtime):
                    await self._client.delete(resource, objects.name(obj))

    async def _create_nodes(self) -> None:
        """Create the nodes of the options or of the runtime.

        Existing nodes stay; this machine gets the GPUs that it has now.
        """
        now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
        if self._options.nodes:
            for resource in (resources.NODE_POOL, resources.RESOURCE_SLICE):
                await self._create_missing(resource)
            manifests = [nodes.complete(manifest, now) for manifest in self._manifests("Node")]
        elif self._options.runtime in ("process", "podman"):
            manifests = [nodes.this_machine(now, self._options.gpu_shares)]
        else:
            manifests = nodes.simulated_fleet(now)
        for manifest in manifests:
            name, status = objects.name(manifest), {"status": manifest["status"]}
            present = self._cache.get(resources.NODE, name)
            if present is None:
                await self._client.create(resources.NODE, nodes.created_by(manifest, self._options.runtime))
                node = await self._client.patch(resources.NODE, name, "", status, subresource="status")
                self._cache.observe(resources.NODE, node)
            elif not self._options.nodes and (patches := nodes.changed_gpus(present, manifest)) is not None:
                await self._client.patch(resources.NODE, name, "", patches[0])
                node = await self._client.patch(resources.NODE, name, "", patches[1], subresource="status")
                self._cache.observe(resources.NODE, node)

    def _manifests(self, kind: str) -> list[Object]:
        return [manifest for manifest in self._options.nodes if manifest.get("kind", "Node") == kind]

    async def _create_missing(self, resource: Resource) -> None:
        """Create the objects of a kind that the options have and the API has not."""
        manifests = self._manifests(resource.kind)
        present = {objects.name(obj) for obj in (await self._client.list(resource)).items} if manifests else set()
        for manifest in manifests:
            if objects.name(manifest) not in present:
                await self._client.create(resource, nodes.created_by(manifest, self._options.runtime))

    # Controllers

    def _executor(self, component: str) -> WriteExecutor:
        return WriteExecutor(self._client, self._cache, self._recorder, component)

    def _controller(self, component: str, owner: Resource, sync: Sync, *children: Resource) -> Controller:
        return Controller(
            owner, children, sync=sync, cache=self._cache, executor=self._executor(component), clock=self._clock
        )

    def _job_controller(self) -> Controller:
        reconciler = jobs.JobReconciler()
        is_kubelet_elsewhere = self._options.runtime == "none"
        return Controller(
            resources.JOB,
            (resources.POD,),
            sync=reconciler.sync,
            cache=self._cache,
            executor=self._executor("job-controller"),
            clock=self._clock,
            batch_ns=OUTSIDE_POD_BATCH_NS if is_kubelet_elsewhere else POD_BATCH_NS,
            settled=None if is_kubelet_elsewhere else pods.is_finished,
            release_orphans=jobs.release,
            forget=reconciler.forget,
        )

    def _builtin_controllers(self) -> list[Controller]:
        return [
            self._controller("cronjob-controller", resources.CRON_JOB, cron_sync.sync, resources.JOB),
            self._controller("replicaset-controller", resources.REPLICA_SET, replica_set.sync, resources.POD),
            self._controller(
                "replication-controller", resources.REPLICATION_CONTROLLER, replica_set.sync, resources.POD
            ),
            self._controller("deployment-controller", resources.DEPLOYMENT, deployment.sync, resources.REPLICA_SET),
            self._controller("statefulset-controller", resources.STATEFUL_SET, stateful_set.sync, resources.POD),
        ]

    def _operator(self, component: str, owner: Resource, sync: Sync, *children: Resource) -> Controller:
        """A controller of a job framework; it reports children that the API refuses."""
        respecting = managed_by.respecting(owner, refused_children.reporting(owner, sync))
        return self._controller(component, owner, respecting, *children)

    def _operators(self) -> list[Controller]:
        return [
            self._operator(
                "raycluster-controller", resources.RAY_CLUSTER, ray_cluster.sync, resources.POD, resources.SERVICE
            ),
            self._operator("rayjob-controller", resources.RAY_JOB, ray_job.sync, resources.RAY_CLUSTER, resources.JOB),
            self._operator(
                "rayservice-controller",
                resources.RAY_SERVICE,
                ray_service.sync,
                resources.RAY_CLUSTER,
                resources.JOB,
                resources.SERVICE,
            ),
            self._operator("jobset", resources.JOB_SET, job_set.sync, resources.JOB),
            self._train_job_controller(),
            self._app_wrapper_controller(),
            self._operator("spark-operator", resources.SPARK_APPLICATION, spark_application.sync, resources.POD),
            self._operator("leaderworkerset", resources.LEADER_WORKER_SET, leader_worker_set.sync, resources.POD),
            *(
                self._operator(
                    f"{framework.kind.lower()}-controller",
                    framework.resource,
                    training.reconciler(framework),
                    resources.POD,
                )
                for framework in FRAMEWORKS
            ),
        ]

    def _train_job_controller(self) -> Controller:
        for resource in (resources.TRAINING_RUNTIME, resources.CLUSTER_TRAINING_RUNTIME):
            self._cache.add_kind(resource)
        sync = train_job.reconciler(lambda runtime: self._cache.get(runtime.resource, runtime.name, runtime.namespace))
        return self._operator("trainjob", resources.TRAIN_JOB, sync, resources.JOB_SET)

    def _app_wrapper_controller(self) -> Controller:
        self._cache.add_index(resources.POD, app_wrapper.LABEL, _app_wrapper_keys)

        def find_pods(wrapper: Object) -> list[Object]:
            return self._cache.indexed(resources.POD, app_wrapper.LABEL, "/".join(key_of(wrapper)))

        sync = app_wrapper.reconciler(find_pods)
        return self._operator("appwrapper", resources.APP_WRAPPER, sync, *wrapped_kinds.WATCHED)


def _app_wrapper_keys(pod: Object) -> list[str]:
    name = objects.labels(pod).get(app_wrapper.LABEL)
    return [f"{objects.namespace(pod)}/{name}"] if name else []
