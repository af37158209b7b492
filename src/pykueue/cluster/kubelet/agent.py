"""The agent at work: one task a pod that follows its `PodRun`, starts and stops containers, and writes its status."""

import asyncio
import functools
import logging
import shutil
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.cluster.kubelet import environment, probes, status, volumes
from pykueue.cluster.kubelet.devices import ANNOTATION, GPU, Devices
from pykueue.cluster.kubelet.environment import Find, MissingSourceError
from pykueue.cluster.kubelet.probe_worker import ProbeWorker
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
from pykueue.cluster.scheduler import fleet
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.core_event_recorder import Recorder
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import Views
from pykueue.kube.controller.work_queue import first_of
from pykueue.kube.informer import Change

log = logging.getLogger(__name__)

MIRROR = "pykueue.dev/mirror"
_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
_SHUTDOWN_GRACE_SECONDS = 5.0


class Agent:
    """Runs every bound pod: a room has one agent for all its nodes."""

    def __init__(
        self, views: Views, performer: WriteExecutor, clock: Clock, *, recorder: Recorder, runtime: Runtime, root: Path
    ) -> None:
        self.runtime = runtime
        self.recorder = recorder
        self.views = views
        self.performer = performer
        self.clock = clock
        self.root = root
        self.devices: dict[str, Devices] = {}
        self._pods = views.of(resources.POD)
        views.of(resources.NODE)
        self.config_maps = views.of(resources.CONFIG_MAP)
        self.secrets = views.of(resources.SECRET)
        self._lives: dict[str, PodLife] = {}
        self._loose: set[asyncio.Future[None]] = set()
        self._is_running = False
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Takes over what an earlier agent left, then follows every bound pod until cancelled."""
        self._is_running = True
        known = {objects.uid(pod): pod for pod in self._pods.items()}
        for pod in known.values():
            self._follow(pod)
        for uid in self.runtime.pods():
            if uid not in known:
                await self.forget(uid)
            elif pods.is_finished(known[uid]):
                await self.runtime.clear(uid)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Ends every pod, as a node that shuts down does."""
        self._is_running = False
        lives = [life for life in self._lives.values() if not life.outlives_us]
        for life in lives:
            life.shut_down()
        await asyncio.gather(*(life.task for life in lives), return_exceptions=True)

    def abandon(self) -> None:
        """Looks at no pod any more; their processes go on."""
        self._is_running = False
        for life in list(self._lives.values()):
            life.leave()
        self._lives.clear()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ns() / SECOND_NS, UTC)

    def is_running(self, pod_uid: str, container: str) -> bool:
        """Whether more output of the container may come."""
        life = self._lives.get(pod_uid)
        return life is not None and life.may_still_write(container)

    async def execute(
        self, pod_uid: str, container: str, command: tuple[str, ...], *, terminal: bool, wants_input: bool
    ) -> Execution:
        """Runs another command in a container; StartError if that does not run."""
        life = self._lives.get(pod_uid)
        request = None if life is None else life.asked_for(container)
        if request is None:
            raise StartError(f"container {container} is not running")
        told = msgspec.structs.replace(request, command=command)
        return await self.runtime.execute(told, terminal=terminal, wants_input=wants_input)

    def devices_of(self, node_name: str) -> Devices:
        if node_name not in self.devices:
            node = self.views.of(resources.NODE).get(node_name)
            self.devices[node_name] = Devices(fleet.capacity(node).get(GPU, 0) if node else 0)
        return self.devices[node_name]

    def _pod_changed(self, change: Change) -> None:
        if not self._is_running:
            return
        uid = objects.uid(change.object)
        if change.type != "DELETED":
            self._follow(change.object)
        elif life := self._lives.get(uid):
            life.gone()
        elif uid in self.runtime.pods():
            self._keep(asyncio.ensure_future(self.forget(uid)))

    def _follow(self, pod: Object) -> None:
        uid = objects.uid(pod)
        if life := self._lives.get(uid):
            life.changed(pod)
        elif pods.node_name(pod) and not pods.is_finished(pod):
            self._lives[uid] = PodLife(self, pod)
        elif pods.node_name(pod) and objects.is_deleted(pod):
            self._keep(asyncio.ensure_future(self.remove(pod)))

    def _keep(self, task: "asyncio.Future[None]") -> None:
        """A task that nobody awaits must still be held, or it may vanish."""
        self._loose.add(task)
        task.add_done_callback(self._loose.discard)

    async def forget(self, uid: str) -> None:
        """The pod is gone from the API: its processes, logs and volumes go too."""
        await self.runtime.forget(uid)
        await asyncio.to_thread(shutil.rmtree, self._volumes(uid), ignore_errors=True)

    def _volumes(self, uid: str) -> Path:
        return self.root / "volumes" / uid

    def prepare_volumes(self, pod: Object, find: Find) -> dict[str, Path]:
        return volumes.prepare(pod, self._volumes(objects.uid(pod)), find)

    async def remove(self, pod: Object) -> None:
        """A pod that is over and was deleted leaves the API; its finalizers may hold it for a while."""
        await self.performer.run(_removal(pod))

    def ended(self, uid: str) -> None:
        self._lives.pop(uid, None)


