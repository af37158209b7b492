"""The kubelet: one `PodWorker` for each pod runs its containers and writes its status."""

import asyncio
import functools
import logging
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pykueue.api import objects, reserved_keys, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import component_deployments, paths, pods
from pykueue.cluster.kubelet import admission, claimed_devices, environment, pod_writes, probes, status, volumes
from pykueue.cluster.kubelet.devices import DeviceManager, GpuDevice
from pykueue.cluster.kubelet.environment import Find, MissingSourceError
from pykueue.cluster.kubelet.foreign_gpus import GpuPrograms
from pykueue.cluster.kubelet.pod_security import PodSecurity
from pykueue.cluster.kubelet.probes import ProbeWorker
from pykueue.cluster.kubelet.run import Exit, Start, Stop
from pykueue.cluster.runtimes.port_mapping import ADDRESS
from pykueue.cluster.runtimes.protocol import (
    Container,
    ContainerRequest,
    Execution,
    Runtime,
    StartError,
    StillPulling,
)
from pykueue.cluster.runtimes.sandbox import ContainerSecurity
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache, latest
from pykueue.kube.controller.event_recorder import EventRecorder
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import first_of
from pykueue.kube.supervisor import BackgroundTasks

log = logging.getLogger(__name__)

_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
_SHUTDOWN_GRACE_SECONDS = 5.0


RETRY_SECONDS = 1.0
"""After a write that failed."""


class Kubelet:
    """Runs every bound pod. The cluster has one kubelet for all its nodes."""

    def __init__(
        self,
        cache: ObjectCache,
        executor: WriteExecutor,
        clock: Clock,
        *,
        recorder: EventRecorder,
        runtime: Runtime,
        root: Path,
        security: PodSecurity | None = None,
    ) -> None:
        self.runtime = runtime
        self.security = security
        self.recorder = recorder
        self.cache = cache
        self.executor = executor
        self.clock = clock
        self.root = root
        self.gpu_programs = GpuPrograms(is_real=runtime.has_files)
        self.devices = DeviceManager(lambda name: cache.get(resources.NODE, name))
        for kind in (resources.POD, resources.NODE, resources.NAMESPACE, *environment.SOURCES.values()):
            cache.add_kind(kind)
        self._workers: dict[str, PodWorker] = {}
        self._background = BackgroundTasks()
        self._is_running = False
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.NODE, self._node_changed)

    async def run(self) -> None:
        """Adopt or remove the containers of an earlier kubelet, then run every bound pod."""
        self._is_running = True
        pods_by_uid = {objects.uid(pod): pod for pod in self.cache.all(resources.POD)}
        for pod in pods_by_uid.values():
            self.devices.restore(pod)
        for pod in pods_by_uid.values():
            self._follow(pod)
        for uid in self.runtime.pods():
            if uid not in pods_by_uid:
                await self.forget(uid)
            elif pods.is_finished(pods_by_uid[uid]):
                await self.runtime.clear(uid)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Terminate every pod, as a node that shuts down does."""
        self._is_running = False
        workers = [worker for worker in self._workers.values() if not worker.is_component]
        for worker in workers:
            worker.shut_down()
        await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)

    def abandon(self) -> None:
        """Stop all workers. The processes of the pods go on."""
        self._is_running = False
        for worker in list(self._workers.values()):
            worker.cancel()
        self._workers.clear()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ns() / SECOND_NS, UTC)

    def is_running(self, pod_uid: str, container: str) -> bool:
        """Whether the container may still write to its log."""
        worker = self._workers.get(pod_uid)
        return worker is not None and worker.may_write(container)

    async def execute(
        self, pod_uid: str, container: str, command: tuple[str, ...], *, terminal: bool, wants_input: bool
    ) -> Execution:
        """Run another command in a container; StartError if the container does not run."""
        worker = self._workers.get(pod_uid)
        request = None if worker is None else worker.running_request(container)
        if request is None:
            raise StartError(f"container {container} is not running")
        exec_request = msgspec.structs.replace(request, command=command)
        return await self.runtime.execute(exec_request, terminal=terminal, wants_input=wants_input)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._is_running:
            return
        uid = objects.uid(latest(old, new))
        if new is not None:
            self._follow(new)
        elif worker := self._workers.get(uid):
            worker.removed()
        elif uid in self.runtime.pods():
            self._background.start(self.forget(uid))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        """Run the pods that were bound to a new node before the cache had it."""
        if self._is_running and old is None and new is not None:
            for pod in self.cache.all(resources.POD):
                if pods.node_name(pod) == objects.name(new):
                    self._follow(pod)

    def _follow(self, pod: Object) -> None:
        """Run a pod that is bound to a node; the pods of deleted nodes are garbage."""
        uid, node = objects.uid(pod), self.cache.get(resources.NODE, pods.node_name(pod))
        if worker := self._workers.get(uid):
            worker.changed(pod)
        elif node is None or (admission.is_gated(pod) and not objects.is_deleted(pod)):
            return
        elif not pods.is_finished(pod):
            self._workers[uid] = PodWorker(self, pod, self._rejection(pod, node))
        elif objects.is_deleted(pod):
            self._background.start(self.remove(pod))

    def _rejection(self, pod: Object, node: Object) -> tuple[str, str] | None:
        """Why the node rejects a pod that has not started yet; None if it accepts it."""
        if objects.is_deleted(pod) or "startTime" in objects.status(pod):
            return None
        others = [worker.pod for worker in self._workers.values() if worker.uses_node(objects.name(node))]
        return admission.rejection(pod, node, others)

    async def forget(self, uid: str) -> None:
        """Remove the processes, logs and volumes of a pod that no longer exists in the API."""
        await self.runtime.forget(uid)
        await asyncio.to_thread(paths.remove_tree, paths.inside(self._volumes, uid))

    @property
    def _volumes(self) -> Path:
        return self.root / "volumes"

    def prepare_volumes(self, pod: Object, find: Find) -> dict[str, Path]:
        """The directories of the pod's volumes; none if containers run without files."""
        if self.runtime.has_files:
            return volumes.prepare(pod, self._volumes, find)
        volumes.check_sources(pod, find)
        return {}

    async def remove(self, pod: Object) -> None:
        """Delete a terminated pod from the API. It stays until its finalizers are removed."""
        while pod_writes.may_succeed_later(await self.executor.run(pod_writes.removal(pod))):
            await self.clock.sleep(RETRY_SECONDS)

    def ended(self, uid: str) -> None:
        self._workers.pop(uid, None)


