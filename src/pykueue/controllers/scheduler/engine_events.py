"""Engine events from the object cache: changes of queues, flavors, namespaces and Workloads.

While a write of the scheduler to a Workload is in flight, changes of that Workload are held back:
the engine has assumed the result of the write, and an older version would undo it. The scheduler,
the queue follower and the snapshot feed their engines with this.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api import objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.scheduler.devices import RESOURCES as DEVICE_RESOURCES
from pykueue.controllers.scheduler.devices import DeviceInventory
from pykueue.controllers.workloads import predicates
from pykueue.engine import events, values
from pykueue.engine.view import EngineView
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, version_of
from pykueue.translate import devices, policy, queues, variants, workload

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
"""Kinds that must be listed in full before the first decision."""


class EngineEventSource:
    def __init__(
        self,
        cache: ObjectCache,
        clock: Clock,
        configuration: Mapping[str, Any],
        handle: Callable[[events.EngineEvent], object],
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._handle = handle
        self._options = policy.workload_options(configuration)
        self._translator = workload.WorkloadTranslator(self._options)
        self._arrivals: dict[values.WorkloadKey, int] = {}
        self._last_arrival: int | None = None
        """None while objects are listed: a list is in no order of arrival."""
        self._writes_in_flight: dict[values.WorkloadKey, int] = {}
        cache.on_change(resources.NAMESPACE, self._namespace_changed)
        cache.on_change(resources.RESOURCE_FLAVOR, self._flavor_changed)
        cache.on_change(resources.ADMISSION_CHECK, self._check_changed)
        cache.on_change(resources.COHORT, self._cohort_changed)
        cache.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        cache.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.LIMIT_RANGE, self._limit_range_changed)
        cache.on_change(resources.RUNTIME_CLASS, self._runtime_class_changed)
        self._inventory = DeviceInventory(cache)
        for resource in DEVICE_RESOURCES:
            cache.on_change(resource, self._devices_changed)

    def count_arrivals(self) -> None:
        """Number the Workloads that arrive from now on; those before were listed."""
        self._last_arrival = 0

    def pause(self, key: values.WorkloadKey) -> None:
        """Hold back changes of a Workload until `resume` is called as often as `pause`."""
        self._writes_in_flight[key] = self._writes_in_flight.get(key, 0) + 1

    def resume(self, key: values.WorkloadKey) -> None:
        self._writes_in_flight[key] -= 1
        if not self._writes_in_flight[key]:
            del self._writes_in_flight[key]
            self._send_workload(key)

    def confirm(self, key: values.WorkloadKey, written: Object) -> None:
        """Send a paused Workload as a write of ours left it, unless `resume` is about to send the
        same.

        The engine waits for each reservation that it decided. One that is released before the
        answer to its write arrives would never be seen, and its quota never be free again.
        """
        namespace, _, name = key.partition("/")
        cached = self._cache.get(resources.WORKLOAD, name, namespace)
        is_latest = cached is not None and version_of(cached) == version_of(written)
        if key in self._arrivals and (self._writes_in_flight[key] > 1 or not is_latest):
            self._handle(events.WorkloadChanged(at_ns=self._clock.now_ns(), workload=self.value_of(written)))

    # The audit.

    def is_in_step(self, key: values.WorkloadKey, view: EngineView) -> bool:
        """Whether the engine has the Workload as the cache has it, as far as quota is concerned.

        The engine may be ahead of the cache while a write is in flight.
        """
        if key in self._writes_in_flight:
            return True
        namespace, _, name = key.partition("/")
        obj = self._cache.get(resources.WORKLOAD, name, namespace)
        present = view.workload(key)
        if obj is None or predicates.is_finished(obj):
            return present is None
        return present is not None and _charged(present) == _charged(self.value_of(obj))

    def send_again(self, key: values.WorkloadKey) -> None:
        namespace, _, name = key.partition("/")
        if self._cache.get(resources.WORKLOAD, name, namespace) is None:
            self._arrivals.setdefault(key, 0)
        self._send_workload(key)

    def send_cluster_queue(self, name: str) -> None:
        obj = self._cache.get(resources.CLUSTER_QUEUE, name)
        if obj is not None:
            self._cluster_queue_changed(None, obj)
        else:
            at_ns = self._clock.now_ns()
            self._handle(events.ClusterQueueGone(at_ns=at_ns, name=values.ClusterQueueName(name)))

    def send_local_queue(self, name: str, namespace: str) -> None:
        self._local_queue_changed(None, self._cache.get(resources.LOCAL_QUEUE, name, namespace))

    def value_of(self, obj: Object) -> values.Workload:
        limit_ranges = self._cache.indexed(resources.LIMIT_RANGE, "namespace", objects.namespace(obj))
        value = self._translator.workload(
            obj,
            limit_ranges=limit_ranges,
            runtime_classes=self._cache.by_name(resources.RUNTIME_CLASS),
            count_devices=self._count_devices,
            arrival=self._arrivals.get(workload.key(obj), 0),
        )
        return workload.with_variants(value) if self._has_variants(obj) else value

    def _has_variants(self, obj: Object) -> bool:
        """Whether the variants of the Workload are scheduled instead of it.

        A Workload with quota is charged unless its ClusterQueue has the policy: the label alone,
        which users may set, takes nothing out of the quota.
        """
        if not self._options.admits_concurrently or variants.is_variant(obj):
            return False
        if predicates.has_quota_reservation(obj):
            return self._admits_concurrently(predicates.cluster_queue_reserved(obj))
        name = obj["spec"].get("queueName", "")
        local_queue = self._cache.get(resources.LOCAL_QUEUE, name, objects.namespace(obj))
        name = "" if local_queue is None else local_queue["spec"].get("clusterQueue", "")
        return variants.is_parent(obj) or self._admits_concurrently(name)

    def _admits_concurrently(self, name: str) -> bool:
        cluster_queue = self._cache.get(resources.CLUSTER_QUEUE, name)
        return cluster_queue is not None and cluster_queue["spec"].get("concurrentAdmissionPolicy") is not None

    def device_fault(self, obj: Object) -> devices.DeviceFault | None:
        """Why the devices of a pending Workload cannot be counted."""
        counted = self._count_devices(obj)
        return counted if isinstance(counted, devices.DeviceFault) else None

    def _count_devices(self, obj: Object) -> devices.DeviceCounts | devices.DeviceFault:
        """The devices of a pending Workload; one with quota is charged for its admission."""
        if predicates.has_quota_reservation(obj) or not devices.may_claim(obj):
            return devices.NO_DEVICES
        return devices.count(obj, self._options.device_rules, self._inventory)

    # Workloads, and what their values depend on.

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self._send_workload(workload.key(obj))

    def _send_workload(self, key: values.WorkloadKey) -> None:
        if key in self._writes_in_flight:
            return
        namespace, _, name = key.partition("/")
        obj = self._cache.get(resources.WORKLOAD, name, namespace)
        at_ns = self._clock.now_ns()
        if obj is None:
            if self._arrivals.pop(key, None) is not None:
                self._handle(events.WorkloadGone(at_ns=at_ns, key=key))
            return
        if key in self._arrivals:
            self._handle(events.WorkloadChanged(at_ns=at_ns, workload=self.value_of(obj)))
        else:
            if self._last_arrival is not None:
                self._last_arrival += 1
            self._arrivals[key] = self._last_arrival or 0
            self._handle(events.WorkloadArrived(at_ns=at_ns, workload=self.value_of(obj)))

    def _devices_changed(self, _old: Object | None, _new: Object | None) -> None:
        for obj in self._cache.all(resources.WORKLOAD):
            if predicates.is_admissible(obj) and devices.may_claim(obj):
                self._send_workload(workload.key(obj))

    def _limit_range_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self._send_pending(objects.namespace(obj))

    def _runtime_class_changed(self, _old: Object | None, _new: Object | None) -> None:
        self._send_pending(None)

    def _send_pending(self, namespace: str | None) -> None:
        """Send the pending Workloads of a namespace, or of all namespaces, again."""
        for obj in self._cache.all(resources.WORKLOAD):
            if namespace in (None, objects.namespace(obj)) and predicates.is_admissible(obj):
                self._send_workload(workload.key(obj))

    # Queues, flavors, checks and namespaces.

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None:
            self._handle(events.NamespaceChanged(at_ns=at_ns, name=objects.name(new), labels=objects.labels(new)))
        elif old is not None:
            self._handle(events.NamespaceGone(at_ns=at_ns, name=objects.name(old)))

    def _flavor_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None and _spec_changed(old, new):
            self._handle(events.FlavorChanged(at_ns=at_ns, flavor=queues.resource_flavor(new)))
        elif new is None and old is not None:
            self._handle(events.FlavorGone(at_ns=at_ns, name=values.FlavorName(objects.name(old))))

    def _check_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is not None:
            self._handle(events.AdmissionCheckChanged(at_ns=at_ns, check=queues.admission_check(new)))
        elif old is not None:
            self._handle(events.AdmissionCheckGone(at_ns=at_ns, name=values.CheckName(objects.name(old))))

    def _cohort_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            self._handle(events.CohortGone(at_ns=at_ns, name=values.CohortName(objects.name(old))))
        elif new is not None and _spec_changed(old, new):
            self._handle(events.CohortChanged(at_ns=at_ns, cohort=queues.cohort(new)))

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            self._handle(events.ClusterQueueGone(at_ns=at_ns, name=values.ClusterQueueName(objects.name(old))))
        elif new is not None and _spec_changed(old, new):
            if self._options.admits_concurrently:
                for local_queue in self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", objects.name(new)):
                    self._send_queued(local_queue)
            self._handle(events.ClusterQueueChanged(at_ns=at_ns, cluster_queue=queues.cluster_queue(new)))

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        at_ns = self._clock.now_ns()
        if new is None and old is not None:
            key = values.LocalQueueKey(f"{objects.namespace(old)}/{objects.name(old)}")
            self._handle(events.LocalQueueGone(at_ns=at_ns, key=key))
        elif new is not None and _spec_changed(old, new):
            if self._options.admits_concurrently:
                self._send_queued(new)
            self._handle(events.LocalQueueChanged(at_ns=at_ns, local_queue=queues.local_queue(new)))

    def _send_queued(self, local_queue: Object) -> None:
        """Send the Workloads of a LocalQueue again: whether they have variants may change."""
        for obj in self._cache.indexed(resources.WORKLOAD, "localQueue", predicates.key(local_queue)):
            self._send_workload(workload.key(obj))


def _charged(value: values.Workload) -> tuple[object, ...]:
    return value.uid, value.local_queue, value.active, value.priority, value.admission


def _spec_changed(old: Object | None, new: Object) -> bool:
    """Whether the engine must see a change.

    The statuses of queues change with every admission and do not matter.
    """
    return (
        old is None
        or old.get("spec") != new.get("spec")
        or objects.is_deleted(old) != objects.is_deleted(new)
        or old["metadata"].get("uid") != new["metadata"].get("uid")
    )
