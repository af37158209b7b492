"""Tells the engine what happened: every change in the mirror that it cares about becomes an event.

A Workload with a write of ours under way is not told until the write is answered: the engine has assumed its outcome, and
older news would undo it. Used by the scheduler alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api import limit_range, objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.scheduler.devices import DeviceInventory
from pykueue.controllers.workloads import predicates
from pykueue.engine import events, values
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import devices, policy, queues, requests, workload

REQUIRED_KINDS: tuple[Resource, ...] = (
    resources.NAMESPACE,
    resources.LIMIT_RANGE,
    resources.RUNTIME_CLASS,
    resources.TOPOLOGY,
    resources.RESOURCE_FLAVOR,
    resources.ADMISSION_CHECK,
    resources.COHORT,
    resources.CLUSTER_QUEUE,
    resources.LOCAL_QUEUE,
    resources.WORKLOAD,
)
"""Kinds that must be seen in full before the first decision."""


class EngineEventSource:
    def __init__(
        self,
        mirror: ObjectCache,
        clock: Clock,
        configuration: Mapping[str, Any],
        tell: Callable[[events.EngineEvent], None],
    ) -> None:
        self._mirror = mirror
        self._clock = clock
        self._tell = tell
        self._options = policy.workload_options(configuration)
        self._known: set[values.WorkloadKey] = set()
        self._held: dict[values.WorkloadKey, int] = {}
        """Writes under way."""
        mirror.on_change(resources.NAMESPACE, self._namespace)
        mirror.on_change(resources.RESOURCE_FLAVOR, self._flavor)
        mirror.on_change(resources.ADMISSION_CHECK, self._check)
        mirror.on_change(resources.COHORT, self._cohort)
        mirror.on_change(resources.CLUSTER_QUEUE, self._cluster_queue)
        mirror.on_change(resources.LOCAL_QUEUE, self._local_queue)
        mirror.on_change(resources.WORKLOAD, self._workload)
        mirror.on_change(resources.LIMIT_RANGE, self._limit_range)
        mirror.on_change(resources.RUNTIME_CLASS, self._runtime_class)
        self._inventory = DeviceInventory(mirror)
        for resource in DEVICE_RESOURCES:
            mirror.on_change(resource, self._devices_changed)

    def hold(self, key: values.WorkloadKey) -> None:
        self._held[key] = self._held.get(key, 0) + 1

    def let_go(self, key: values.WorkloadKey) -> None:
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
            self.tell_workload(key)

    def tell_workload(self, key: values.WorkloadKey) -> None:
        """The Workload as it is now."""
        if key in self._held:
            return
        namespace, _, name = key.partition("/")
        obj = self._mirror.get(resources.WORKLOAD, name, namespace)
        at_ns = self._clock.now_ns()
        if obj is None:
            if key in self._known:
                self._known.discard(key)
                self._tell(events.WorkloadGone(at_ns=at_ns, key=key))
            return
        value = self.value_of(obj)
        if key in self._known:
            self._tell(events.WorkloadChanged(at_ns=at_ns, workload=value))
        else:
            self._known.add(key)
            self._tell(events.WorkloadArrived(at_ns=at_ns, workload=value))

    def value_of(self, obj: Object) -> values.Workload:
        namespace = obj["metadata"].get("namespace", "")
        limit_ranges = self._mirror.indexed(resources.LIMIT_RANGE, "namespace", namespace)
        runtime_classes = self._mirror.by_name(resources.RUNTIME_CLASS)
        adjusted = requests.adjusted(obj, runtime_classes=runtime_classes, limit_ranges=limit_ranges)
        counted = self._counted_devices(adjusted)
        return workload.workload(adjusted, self._options, limit_range.summarize(limit_ranges), counted)

    def device_fault(self, obj: Object) -> devices.DeviceFault | None:
        """Why the devices of a pending Workload cannot be counted."""
        counted = self._counted_devices(obj)
        return counted if isinstance(counted, devices.DeviceFault) else None

    def _counted_devices(self, obj: Object) -> devices.DeviceCounts | devices.DeviceFault:
        """A Workload that holds quota is charged for what it was given."""
        if predicates.has_quota_reservation(obj) or not devices.may_claim(obj):
            return devices.NO_DEVICES
        return devices.count(obj, self._options.device_rules, self._inventory)

    def _devices_changed(self, _old: Object | None, _new: Object | None) -> None:
        for obj in self._mirror.all(resources.WORKLOAD):
            if predicates.is_admissible(obj) and devices.may_claim(obj):
                self.tell_workload(workload.key(obj))

    def _workload(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self.tell_workload(workload.key(obj))

    def _limit_range(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self._retell_pending(obj["metadata"]["namespace"])

    def _runtime_class(self, _old: Object | None, _new: Object | None) -> None:
        self._retell_pending(None)

    def _retell_pending(self, namespace: str | None) -> None:
        for obj in self._mirror.all(resources.WORKLOAD):
            in_scope = namespace is None or obj["metadata"]["namespace"] == namespace
            if in_scope and predicates.is_admissible(obj):
                self.tell_workload(workload.key(obj))

    def _namespace(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None:
            labels = new["metadata"].get("labels") or {}
            self._tell(events.NamespaceChanged(at_ns=at_ns, name=new["metadata"]["name"], labels=labels))
        elif old is not None:
            self._tell(events.NamespaceGone(at_ns=at_ns, name=old["metadata"]["name"]))

    def _flavor(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None and _spec_changed(old, new):
            self._tell(events.FlavorChanged(at_ns=at_ns, flavor=queues.resource_flavor(new)))
        elif new is None and old is not None:
            self._tell(events.FlavorGone(at_ns=at_ns, name=values.FlavorName(old["metadata"]["name"])))

    def _check(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None:
            self._tell(events.AdmissionCheckChanged(at_ns=at_ns, check=queues.admission_check(new)))
        elif old is not None:
            self._tell(events.AdmissionCheckGone(at_ns=at_ns, name=values.CheckName(old["metadata"]["name"])))

    def _cohort(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            self._tell(events.CohortGone(at_ns=at_ns, name=values.CohortName(old["metadata"]["name"])))
        elif new is not None and _spec_changed(old, new):
            self._tell(events.CohortChanged(at_ns=at_ns, cohort=queues.cohort(new)))

    def _cluster_queue(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            self._tell(events.ClusterQueueGone(at_ns=at_ns, name=values.ClusterQueueName(old["metadata"]["name"])))
        elif new is not None and _spec_changed(old, new):
            self._tell(events.ClusterQueueChanged(at_ns=at_ns, cluster_queue=queues.cluster_queue(new)))

    def _local_queue(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            namespace, name = old["metadata"]["namespace"], old["metadata"]["name"]
            self._tell(events.LocalQueueGone(at_ns=at_ns, key=values.LocalQueueKey(f"{namespace}/{name}")))
        elif new is not None and _spec_changed(old, new):
            self._tell(events.LocalQueueChanged(at_ns=at_ns, local_queue=queues.local_queue(new)))


def _spec_changed(old: Object | None, new: Object) -> bool:
    """Statuses of queues change with every admission and say nothing new."""
    return (
        old is None
        or old.get("spec") != new.get("spec")
        or objects.is_deleted(old) != objects.is_deleted(new)
        or old["metadata"].get("uid") != new["metadata"].get("uid")
    )