def _removal(pod: Object) -> writes.Sync:
    results = yield [writes.Delete(resource=resources.POD, object=pod, propagation_policy="", grace_period_seconds=0)]
    return writes.Done(errors=writes.refusals(results))


class PodLife:
    """One pod from binding to its end."""

    def __init__(self, agent: Agent, pod: Object) -> None:
        self._agent = agent
        self._pod = pod
        self._uid = objects.uid(pod)
        now = agent.now()
        self._run = status.restore(pod, now)
        self._containers: dict[str, Container] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._attendants: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._is_gone = False
        self._is_shutting_down = False
        self.task = asyncio.ensure_future(self._live())
        if objects.is_deleted(pod):
            self._run.stop(now)

    # What happens to the pod

    def changed(self, pod: Object) -> None:
        self._pod = self._run.pod = pod
        if objects.is_deleted(pod):
            self._run.stop(self._agent.now())
            self._news.set()

    def gone(self) -> None:
        """The pod was removed from the API by force."""
        self._is_gone = True
        self._run.stop(self._agent.now())
        self._news.set()

    def shut_down(self) -> None:
        self._is_shutting_down = True
        self._run.stop(self._agent.now(), "Terminated", _SHUTDOWN)
        self._news.set()

    def may_still_write(self, container: str) -> bool:
        found = self._run.containers.get(container)
        return found is not None and found.phase != "ended"

    def asked_for(self, container: str) -> ContainerRequest | None:
        """What a container that runs was told; None if it does not run."""
        found = self._run.containers.get(container)
        if found is None or found.phase != "running":
            return None
        noted = objects.annotations(self._pod).get(ANNOTATION, "")
        return self._request(container, tuple(map(int, filter(None, noted.split(",")))))

    @property
    def outlives_us(self) -> bool:
        """A mirror of ourselves is simply not up for a while."""
        return MIRROR in objects.annotations(self._pod)

    def leave(self) -> None:
        for task in (self.task, *self._watchers, *self._attendants.values()):
            task.cancel()

    # What the pod does

    async def _live(self) -> None:
        try:
            await self._resume()
            while not self._run.is_over:
                self._news.clear()
                for action in self._run.due(self._agent.now()):
                    await self._perform(action)
                await self._write_status()
                if not self._run.is_over:
                    await self._wait()
        except Exception:
            log.exception("pod %s/%s", objects.namespace(self._pod), objects.name(self._pod))
        await self._end()

    async def _resume(self) -> None:
        """Containers that ran when an earlier agent stopped looking."""
        for name, found in self._run.containers.items():
            if found.phase == "running":
                container = await self._agent.runtime.adopt(self._bare_request(name), found.container_id)
                if container is None:
                    self._run.exited(name, Exit(code=137, reason="ContainerStatusUnknown"), self._agent.now())
                else:
                    self._watch(name, container)

    async def _perform(self, action: Start | Stop) -> None:
        if isinstance(action, Stop):
            container = self._containers.get(action.container)
            if container is not None:
                self._record("Killing", f"Stopping container {action.container}")
                self._spawn(self._stop(action.container, container))
            return
        name, now = action.container, self._agent.now()
        try:
            container = await self._start(name)
        except MissingSourceError as error:
            self._run.held_back(name, ("CreateContainerConfigError", str(error)), now)
        except StillPulling as pulling:
            self._run.held_back(name, ("ContainerCreating", ""), now, pulling.left)
            self._record("Pulling", str(pulling))
        except StartError as error:
            self._run.exited(name, error.exit, now)
            self._record("Failed", f"Error: {error}", type_="Warning")
        else:
            self._run.started(name, container.id, now)
            self._watch(name, container)
            self._record("Started", f"Started container {name}")
        self._news.set()

    def _record(self, reason: str, message: str, type_: str = "Normal") -> None:
        self._agent.recorder.record(self._pod, type_=type_, reason=reason, message=message, component="kubelet")

    async def _start(self, name: str) -> Container:
        agent = self._agent
        # An agent that was killed may have started this attempt and not lived to tell.
        adopted = await agent.runtime.adopt(self._bare_request(name), "")
        if adopted is not None:
            return adopted
        return await agent.runtime.start(self._request(name, await self._take_devices()))

    def _request(self, name: str, gpus: tuple[int, ...] = ()) -> ContainerRequest:
        """All that a container is told; MissingSourceError for want of something that may yet come."""
        find = self._find
        directories = self._agent.prepare_volumes(self._pod, find)
        spec = self._run.containers[name].spec
        told = self._with_address()
        variables = environment.variables(told, spec, find)
        return ContainerRequest(
            pod=told,
            container=spec,
            attempt=self._run.containers[name].attempt,
            command=tuple(environment.command(spec, variables)),
            environment=variables,
            mounts=volumes.mounts(spec, directories),
            gpu_indexes=gpus,
        )

    def _with_address(self) -> Object:
        address = {"podIP": ADDRESS, "hostIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "hostIPs": [{"ip": ADDRESS}]}
        return self._pod | {"status": self._pod.get("status", {}) | address}

    async def _take_devices(self) -> tuple[int, ...]:
        """The pod's GPUs, noted on it before the first process sees them."""
        taken = self._agent.devices_of(pods.node_name(self._pod)).take(self._pod)
        if taken is None:
            raise MissingSourceError(f"not enough {GPU} devices are free on node {pods.node_name(self._pod)}")
        if taken and ANNOTATION not in objects.annotations(self._pod):
            note = {"metadata": {"annotations": {ANNOTATION: ",".join(map(str, taken))}}}
            await self._agent.performer.run(_patch(self._pod, note))
        return taken

    def _bare_request(self, name: str) -> ContainerRequest:
        found = self._run.containers[name]
        return ContainerRequest(pod=self._pod, container=found.spec, attempt=found.attempt)

    def _find(self, kind: str, name: str) -> Object | None:
        view = self._agent.config_maps if kind == "ConfigMap" else self._agent.secrets
        return view.get(name, objects.namespace(self._pod))

    def _grace_seconds(self) -> float:
        if self._is_gone:
            return 0
        spec, metadata = self._pod["spec"], self._pod["metadata"]
        usual = spec.get("terminationGracePeriodSeconds", 30)
        grace = float(metadata.get("deletionGracePeriodSeconds", usual))
        return min(grace, _SHUTDOWN_GRACE_SECONDS) if self._is_shutting_down else grace

    def _watch(self, name: str, container: Container) -> None:
        self._containers[name] = container

        async def follow() -> None:
            end = await container.wait()
            if name in self._attendants:
                self._attendants.pop(name).cancel()
            self._run.exited(name, end, self._agent.now())
            self._news.set()

        self._spawn(follow())
        self._attend(name)

    # Probes and hooks

    def _attend(self, name: str) -> None:
        found = self._run.containers[name]
        if not probes.needs_attention(found.spec):
            return
        attending = ProbeWorker(
            found.spec,
            self._agent.clock,
            functools.partial(self._ask, name),
            functools.partial(self._judged, name),
            is_up=found.is_up,
        )
        self._attendants[name] = asyncio.ensure_future(attending.run())

    async def _ask(self, name: str, handler: Object) -> str:
        if "sleep" in handler:
            await self._agent.clock.sleep(float(handler["sleep"]["seconds"]))
            return ""
        try:
            return await self._agent.runtime.handle(self._request(name), handler)
        except MissingSourceError as error:
            return str(error)

    def _judged(self, name: str, kind: str, verdict: bool | None, fault: str) -> None:  # noqa: FBT001 - a verdict
        run = self._run.containers[name]
        if fault and kind == probes.POST_START:
            self._record("FailedPostStartHook", f"PostStartHook failed: {fault}", type_="Warning")
        elif fault:
            self._record("Unhealthy", f"{kind.capitalize()} probe failed: {fault}", type_="Warning")
        if kind == probes.READINESS and verdict is not None:
            run.is_ready = verdict
        elif kind == probes.STARTUP and verdict:
            self._run.came_up(name)
        elif verdict is False:
            run.is_doomed = True
            what = "FailedPostStartHook" if kind == probes.POST_START else f"Container {name} failed {kind} probe"
            self._record("Killing", f"{what}, will be restarted")
        self._news.set()

    async def _stop(self, name: str, container: Container) -> None:
        """The preStop hook takes its time from the grace period."""
        grace, begun = self._grace_seconds(), self._agent.now()
        handler = probes.hook(self._run.containers[name].spec, probes.PRE_STOP)
        if handler is not None and grace > 0:
            try:
                fault = await asyncio.wait_for(self._ask(name, handler), grace)
            except TimeoutError:
                fault = f"timed out after {grace:g}s"
            if fault:
                self._record("FailedPreStopHook", f"PreStopHook failed: {fault}", type_="Warning")
            grace = max(1.0, grace - (self._agent.now() - begun).total_seconds())
        await container.stop(grace)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _wait(self) -> None:
        wake_at = self._run.wake_at
        if wake_at is None:
            await self._news.wait()
            return
        seconds = max(0.0, (wake_at - self._agent.now()).total_seconds())
        await first_of(self._news, self._agent.clock, seconds)

    async def _write_status(self) -> None:
        if self._is_gone:
            return
        shown = status.render(self._run, self._agent.now(), ADDRESS)
        patch = writes.merge_patch(self._pod.get("status") or {}, (self._pod.get("status") or {}) | shown)
        if not patch:
            return
        done = await self._agent.performer.run(_patch(self._pod, {"status": patch}, "status"))
        if not done.errors:
            self._pod = self._run.pod = self._pod | {"status": (self._pod.get("status") or {}) | shown}

    async def _end(self) -> None:
        await asyncio.gather(*self._watchers)
        agent = self._agent
        await agent.runtime.clear(self._uid)
        agent.devices_of(pods.node_name(self._pod)).give_back(self._uid)
        agent.ended(self._uid)
        if self._is_gone:
            await agent.forget(self._uid)
        elif objects.is_deleted(self._pod):
            await agent.remove(self._pod)


def _patch(pod: Object, patch: Object, subresource: str = "") -> writes.Sync:
    results = yield [
        writes.Patch(
            resource=resources.POD, object=pod, patch=patch, subresource=subresource, guarded=False, by_key=True
        )
    ]
    return writes.Done(errors=writes.refusals(results))
