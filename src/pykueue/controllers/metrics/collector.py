"""What happened: transitions of Workloads, jobs and pods, and the scheduler's cycles, counted as they show.

`Metrics` is the whole of a controller's metrics; `app.metrics_endpoint` and `app.health` serve it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import generate_latest

from pykueue.api import conditions, feature_gates, resources
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.metrics import instruments
from pykueue.controllers.metrics.custom_labels import CustomLabels
from pykueue.controllers.metrics.gauges import Gauges
from pykueue.controllers.metrics.local_queue_gauges import Choice, LocalQueueGauges
from pykueue.controllers.metrics.pod_gates import PodGates
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache


class Metrics:
    def __init__(
        self,
        mirror: ObjectCache,
        view: EngineView,
        clock: Clock,
        configuration: Mapping[str, Any],
        *,
        role: str = instruments.STANDALONE,
        job_resources: Iterable[Resource] = (),
    ) -> None:
        self._mirror = mirror
        self._view = view
        self._clock = clock
        self._job_resources = {(resource.group, resource.kind): resource for resource in job_resources}
        gates = configuration.get("featureGates") or {}
        self._measures_creation = feature_gates.is_enabled(gates, "MetricForWorkloadCreationLatency")
        self._choice = Choice(configuration)
        self.instruments = instruments.Instruments(
            CustomLabels(mirror, configuration),
            role=role,
            without="" if self._choice.is_registered else "local_queue_",
        )
        self._now = Gauges(
            view,
            self.instruments,
            local_queues=LocalQueueGauges(
                view,
                mirror,
                self.instruments,
                choice=self._choice,
                observes_unadmitted=feature_gates.is_enabled(gates, "UnadmittedWorkloadsObservability"),
            ),
            shows_resources=bool((configuration.get("metrics") or {}).get("enableClusterQueueResources")),
            shows_cohorts=feature_gates.is_enabled(gates, "MetricsForCohorts"),
        )
        self._counted_cohorts: set[str] = set()
        PodGates(mirror, clock, self.instruments)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)
        mirror.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        mirror.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)

    def look(self) -> None:
        """Read the engine; `text` then shows what was seen, and may be called from any thread."""
        for name in self._counted_cohorts - self._view.cohort_names():
            self.instruments.forget({"cohort": name})
            self._counted_cohorts.remove(name)
        self._now.look()

    def text(self) -> bytes:
        return generate_latest(self.instruments.registry)

    # The scheduler tells.

    def cycle_ended(self, *, is_success: bool, seconds: float) -> None:
        result = "success" if is_success else "inadmissible"
        self.instruments.count("admission_attempts_total", result)
        self.instruments.observe("admission_attempt_duration_seconds", result, seconds=seconds)

    def preempted(self, by_cluster_queue: str, reason: str) -> None:
        self.instruments.count("preempted_workloads_total", by_cluster_queue, reason)

    # Queues.

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["name"]
            self.instruments.forget({"cluster_queue": name})
            self.instruments.forget({"preempting_cluster_queue": name})

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and self._choice.includes(old) and not self._choice.includes(new):
            metadata = old["metadata"]
            self.instruments.forget({"name": metadata["name"], "namespace": metadata["namespace"]})

    # Workloads.

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if old is None:
            if self._measures_creation and self._mirror.is_listed(resources.WORKLOAD):
                self._created(new)
            return
        if _became_true(old, new, "QuotaReserved"):
            self._count(new, "quota_reserved_workloads_total")
            self._observe(new, "quota_reserved_wait_time_seconds", self._seconds_queued(new))
        if _became_true(old, new, "Admitted"):
            self._admitted(new)
        if _became_true(old, new, "Finished"):
            self._finished(old, new)
        ready = conditions.find(new, "PodsReady")
        if _became_true(old, new, "PodsReady") and ready is not None and ready["reason"] == "Started":
            self._observe(new, "ready_wait_time_seconds", self._seconds_queued(new))
            self._observe(new, "admitted_until_ready_wait_time_seconds", self._seconds_since(new, "Admitted"))
        self._evicted(old, new)

    def _created(self, workload: Object) -> None:
        owner = predicates.controller_of(workload)
        if owner is None:
            return
        group = str(owner["apiVersion"]).rpartition("/")[0]
        resource = self._job_resources.get((group, owner["kind"]))
        metadata = workload["metadata"]
        job = None if resource is None else self._mirror.get(resource, owner["name"], metadata["namespace"])
        if job is not None and job["metadata"].get("generation", 1) <= 1:
            seconds = (to_ns(metadata["creationTimestamp"]) - to_ns(job["metadata"]["creationTimestamp"])) / SECOND_NS
            self.instruments.observe("workload_creation_latency_seconds", owner["kind"], seconds=seconds)

    def _admitted(self, workload: Object) -> None:
        self._count(workload, "admitted_workloads_total")
        self._observe(workload, "admission_wait_time_seconds", self._seconds_queued(workload))
        if predicates.checks(workload):
            waited = self._seconds_since(workload, "QuotaReserved")
            self._observe(workload, "admission_checks_wait_time_seconds", waited)
        path = self._view.path(values.ClusterQueueName(predicates.cluster_queue_reserved(workload)))
        for cohort in path[:-1]:
            priority_class = predicates.priority_class_name(workload)
            self.instruments.count("cohort_subtree_admitted_workloads_total", cohort, priority_class)
            self._counted_cohorts.add(cohort)

    def _finished(self, old: Object, new: Object) -> None:
        self._count(new, "finished_workloads_total", cluster_queue=predicates.cluster_queue_reserved(old))
        finished = conditions.find(new, "Finished")
        if finished is not None and finished["reason"] == "WorkloadSliceReplaced":
            self.instruments.count("replaced_workload_slices_total", predicates.cluster_queue_reserved(old))

    def _evicted(self, old: Object, new: Object) -> None:
        cluster_queue = predicates.cluster_queue_reserved(old)
        before = {_cause(each): each["count"] for each in _evictions(old)}
        for eviction in _evictions(new):
            cause = _cause(eviction)
            added = eviction["count"] - before.get(cause, 0)
            if added <= 0:
                continue
            labels = (*cause, predicates.priority_class_name(new))
            self.instruments.count("evicted_workloads_total", cluster_queue, *labels, by=added)
            if cause not in before:
                self.instruments.count("evicted_workloads_once_total", cluster_queue, *labels)
            if local_queue := self._shown_local_queue(new):
                self.instruments.count("local_queue_evicted_workloads_total", *local_queue, *labels, by=added)
            if conditions.is_true(old, "PodsReady"):
                seconds = self._seconds_since(old, "PodsReady")
                name = "pods_ready_to_evicted_time_seconds"
                self.instruments.observe(name, cluster_queue, *cause, seconds=seconds)
        evicted = conditions.find(new, "Evicted")
        is_back = predicates.has_quota_reservation(old) and predicates.status_word(new) == "pending"
        if cluster_queue and is_back and evicted is not None and evicted["status"] == "True":
            seconds = self._seconds_since(new, "Evicted")
            name = "workload_eviction_latency_seconds"
            self.instruments.observe(name, cluster_queue, str(evicted["reason"]), seconds=seconds)

    # Of a cluster queue, and of its local queue if that is measured.

    def _count(self, workload: Object, name: str, *, cluster_queue: str | None = None) -> None:
        priority_class = predicates.priority_class_name(workload)
        queue = predicates.cluster_queue_reserved(workload) if cluster_queue is None else cluster_queue
        self.instruments.count(name, queue, priority_class)
        if local_queue := self._shown_local_queue(workload):
            self.instruments.count(f"local_queue_{name}", *local_queue, priority_class)

    def _observe(self, workload: Object, name: str, seconds: float) -> None:
        priority_class = predicates.priority_class_name(workload)
        self.instruments.observe(name, predicates.cluster_queue_reserved(workload), priority_class, seconds=seconds)
        if local_queue := self._shown_local_queue(workload):
            self.instruments.observe(f"local_queue_{name}", *local_queue, priority_class, seconds=seconds)

    def _shown_local_queue(self, workload: Object) -> tuple[str, str] | None:
        name, namespace = workload["spec"].get("queueName", ""), workload["metadata"]["namespace"]
        queue = self._mirror.get(resources.LOCAL_QUEUE, name, namespace)
        return (name, namespace) if self._choice.includes(queue) else None

    def _seconds_queued(self, workload: Object) -> float:
        return (self._clock.now_ns() - predicates.queued_since_ns(workload)) / SECOND_NS

    def _seconds_since(self, workload: Object, condition_type: str) -> float:
        condition = conditions.find(workload, condition_type)
        return 0.0 if condition is None else (self._clock.now_ns() - conditions.since_ns(condition)) / SECOND_NS


def _became_true(old: Object, new: Object, condition_type: str) -> bool:
    return conditions.is_true(new, condition_type) and not conditions.is_true(old, condition_type)


def _evictions(workload: Object) -> list[Object]:
    stats = (workload.get("status") or {}).get("schedulingStats") or {}
    found: list[Object] = stats.get("evictions") or []
    return found


def _cause(eviction: Object) -> tuple[str, str]:
    return str(eviction["reason"]), str(eviction.get("underlyingCause", ""))
