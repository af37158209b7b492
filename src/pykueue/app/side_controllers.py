"""The processes of `pykueue populator` and `pykueue priority-booster`: one controller each, on any
cluster with Kueue or pykueue, until a signal.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pykueue.api import durations, objects, resources
from pykueue.api.rules import reading
from pykueue.api.scheme import Object
from pykueue.app import process
from pykueue.controllers import populator, priority_booster
from pykueue.controllers.side_controller import SideController
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock, WallClock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import InformerSet, ObjectCache
from pykueue.kube.controller.event_recorder import EventRecorder, EventsV1
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.supervisor import Supervisor

_POPULATOR_FIELDS = {"localQueueName", "localQueueNameMode", "managedJobsNamespaceSelector"}
_BOOSTER_FIELDS = {"timeSharing", "workloadSelector", "maxWorkloadPriority"}


class OptionsError(Exception):
    """A file with options has a field that is unknown or cannot be read."""


def populator_options(document: Mapping[str, Any]) -> populator.PopulatorOptions:
    _check_fields(document, _POPULATOR_FIELDS)
    mode = document.get("localQueueNameMode") or populator.STATIC
    if mode not in (populator.STATIC, populator.AS_CLUSTER_QUEUE):
        choices = f"{populator.STATIC} or {populator.AS_CLUSTER_QUEUE}"
        raise OptionsError(f"localQueueNameMode: {mode!r} is not {choices}")
    return populator.PopulatorOptions(
        local_queue_name=str(document.get("localQueueName") or "default"),
        name_mode=mode,
        namespace_selector=document.get("managedJobsNamespaceSelector"),
    )


def booster_options(document: Mapping[str, Any]) -> priority_booster.BoosterOptions:
    _check_fields(document, _BOOSTER_FIELDS)
    time_sharing = reading.mapping(document.get("timeSharing"))
    try:
        interval_ns = durations.to_ns(str(time_sharing.get("interval") or "0"))
    except ValueError as error:
        raise OptionsError(f"timeSharing.interval: {error}") from None
    priority = document.get("maxWorkloadPriority")
    return priority_booster.BoosterOptions(
        interval_ns=interval_ns,
        negative_boost=reading.integer(time_sharing.get("negativeBoost"), 100_000),
        workload_selector=document.get("workloadSelector"),
        max_priority=None if priority is None else reading.integer(priority),
    )


def _check_fields(document: Mapping[str, Any], fields: set[str]) -> None:
    if unknown := sorted({*document} - fields):
        raise OptionsError(f"{unknown[0]}: unknown field; there are {', '.join(sorted(fields))}")


class SideProcess:
    """One side controller with its cache; `run` ends with a signal, `start` and `stop` without."""

    def __init__(self, client: Client, component: str, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or WallClock()
        self._cache = ObjectCache()
        self._recorder = EventRecorder(client, self._clock, EventsV1(component))
        self._executor = WriteExecutor(client, self._cache, self._recorder, component)
        self._supervisor = Supervisor()
        self._controller: SideController | None = None

    def populate(self, options: populator.PopulatorOptions) -> "SideProcess":
        self._cache.add_kind(resources.LOCAL_QUEUE)
        triggers = (resources.CLUSTER_QUEUE, resources.LOCAL_QUEUE)

        def plan(namespace: Object, _now_ns: int) -> writes.Plan:
            name = objects.name(namespace)
            queues = [obj for obj in self._cache.all(resources.LOCAL_QUEUE) if objects.namespace(obj) == name]
            actions = populator.plan(namespace, self._cache.all(resources.CLUSTER_QUEUE), queues, options)
            return writes.Plan(actions=tuple(actions))

        self._controller = SideController(
            resources.NAMESPACE,
            plan,
            cache=self._cache,
            executor=self._executor,
            clock=self._clock,
            triggers=triggers,
        )
        return self

    def boost(self, options: priority_booster.BoosterOptions) -> "SideProcess":
        self._controller = SideController(
            resources.WORKLOAD,
            lambda workload, now_ns: priority_booster.plan(workload, options, now_ns),
            cache=self._cache,
            executor=self._executor,
            clock=self._clock,
        )
        return self

    async def start(self) -> None:
        assert self._controller is not None, "populate or boost first"
        start, controller = self._supervisor.start, self._controller
        informers = InformerSet(self._client, self._cache, self._clock)
        start("event recorder", self._recorder.run)
        start("informers", partial(informers.run, self._cache.kinds))
        await self._supervisor.wait_for(self._cache.listed(self._cache.kinds))
        start("controller", partial(controller.queue.run, controller.reconcile))

    async def stop(self) -> None:
        await self._supervisor.stop()

    async def run(self) -> None:
        stopping = process.stop_signal()
        await self.start()
        await stopping.wait()
        await self.stop()
