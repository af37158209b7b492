"""The queues, flavors and nodes of a simulation, as objects that become events of an engine.

The events come from the sources that feed the scheduler, so an object means here what it means to
the live system. Objects may come from manifests (`from_objects`) or from the lists of a cluster.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.cache import new_cache, priority_classes
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.controllers.scheduler.engine_events import EngineEventSource
from pykueue.controllers.scheduler.topology_events import TopologyEventSource
from pykueue.controllers.settings import lifecycle_policy
from pykueue.controllers.workloads.context import PodsReadyPolicy
from pykueue.engine import events, values
from pykueue.engine.engine import Engine
from pykueue.translate import policy

KINDS: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        resources.NAMESPACE,
        resources.LIMIT_RANGE,
        resources.RUNTIME_CLASS,
        resources.TOPOLOGY,
        resources.RESOURCE_FLAVOR,
        resources.ADMISSION_CHECK,
        resources.COHORT,
        resources.CLUSTER_QUEUE,
        resources.LOCAL_QUEUE,
        resources.WORKLOAD_PRIORITY_CLASS,
        resources.PRIORITY_CLASS,
        resources.NODE,
        resources.POD,
        resources.WORKLOAD,
    )
}
"""The kinds that decisions depend on, in the order in which they are fed."""


class SimulatedClock:
    def __init__(self, now_ns: int) -> None:
        self.at_ns = now_ns

    def now_ns(self) -> int:
        return self.at_ns

    async def sleep(self, seconds: float) -> None:
        self.at_ns += round(seconds * 1e9)


class World:
    def __init__(self, configuration: Mapping[str, Any] | None = None, *, now_ns: int = 0) -> None:
        self.configuration = configuration or {}
        self.clock = SimulatedClock(now_ns)
        self.engine = Engine(policy.engine_policy(self.configuration))
        self._cache = new_cache()
        self._events = EngineEventSource(self._cache, self.clock, self.configuration, self._handle)
        self._topology_events = TopologyEventSource(self._cache, self.clock, self._handle)
        self._topology_events.send_nodes()
        self._version = 0

    @classmethod
    def from_objects(
        cls, items: Iterable[Object], configuration: Mapping[str, Any] | None = None, *, now_ns: int = 0
    ) -> Self:
        """A world of admitted objects, as an API server returns them.

        A namespace that a LocalQueue names but nobody defines exists without further labels.
        AdmissionChecks are active, because nobody runs their controllers.
        """
        world = cls(configuration, now_ns=now_ns)
        order = list(KINDS)
        sorted_items = sorted((obj for obj in items if obj["kind"] in KINDS), key=lambda obj: order.index(obj["kind"]))
        for name in _missing_namespaces(sorted_items):
            world.put(namespace_object(name))
        for obj in sorted_items:
            world.put(_active(obj) if obj["kind"] == "AdmissionCheck" else obj)
        return world

    @classmethod
    def forked(cls, engine: Engine, configuration: Mapping[str, Any] | None = None, *, now_ns: int) -> Self:
        """A world with a copy of a running engine; its objects are unknown, but may be `put`."""
        world = cls(configuration, now_ns=now_ns)
        world.engine = engine.fork()
        return world

    @property
    def pods_ready(self) -> PodsReadyPolicy | None:
        return lifecycle_policy(self.configuration).pods_ready

    @property
    def priority_classes(self) -> PriorityClasses:
        return priority_classes(self._cache)

    def put(self, obj: Object) -> None:
        """Create or update an object; the engine hears of it now."""
        self._cache.apply_event(KINDS[obj["kind"]], "MODIFIED", self._versioned(obj))

    def delete(self, obj: Object) -> None:
        self._cache.apply_event(KINDS[obj["kind"]], "DELETED", self._versioned(obj))

    def _versioned(self, obj: Object) -> Object:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        return self._cache.get(KINDS[kind], name, namespace)

    def all(self, kind: str) -> list[Object]:
        return list(self._cache.all(KINDS[kind]))

    def workload_value(self, workload: Object) -> values.Workload:
        """The engine value of a Workload object, which need not be in the world."""
        return self._events.value_of(workload)

    def _handle(self, event: events.EngineEvent) -> None:
        self.engine.handle(event)


def namespace_object(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
    }


def _missing_namespaces(items: list[Object]) -> list[str]:
    defined = {objects.name(obj) for obj in items if obj["kind"] == "Namespace"}
    named = {objects.namespace(obj) for obj in items if obj["kind"] == "LocalQueue"}
    return sorted(named - defined)


def _active(check: Object) -> Object:
    check = copy.deepcopy(check)
    conditions.put(check, "Active", status=True, reason="Active", message="The check is simulated", now_ns=0)
    return check
