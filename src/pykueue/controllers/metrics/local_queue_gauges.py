"""The gauges of LocalQueues: counts, quota, status and fair sharing usage. Used by `gauges`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from pykueue.api import conditions, feature_gates, objects, resources, selectors
from pykueue.api.scheme import Object
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.queue_counts import CountsByQueue, QueueCounts
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import amounts, variants

FINISHED = "finishedIn"
"""The index of finished Workloads by LocalQueue."""


class LocalQueueFilter:
    """Selects the LocalQueues with metrics: `metrics.localQueueMetrics` and its feature gate."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        section = (configuration.get("metrics") or {}).get("localQueueMetrics") or {"enable": True}
        self.is_registered = feature_gates.is_enabled(configuration.get("featureGates") or {}, "LocalQueueMetrics")
        self._is_on = self.is_registered and bool(section.get("enable"))
        selector = section.get("localQueueSelector")
        self._selector = () if selector is None else selectors.from_object(selector) or ()

    def includes(self, queue: Object | None) -> bool:
        return self._is_on and queue is not None and selectors.matches(self._selector, queue["metadata"].get("labels"))


class LocalQueueGauges:
    def __init__(
        self,
        view: EngineView,
        cache: ObjectCache,
        instruments: Instruments,
        *,
        queue_filter: LocalQueueFilter,
        observes_unadmitted: bool,
    ) -> None:
        self._view = view
        self._cache = cache
        self._instruments = instruments
        self._filter = queue_filter
        self._unadmitted = UnadmittedCounts(cache) if observes_unadmitted else None
        cache.add_index(resources.WORKLOAD, FINISHED, _finished_in)

    def finished_in(self, cluster_queue: values.ClusterQueueName) -> int:
        queues = self._cache.indexed(resources.LOCAL_QUEUE, "clusterQueue", cluster_queue)
        return sum(self._cache.count(resources.WORKLOAD, FINISHED, predicates.key(queue)) for queue in queues)

    def read(self, counts_by_queue: CountsByQueue) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        pending, status = gauge("local_queue_pending_workloads"), gauge("local_queue_status")
        reserving, admitted = (
            gauge("local_queue_reserving_active_workloads"),
            gauge("local_queue_admitted_active_workloads"),
        )
        finished = gauge("local_queue_finished_workloads")
        for key, queue in self._measured_queues():
            namespace, _, name = key.partition("/")
            counts, is_active = self._counts_of(counts_by_queue, key, queue), self._is_active(queue)
            active = counts.active if is_active else 0
            pending.add(name, namespace, "active", value=active)
            pending.add(name, namespace, "inadmissible", value=counts.active + counts.inadmissible - active)
            reserving.add(name, namespace, value=counts.reserving)
            admitted.add(name, namespace, value=counts.admitted)
            finished.add(name, namespace, value=self._cache.count(resources.WORKLOAD, FINISHED, key))
            for status_label in ("True", "False", "Unknown"):
                status.add(name, namespace, status_label, value=status_label == str(is_active))
        yield from (metric.family for metric in (pending, status, reserving, admitted, finished))
        yield from self._resources(counts_by_queue)
        yield from self._usage()
        yield from self._not_admitted()

    def _measured_queues(self) -> Iterator[tuple[values.LocalQueueKey, values.LocalQueue]]:
        for queue in self._view.local_queues():
            namespace, _, name = queue.key.partition("/")
            if self._filter.includes(self._cache.get(resources.LOCAL_QUEUE, name, namespace)):
                yield queue.key, queue

    @staticmethod
    def _counts_of(counts_by_queue: CountsByQueue, key: values.LocalQueueKey, queue: values.LocalQueue) -> QueueCounts:
        of_queue = counts_by_queue.of(queue.cluster_queue)
        return QueueCounts() if of_queue is None else of_queue.local_queues.get(key, QueueCounts())

    def _is_active(self, queue: values.LocalQueue) -> bool:
        return self._view.is_active(queue.cluster_queue) and queue.stop_policy is values.StopPolicy.NONE

    def _resources(self, counts_by_queue: CountsByQueue) -> Iterator[Metric]:
        reserved = self._instruments.gauge("local_queue_resource_reservation")
        used = self._instruments.gauge("local_queue_resource_usage")
        for key, queue in self._measured_queues():
            cluster_queue = self._view.cluster_queue(queue.cluster_queue)
            if cluster_queue is None:
                continue
            namespace, _, name = key.partition("/")
            counts = self._counts_of(counts_by_queue, key, queue)
            for flavor_resource in cluster_queue.quotas:
                flavor, resource = flavor_resource
                for gauge, usage in ((reserved, counts.reserved), (used, counts.used)):
                    amount = amounts.as_float(resource, usage[flavor_resource])
                    gauge.add(name, namespace, flavor, resource, value=amount)
        yield from (reserved.family, used.family)

    def _usage(self) -> Iterator[Metric]:
        if self._view.policy.admission_fair_sharing is None:
            return
        gauge = self._instruments.gauge("local_queue_admission_fair_sharing_usage")
        for key, queue in self._measured_queues():
            namespace, _, name = key.partition("/")
            gauge.add(name, namespace, queue.cluster_queue, value=self._view.local_queue_usage(key))
        yield gauge.family

    def _not_admitted(self) -> Iterator[Metric]:
        if self._unadmitted is None:
            return
        of_queues = self._instruments.gauge("unadmitted_workloads")
        of_local_queues = self._instruments.gauge("local_queue_unadmitted_workloads")
        by_queue: Counter[tuple[str, str, str]] = Counter()
        for (key, reason, cause), count in sorted(self._unadmitted.counts.items()):
            queue = self._view.local_queue(values.LocalQueueKey(key))
            if queue is None:
                continue
            by_queue[queue.cluster_queue, reason, cause] += count
            namespace, _, name = key.partition("/")
            if self._filter.includes(self._cache.get(resources.LOCAL_QUEUE, name, namespace)):
                of_local_queues.add(name, namespace, queue.cluster_queue, reason, cause, value=count)
        for labels, count in sorted(by_queue.items()):
            of_queues.add(*labels, value=count)
        yield from (of_queues.family, of_local_queues.family)


class UnadmittedCounts:
    """Counts unadmitted Workloads by LocalQueue, reason and cause as they change."""

    def __init__(self, cache: ObjectCache) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        cache.on_change(resources.WORKLOAD, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        for workload, step in ((old, -1), (new, 1)):
            key = None if workload is None else _reason_key(workload)
            if key is not None:
                self.counts[key] += step
                if not self.counts[key]:
                    del self.counts[key]


def _reason_key(workload: Object) -> tuple[str, str, str] | None:
    if predicates.is_admitted(workload) or predicates.is_finished(workload) or objects.is_deleted(workload):
        return None
    if variants.is_variant(workload):
        return None
    admitted, reserved = conditions.find(workload, "Admitted"), conditions.find(workload, "QuotaReserved")
    reason = "NoReservation" if admitted is None else str(admitted["reason"])
    return _local_queue(workload), reason, _cause(reserved)


def _cause(reserved: conditions.Condition | None) -> str:
    """The reason why quota is not reserved; "" if it is."""
    if reserved is None:
        return "PendingEvaluation"
    return "" if reserved["status"] == "True" else str(reserved["reason"])


def _finished_in(workload: Object) -> list[str]:
    return [_local_queue(workload)] if predicates.is_finished(workload) else []


def _local_queue(workload: Object) -> str:
    return f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}"