class PodWorker:
    """Runs one pod, from its binding to its end."""

    def __init__(self, kubelet: Kubelet, pod: Object, rejection: tuple[str, str] | None = None) -> None:
        self._kubelet = kubelet
        self._pod = pod
        self._uid = objects.uid(pod)
        now = kubelet.now()
        self._run = status.restore(pod, now)
        self._containers: dict[str, Container] = {}
        self._tasks = BackgroundTasks()
        self._probe_tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._is_removed = False
        self._is_shutting_down = False
        self.task = asyncio.ensure_future(self._run_pod())
        if objects.is_deleted(pod):
            self._run.stop(now)
        elif rejection is not None:
            self._run.stop(now, *rejection)
            self._record(*rejection, type_="Warning")

    @property
    def pod(self) -> Object:
        return self._pod

    def uses_node(self, name: str) -> bool:
        """Whether the pod needs resources of the node; a pod that the API lost needs none."""
        return pods.node_name(self._pod) == name and not self._run.is_over and not self._is_removed

    # Events

    def changed(self, pod: Object) -> None:
        self._pod = self._run.pod = pod
        if objects.is_deleted(pod):
            self._run.stop(self._kubelet.now())
            self._changed.set()
        elif self._run.add_ephemeral():
            self._changed.set()

    def removed(self) -> None:
        """The pod no longer exists in the API: kill its containers without a grace period."""
        self._is_removed = True
        self._run.stop(self._kubelet.now())
        self._changed.set()

    def shut_down(self) -> None:
        self._is_shutting_down = True
        self._run.stop(self._kubelet.now(), "Terminated", _SHUTDOWN)
        self._changed.set()

    def may_write(self, container: str) -> bool:
        run = self._run.containers.get(container)
        return run is not None and run.phase != "ended"

    def running_request(self, container: str) -> ContainerRequest | None:
        """The request that a running container was started with; None if it does not run."""
        run = self._run.containers.get(container)
        if run is None or run.phase != "running":
            return None
        devices = self._kubelet.devices.of(self._pod)
        return self._request(container, devices.at(devices.allocated(self._uid)))

    @property
    def is_component(self) -> bool:
        """Whether the pod stands for a component of pykueue; `stop` does not terminate it."""
        return component_deployments.of(self._pod) is not None

    def cancel(self) -> None:
        self._tasks.cancel()
        for task in (self.task, *self._probe_tasks.values()):
            task.cancel()

    # The loop

    async def _run_pod(self) -> None:
        try:
            await self._adopt_containers()
            is_written = False
            while not (self._run.is_over and is_written):
                self._changed.clear()
                for action in self._run.due(self._kubelet.now()):
                    await self._perform(action)
                is_written = await self._write_status()
                if not is_written:
                    await first_of(self._changed, self._kubelet.clock, RETRY_SECONDS)
                elif not self._run.is_over:
                    await self._wait()
        except Exception:
            log.exception("pod %s/%s", objects.namespace(self._pod), objects.name(self._pod))
        await self._end()

    async def _adopt_containers(self) -> None:
        """Adopt the containers that an earlier kubelet started."""
        for name, run in self._run.containers.items():
            if run.phase == "running":
                container = await self._kubelet.runtime.adopt(self._adoption_request(name), run.container_id)
                if container is None:
                    self._run.exited(name, Exit(code=137, reason="ContainerStatusUnknown"), self._kubelet.now())
                else:
                    self._follow_container(name, container)

    async def _perform(self, action: Start | Stop) -> None:
        if isinstance(action, Stop):
            container = self._containers.get(action.container)
            if container is not None:
                self._record("Killing", f"Stopping container {action.container}")
                self._tasks.start(self._stop(action.container, container))
            return
        name, now = action.container, self._kubelet.now()
        try:
            container = await self._start(name)
        except MissingSourceError as error:
            self._run.start_delayed(name, ("CreateContainerConfigError", str(error)), now)
            self._record("Failed", f"Error: {error}", type_="Warning")
        except StillPulling as pulling:
            self._run.start_delayed(name, ("ContainerCreating", ""), now, pulling.remaining)
            self._record("Pulling", str(pulling))
        except StartError as error:
            self._run.exited(name, error.exit, now)
            self._record("Failed", f"Error: {error}", type_="Warning")
        except Exception as error:
            log.exception("pod %s/%s", objects.namespace(self._pod), objects.name(self._pod))
            self._run.start_delayed(name, ("CreateContainerError", str(error)), now)
        else:
            self._run.started(name, container.id, now)
            self._follow_container(name, container)
            self._record("Started", f"Started container {name}")
        self._changed.set()

    def _record(self, reason: str, message: str, type_: str = "Normal") -> None:
        self._kubelet.recorder.record(self._pod, event_type=type_, reason=reason, message=message, component="kubelet")

    async def _start(self, name: str) -> Container:
        kubelet = self._kubelet
        # A kubelet that was killed may have started this attempt before it wrote the status.
        adopted = await kubelet.runtime.adopt(self._adoption_request(name), "")
        if adopted is not None:
            return adopted
        return await kubelet.runtime.start(self._request(name, await self._allocate_devices()))

    def _request(self, name: str, gpus: tuple[GpuDevice, ...] = ()) -> ContainerRequest:
        """The request to start a container; MissingSourceError without a ConfigMap."""
        find, security = self._find, self._kubelet.security
        directories = self._kubelet.prepare_volumes(self._pod, find)
        container = self._run.containers[name].spec
        pod = self._pod_with_address()
        variables = environment.variables(pod, container, find) | claimed_devices.variables(pod, container, find)
        return ContainerRequest(
            pod=pod,
            container=container,
            attempt=self._run.containers[name].attempt,
            command=tuple(environment.command(container, variables)),
            environment=variables,
            mounts=volumes.mounts(pod, container, variables, directories),
            gpu_indexes=tuple(dict.fromkeys(device.gpu for device in gpus)),
            gpu_uuids=tuple(device.uuid for device in gpus if device.uuid),
            security=ContainerSecurity() if security is None else security.security_of(pod, container),
            ignores_memory_limit=self._ignores_memory_limit(),
        )

    def _ignores_memory_limit(self) -> bool:
        """The operator of Ray decides it for its pods, an administrator for a namespace."""
        namespace = self._kubelet.cache.get(resources.NAMESPACE, objects.namespace(self._pod))
        deciders = [self._pod] if namespace is None else [self._pod, namespace]
        return any(objects.annotations(obj).get(reserved_keys.MEMORY_LIMIT) == "ignore" for obj in deciders)

    def _pod_with_address(self) -> Object:
        address = {"podIP": ADDRESS, "hostIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "hostIPs": [{"ip": ADDRESS}]}
        return self._pod | {"status": objects.status(self._pod) | address}

    async def _allocate_devices(self) -> tuple[GpuDevice, ...]:
        """Allocate the pod's GPUs, and annotate the pod before its first process starts."""
        devices = self._kubelet.devices.of(self._pod)
        indexes = await self._kubelet.gpu_programs.allocate(self._pod, devices)
        annotation = ",".join(map(str, indexes))
        if annotation != objects.annotations(self._pod).get(reserved_keys.GPU_INDEXES, ""):
            patch = {"metadata": {"annotations": {reserved_keys.GPU_INDEXES: annotation or None}}}
            await self._kubelet.executor.run(pod_writes.patch(self._pod, patch))
        return devices.at(indexes)

    def _adoption_request(self, name: str) -> ContainerRequest:
        run = self._run.containers[name]
        return ContainerRequest(pod=self._pod, container=run.spec, attempt=run.attempt)

    def _find(self, kind: str, name: str) -> Object | None:
        return self._kubelet.cache.get(environment.SOURCES[kind], name, objects.namespace(self._pod))

    def _grace_seconds(self) -> float:
        if self._is_removed:
            return 0
        spec, metadata = self._pod["spec"], self._pod["metadata"]
        default = spec.get("terminationGracePeriodSeconds", 30)
        grace = float(metadata.get("deletionGracePeriodSeconds", default))
        return min(grace, _SHUTDOWN_GRACE_SECONDS) if self._is_shutting_down else grace

    def _follow_container(self, name: str, container: Container) -> None:
        self._containers[name] = container

        async def follow() -> None:
            exit_status = await container.wait()
            if name in self._probe_tasks:
                self._probe_tasks.pop(name).cancel()
            self._run.exited(name, exit_status, self._kubelet.now())
            self._changed.set()

        self._tasks.start(follow())
        self._start_probes(name)

    # Probes and hooks

    def _start_probes(self, name: str) -> None:
        run = self._run.containers[name]
        if not probes.needs_worker(run.spec):
            return
        worker = ProbeWorker(
            run.spec,
            self._kubelet.clock,
            functools.partial(self._run_handler, name),
            functools.partial(self._probe_reported, name),
            has_started=run.has_started,
        )
        self._probe_tasks[name] = asyncio.ensure_future(worker.run())

    async def _run_handler(self, name: str, handler: Object) -> str:
        if "sleep" in handler:
            await self._kubelet.clock.sleep(float(handler["sleep"]["seconds"]))
            return ""
        try:
            return await self._kubelet.runtime.handle(self._request(name), handler)
        except Exception as error:  # noqa: BLE001 - a container is stopped whatever its hook does
            return str(error)

    def _probe_reported(
        self,
        name: str,
        kind: str,
        verdict: bool | None,  # noqa: FBT001 - a verdict
        error: str,
    ) -> None:
        run = self._run.containers[name]
        if error and kind == probes.POST_START:
            self._record("FailedPostStartHook", f"PostStartHook failed: {error}", type_="Warning")
        elif error:
            self._record("Unhealthy", f"{kind.capitalize()} probe failed: {error}", type_="Warning")
        if kind == probes.READINESS and verdict is not None:
            run.is_ready = verdict
        elif kind == probes.STARTUP and verdict:
            self._run.startup_completed(name)
        elif verdict is False:
            run.failed_probe = True
            cause = "FailedPostStartHook" if kind == probes.POST_START else f"Container {name} failed {kind} probe"
            self._record("Killing", f"{cause}, will be restarted")
        self._changed.set()

    async def _stop(self, name: str, container: Container) -> None:
        """Run the preStop hook within the grace period, then stop the container."""
        grace, started_at = self._grace_seconds(), self._kubelet.now()
        handler = probes.lifecycle_hook(self._run.containers[name].spec, probes.PRE_STOP)
        if handler is not None and grace > 0:
            try:
                error = await asyncio.wait_for(self._run_handler(name, handler), grace)
            except TimeoutError:
                error = f"timed out after {grace:g}s"
            if error:
                self._record("FailedPreStopHook", f"PreStopHook failed: {error}", type_="Warning")
            grace = max(1.0, grace - (self._kubelet.now() - started_at).total_seconds())
        await container.stop(grace)

    async def _wait(self) -> None:
        wake_at = self._run.wake_at
        if wake_at is None:
            await self._changed.wait()
            return
        seconds = max(0.0, (wake_at - self._kubelet.now()).total_seconds())
        await first_of(self._changed, self._kubelet.clock, seconds)

    async def _write_status(self) -> bool:
        """Write the status if it changed; False if the API failed: repeat it then."""
        if self._is_removed:
            return True
        new_status = status.render(self._run, self._kubelet.now(), ADDRESS)
        patch = writes.merge_patch(objects.status(self._pod), objects.status(self._pod) | new_status)
        if not patch:
            return True
        if "conditions" in patch:
            patch["conditions"] = _with_removed_fields(self._pod, patch["conditions"])
        done = await self._kubelet.executor.run(pod_writes.patch(self._pod, {"status": patch}, "status"))
        if not done.errors:
            self._pod = self._run.pod = self._pod | {"status": objects.status(self._pod) | new_status}
        return not pod_writes.may_succeed_later(done)

    async def _end(self) -> None:
        await self._tasks.wait()
        kubelet = self._kubelet
        await kubelet.runtime.clear(self._uid)
        kubelet.devices.of(self._pod).release(self._uid)
        kubelet.ended(self._uid)
        if self._is_removed:
            await kubelet.forget(self._uid)
        elif objects.is_deleted(self._pod):
            await kubelet.remove(self._pod)


def _with_removed_fields(pod: Object, conditions: list[Object]) -> list[Object]:
    """Conditions are merged by their type, so a field that a condition no longer has is null."""
    before = {condition["type"]: condition for condition in objects.nested_list(pod, "status", "conditions")}
    return [dict.fromkeys(before.get(condition["type"], ())) | condition for condition in conditions]
