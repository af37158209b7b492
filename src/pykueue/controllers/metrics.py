"""Prometheus metrics with Kueue's names and labels.

What happened is counted where it shows: in the changes of Workloads that the mirror tells of, and in the scheduler's
cycles. What is now (queues, usage) is read from the engine when somebody scrapes. Served by `cli.metrics_page`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pykueue.api.scheme import Object
from pykueue.controllers import kinds
from pykueue.controllers.mirror import Mirror
from pykueue.controllers.workload import conditions, facts
from pykueue.engine.cluster_queues import ClusterQueueState, InactiveReason
from pykueue.engine.world import World
from pykueue.kube.clock import SECOND_NS, Clock

ROLE = "standalone"


def _waiting_buckets(count: int) -> list[float]:
    return [1, *(2.5 * 2**step for step in range(count - 1))]


class Metrics:
    def __init__(self, mirror: Mirror, world: World, clock: Clock, configuration: Mapping[str, Any]) -> None:
        self.registry = CollectorRegistry()
        self._mirror = mirror
        self._clock = clock
        section = configuration.get("metrics") or {}
        self.attempts = self._counter("admission_attempts", "Scheduling cycles by result.", "result")
        self.attempt_seconds = self._histogram("admission_attempt_duration_seconds", "Time of a cycle.", "result")
        by_class = ("cluster_queue", "priority_class")
        self._reserved = self._counter("quota_reserved_workloads", "Workloads that got quota.", *by_class)
        self._admitted = self._counter("admitted_workloads", "Workloads that were admitted.", *by_class)
        self._finished = self._counter("finished_workloads", "Workloads that finished.", *by_class)
        self._reserved_wait = self._histogram(
            "quota_reserved_wait_time_seconds", "From queueing to quota.", *by_class, buckets=_waiting_buckets(14)
        )
        self._admission_wait = self._histogram(
            "admission_wait_time_seconds", "From queueing to admission.", *by_class, buckets=_waiting_buckets(16)
        )
        self._checks_wait = self._histogram(
            "admission_checks_wait_time_seconds", "From quota to admission.", *by_class, buckets=_waiting_buckets(14)
        )
        self._ready_wait = self._histogram(
            "ready_wait_time_seconds", "From queueing to ready pods.", *by_class, buckets=_waiting_buckets(14)
        )
        by_reason = ("cluster_queue", "reason", "underlying_cause", "priority_class")
        self._evicted = self._counter("evicted_workloads", "Evictions.", *by_reason)
        self._evicted_once = self._counter("evicted_workloads_once", "Workloads evicted at least once.", *by_reason)
        self.preempted = self._counter(
            "preempted_workloads", "Preemptions by who asked for them.", "preempting_cluster_queue", "reason"
        )
        self._now = _Now(world, shows_resources=bool(section.get("enableClusterQueueResources")))
        self.registry.register(self._now)
        mirror.on_change(kinds.WORKLOAD, self._workload_changed)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"kueue_{name}", text, [*labels, "replica_role"], registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: list[float] | None = None) -> Histogram:
        chosen = buckets or Histogram.DEFAULT_BUCKETS
        return Histogram(f"kueue_{name}", text, [*labels, "replica_role"], registry=self.registry, buckets=chosen)

    def look(self) -> None:
        """Read the engine; `text` then shows what was seen, and may be called from any thread."""
        self._now.look()

    def text(self) -> bytes:
        return generate_latest(self.registry)

    # What happened.

    def cycle_ended(self, *, is_success: bool, seconds: float) -> None:
        result = "success" if is_success else "inadmissible"
        self.attempts.labels(result, ROLE).inc()
        self.attempt_seconds.labels(result, ROLE).observe(seconds)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            return
        now_ns = self._clock.now_ns()
        queue, priority_class = facts.cluster_queue_reserved(new), facts.priority_class_name(new)
        labels = (queue, priority_class, ROLE)
        waited = max(0.0, (now_ns - facts.queued_since_ns(new)) / SECOND_NS)
        if _became_true(old, new, "QuotaReserved"):
            self._reserved.labels(*labels).inc()
            self._reserved_wait.labels(*labels).observe(waited)
        if _became_true(old, new, "Admitted"):
            self._admitted.labels(*labels).inc()
            self._admission_wait.labels(*labels).observe(waited)
            reserved = conditions.find(new, "QuotaReserved")
            if reserved is not None:
                since = max(0.0, (now_ns - conditions.since_ns(reserved)) / SECOND_NS)
                self._checks_wait.labels(*labels).observe(since)
        if _became_true(old, new, "Finished"):
            self._finished.labels(facts.cluster_queue_reserved(old), priority_class, ROLE).inc()
        ready = conditions.find(new, "PodsReady")
        if _became_true(old, new, "PodsReady") and ready is not None and ready["reason"] == "Started":
            self._ready_wait.labels(*labels).observe(waited)
        self._count_evictions(old, new)

    def _count_evictions(self, old: Object, new: Object) -> None:
        before = {_cause(each): each["count"] for each in _evictions(old)}
        for eviction in _evictions(new):
            added = eviction["count"] - before.get(_cause(eviction), 0)
            if added <= 0:
                continue
            labels = (facts.cluster_queue_reserved(old), *_cause(eviction), facts.priority_class_name(new), ROLE)
            self._evicted.labels(*labels).inc(added)
            if _cause(eviction) not in before:
                self._evicted_once.labels(*labels).inc()


def _became_true(old: Object, new: Object, condition_type: str) -> bool:
    return conditions.is_true(new, condition_type) and not conditions.is_true(old, condition_type)


def _evictions(workload: Object) -> list[Object]:
    stats = (workload.get("status") or {}).get("schedulingStats") or {}
    found: list[Object] = stats.get("evictions") or []
    return found


def _cause(eviction: Object) -> tuple[str, str]:
    return str(eviction["reason"]), str(eviction.get("underlyingCause", ""))


# What is now.


class _Now(Collector):
    """Gauges, read from the engine at each scrape."""

    def __init__(self, world: World, *, shows_resources: bool) -> None:
        self._world = world
        self._shows_resources = shows_resources
        self._seen: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        return self._seen

    def look(self) -> None:
        self._seen = list(self._look())

    def _look(self) -> Iterator[Metric]:
        queues = sorted(self._world.cluster_queues.values(), key=lambda queue: queue.name)
        yield self._pending(queues)
        yield self._active(queues, "reserving", is_admitted=False)
        yield self._active(queues, "admitted", is_admitted=True)
        yield self._status(queues)
        if self._shows_resources:
            yield from self._resources(queues)

    @staticmethod
    def _pending(queues: list[ClusterQueueState]) -> Metric:
        gauge = _gauge("pending_workloads", "Workloads that wait.", "cluster_queue", "status")
        for queue in queues:
            active = queue.pending.active_count if queue.is_active else 0
            gauge.add_metric([queue.name, "active", ROLE], active)
            gauge.add_metric([queue.name, "inadmissible", ROLE], len(queue.pending) - active)
        return gauge

    @staticmethod
    def _active(queues: list[ClusterQueueState], word: str, *, is_admitted: bool) -> Metric:
        gauge = _gauge(f"{word}_active_workloads", f"Workloads {word} now.", "cluster_queue")
        for queue in queues:
            count = sum(holding.workload.admitted or not is_admitted for holding in queue.holdings)
            gauge.add_metric([queue.name, ROLE], count)
        return gauge

    @staticmethod
    def _status(queues: list[ClusterQueueState]) -> Metric:
        gauge = _gauge("cluster_queue_status", "1 for the status that a queue has.", "cluster_queue", "status")
        for queue in queues:
            is_ending = any(found.reason is InactiveReason.TERMINATING for found in queue.inactivity)
            status = "terminating" if is_ending else "active" if queue.is_active else "pending"
            for each in ("pending", "active", "terminating"):
                gauge.add_metric([queue.name, each, ROLE], each == status)
        return gauge

    def _resources(self, queues: list[ClusterQueueState]) -> Iterator[Metric]:
        names = self._world.tree.flavor_resources.names
        labels = ("cohort", "cluster_queue", "flavor", "resource")
        reserved = _gauge("cluster_queue_resource_reservation", "Quota reserved.", *labels)
        nominal = _gauge("cluster_queue_nominal_quota", "Nominal quota.", *labels)
        borrowing = _gauge("cluster_queue_borrowing_limit", "Most that may be borrowed.", *labels)
        lending = _gauge("cluster_queue_lending_limit", "Most that may be lent.", *labels)
        for queue in queues:
            node = queue.node
            for index, quota in node.nominal.items():
                name = names[index]
                key = [queue.value.cohort or "", queue.name, name.flavor, name.resource, ROLE]
                unit = 1000 if name.resource == "cpu" else 1
                reserved.add_metric(key, node.usage.get(index, 0) / unit)
                nominal.add_metric(key, quota / unit)
                for gauge, limits in ((borrowing, node.borrowing_limit), (lending, node.lending_limit)):
                    gauge.add_metric(key, limits[index] / unit if index in limits else float("inf"))
        yield from (reserved, nominal, borrowing, lending)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kueue_{name}", text, labels=[*labels, "replica_role"])
