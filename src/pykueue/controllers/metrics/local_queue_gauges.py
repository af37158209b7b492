"""What is now, of local queues: counts, quota, status and lately used. Part of `gauges`; absent where nobody wants it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from pykueue.api import conditions, feature_gates, resources, selectors
from pykueue.api.scheme import Object
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.tally import Tallies, Tally
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import amounts

FINISHED = "finishedIn"
"""Finished Workloads by local queue."""


class Choice:
    """Which local queues are measured: `metrics.localQueueMetrics` and its gate."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        section = (configuration.get("metrics") or {}).get("localQueueMetrics") or {"enable": True}
        self.is_registered = feature_gates.is_enabled(configuration.get("featureGates") or {}, "LocalQueueMetrics")
        self._is_on = self.is_registered and bool(section.get("enable"))
        selector = section.get("localQueueSelector")
        self._wanted = () if selector is None else selectors.from_object(selector) or ()

    def includes(self, queue: Object | None) -> bool:
        return self._is_on and queue is not None and selectors.matches(self._wanted, queue["metadata"].get("labels"))


class LocalQueueGauges:
    def __init__(
        self,
        view: EngineView,
        mirror: ObjectCache,
        instruments: Instruments,
        *,
        choice: Choice,
        observes_unadmitted: bool,
    ) -> None:
        self._view = view
        self._mirror = mirror
        self._instruments = instruments
        self._choice = choice
        self._unadmitted = Unadmitted(mirror) if observes_unadmitted else None
        mirror.add_index(resources.WORKLOAD, FINISHED, _finished_in)

    def finished_in(self, cluster_queue: values.ClusterQueueName) -> int:
        queues = self._mirror.indexed(resources.LOCAL_QUEUE, "clusterQueue", cluster_queue)
        return sum(self._mirror.count(resources.WORKLOAD, FINISHED, predicates.key(queue)) for queue in queues)

    def look(self, tallies: Tallies) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        pending, status = gauge("local_queue_pending_workloads"), gauge("local_queue_status")
        reserving, admitted = (
            gauge("local_queue_reserving_active_workloads"),
            gauge("local_queue_admitted_active_workloads"),
        )
        finished = gauge("local_queue_finished_workloads")
        for key, queue in self._chosen():
            namespace, _, name = key.partition("/")
            tally, is_active = self._tally(tallies, key, queue), self._is_active(queue)
            active = tally.active if is_active else 0
            pending.add(name, namespace, "active", value=active)
            pending.add(name, namespace, "inadmissible", value=tally.active + tally.inadmissible - active)
            reserving.add(name, namespace, value=tally.reserving)
            admitted.add(name, namespace, value=tally.admitted)
            finished.add(name, namespace, value=self._mirror.count(resources.WORKLOAD, FINISHED, key))
            for word in ("True", "False", "Unknown"):
                status.add(name, namespace, word, value=word == str(is_active))
        yield from (each.family for each in (pending, status, reserving, admitted, finished))
        yield from self._resources(tallies)
        yield from self._usage()
        yield from self._not_admitted()

    def _chosen(self) -> Iterator[tuple[values.LocalQueueKey, values.LocalQueue]]:
        for queue in self._view.local_queues():
            namespace, _, name = queue.key.partition("/")
            if self._choice.includes(self._mirror.get(resources.LOCAL_QUEUE, name, namespace)):
                yield queue.key, queue

    @staticmethod
    def _tally(tallies: Tallies, key: values.LocalQueueKey, queue: values.LocalQueue) -> Tally:
        of_queue = tallies.of(queue.cluster_queue)
        return Tally() if of_queue is None else of_queue.local_queues.get(key, Tally())

    def _is_active(self, queue: values.LocalQueue) -> bool:
        return self._view.is_active(queue.cluster_queue) and queue.stop_policy is values.StopPolicy.NONE

    def _resources(self, tallies: Tallies) -> Iterator[Metric]:
        reserved = self._instruments.gauge("local_queue_resource_reservation")
        used = self._instruments.gauge("local_queue_resource_usage")
        for key, queue in self._chosen():
            cluster_queue = self._view.cluster_queue(queue.cluster_queue)
            if cluster_queue is None:
                continue
            namespace, _, name = key.partition("/")
            tally = self._tally(tallies, key, queue)
            for flavor_resource in cluster_queue.quotas:
                flavor, resource = flavor_resource
                for gauge, usage in ((reserved, tally.reserved), (used, tally.used)):
                    amount = amounts.as_float(resource, usage[flavor_resource])
                    gauge.add(name, namespace, flavor, resource, value=amount)
        yield from (reserved.family, used.family)

    def _usage(self) -> Iterator[Metric]:
        if self._view.policy.admission_fair_sharing is None:
            return
        gauge = self._instruments.gauge("local_queue_admission_fair_sharing_usage")
        for key, queue in self._chosen():
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
            if self._choice.includes(self._mirror.get(resources.LOCAL_QUEUE, name, namespace)):
                of_local_queues.add(name, namespace, queue.cluster_queue, reason, cause, value=count)
        for labels, count in sorted(by_queue.items()):
            of_queues.add(*labels, value=count)
        yield from (of_queues.family, of_local_queues.family)


class Unadmitted:
    """Counts Workloads by local queue and by why they are not admitted, as they change."""

    def __init__(self, mirror: ObjectCache) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        mirror.on_change(resources.WORKLOAD, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        for workload, step in ((old, -1), (new, 1)):
            standing = None if workload is None else _standing(workload)
            if standing is not None:
                self.counts[standing] += step
                if not self.counts[standing]:
                    del self.counts[standing]


def _standing(workload: Object) -> tuple[str, str, str] | None:
    if predicates.is_admitted(workload) or predicates.is_finished(workload) or predicates.is_being_deleted(workload):
        return None
    admitted, reserved = conditions.find(workload, "Admitted"), conditions.find(workload, "QuotaReserved")
    reason = "NoReservation" if admitted is None else str(admitted["reason"])
    return _local_queue(workload), reason, _cause(reserved)


def _cause(reserved: conditions.Condition | None) -> str:
    """Why there is no quota; nothing if there is."""
    if reserved is None:
        return "PendingEvaluation"
    return "" if reserved["status"] == "True" else str(reserved["reason"])


def _finished_in(workload: Object) -> list[str]:
    return [_local_queue(workload)] if predicates.is_finished(workload) else []


def _local_queue(workload: Object) -> str:
    return f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}"
