"""Prometheus metrics with Kueue's names and labels.

What happened is counted where it shows: in the changes of Workloads that the mirror tells of, and in the scheduler's
cycles. What is now (queues, usage) is read from the engine when somebody scrapes. Served by `cli.metrics_page`.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from pykueue.api.scheme import Object
from pykueue.controllers import kinds
from pykueue.controllers.gauges import ROLE, Gauges
from pykueue.controllers.mirror import Mirror
from pykueue.controllers.workload import conditions, facts
from pykueue.engine.world import World
from pykueue.kube.clock import SECOND_NS, Clock


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
        self._ready_since_admission = self._histogram(
            "admitted_until_ready_wait_time_seconds",
            "From admission to ready pods.",
            *by_class,
            buckets=_waiting_buckets(14),
        )
        by_local_queue = ("name", "namespace", "priority_class")
        self._of_local_queues = {
            word: self._counter(f"local_queue_{word}_workloads", f"Workloads {word}, by local queue.", *by_local_queue)
            for word in ("quota_reserved", "admitted", "finished")
        }
        by_reason = ("cluster_queue", "reason", "underlying_cause", "priority_class")
        self._evicted = self._counter("evicted_workloads", "Evictions.", *by_reason)
        self._evicted_once = self._counter("evicted_workloads_once", "Workloads evicted at least once.", *by_reason)
        self.preempted = self._counter(
            "preempted_workloads", "Preemptions by who asked for them.", "preempting_cluster_queue", "reason"
        )
        self._now = Gauges(world, shows_resources=bool(section.get("enableClusterQueueResources")))
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
        self._count_in_local_queue(old, new)
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
            admitted = conditions.find(new, "Admitted")
            if admitted is not None:
                since = max(0.0, (now_ns - conditions.since_ns(admitted)) / SECOND_NS)
                self._ready_since_admission.labels(*labels).observe(since)
        self._count_evictions(old, new)

    def _count_in_local_queue(self, old: Object, new: Object) -> None:
        labels = (new["spec"].get("queueName", ""), new["metadata"]["namespace"], facts.priority_class_name(new), ROLE)
        for word, condition in (
            ("quota_reserved", "QuotaReserved"),
            ("admitted", "Admitted"),
            ("finished", "Finished"),
        ):
            if _became_true(old, new, condition):
                self._of_local_queues[word].labels(*labels).inc()

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
