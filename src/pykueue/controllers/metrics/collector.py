"""Counters and histograms of Workloads, pods and scheduling cycles, recorded as objects change.

`Metrics` holds all metrics of a controller; `app.metrics_endpoint` and `app.health` serve them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import generate_latest

from pykueue.api import conditions, feature_gates, objects, resources
from pykueue.api.labels import ADMISSION_GATE, ELASTIC_JOB, POD_GROUP_NAME, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.metrics import instruments
from pykueue.controllers.metrics.gauges import Gauges
from pykueue.controllers.metrics.instruments import CustomLabels, Instruments
from pykueue.controllers.metrics.local_queue_gauges import LocalQueueFilter, LocalQueueGauges
from pykueue.controllers.workloads import predicates
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import variants


class Metrics:
    def __init__(
        self,
        cache: ObjectCache,
        view: EngineView,
        clock: Clock,
        configuration: Mapping[str, Any],
        *,
        role: str = instruments.STANDALONE,
        job_resources: Iterable[Resource] = (),
    ) -> None:
        self._cache = cache
        self._view = view
        self._clock = clock
        self._job_resources = {(resource.group, resource.kind): resource for resource in job_resources}
        gates = configuration.get("featureGates") or {}
        self._measures_creation = feature_gates.is_enabled(gates, "MetricForWorkloadCreationLatency")
        self._filter = LocalQueueFilter(configuration)
        self.instruments = instruments.Instruments(
            CustomLabels(cache, configuration),
            role=role,
            without="" if self._filter.is_registered else "local_queue_",
        )
        self._gauges = Gauges(
            view,
            self.instruments,
            local_queues=LocalQueueGauges(
                view,
                cache,
                self.instruments,
                queue_filter=self._filter,
                observes_unadmitted=feature_gates.is_enabled(gates, "UnadmittedWorkloadsObservability"),
            ),
            shows_resources=bool((configuration.get("metrics") or {}).get("enableClusterQueueResources")),
            shows_cohorts=feature_gates.is_enabled(gates, "MetricsForCohorts"),
        )
        self._counted_cohorts: set[str] = set()
        PodGates(cache, clock, self.instruments)
        cache.on_change(resources.WORKLOAD, self._workload_changed)
        cache.on_change(resources.CLUSTER_QUEUE, self._cluster_queue_changed)
        cache.on_change(resources.COHORT, self._cohort_changed)
        cache.on_change(resources.LOCAL_QUEUE, self._local_queue_changed)

    def refresh(self) -> None:
        """Reads the gauges from the engine; `text` may then run in any thread."""
        self._forget_former_cohorts()
        self._gauges.refresh()

    def _forget_former_cohorts(self) -> None:
        for name in self._counted_cohorts - self._view.cohort_names():
            self._forget_cohort(name)

    def queue_totals(self) -> Mapping[str, tuple[float, float, float]]:
        """By ClusterQueue: workloads admitted, the sum of their waits, and workloads finished."""
        waits = self.instruments.totals("admission_wait_time_seconds")
        finished = self.instruments.counts("finished_workloads_total")
        return {
            queue: (*waits.get(queue, (0.0, 0.0)), finished.get(queue, 0.0)) for queue in waits.keys() | finished.keys()
        }

    def text(self) -> bytes:
        return generate_latest(self.instruments.registry)

    # Called by the scheduler.

    def cycle_ended(self, *, is_success: bool, seconds: float) -> None:
        result = "success" if is_success else "inadmissible"
        self.instruments.count("admission_attempts_total", result)
        self.instruments.observe("admission_attempt_duration_seconds", result, seconds=seconds)

    def preempted(self, by_cluster_queue: str, reason: str) -> None:
        self.instruments.count("preempted_workloads_total", by_cluster_queue, reason)

    # Called by MultiKueue.

    def dispatched(self, cluster_queue: str, cluster: str) -> None:
        self.instruments.count_dispatch("multikueue_workloads_dispatched_total", cluster_queue, cluster)

    def admitted_elsewhere(self, cluster_queue: str, cluster: str) -> None:
        self.instruments.count_dispatch("multikueue_workloads_admitted_total", cluster_queue, cluster)

    def differed(self, part: str, kind: str) -> None:
        """The audit found an object that the cache or the engine had wrongly."""
        self.instruments.count_difference(part, kind)

    # Queues.

    def _cluster_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["name"]
            self.instruments.remove({"cluster_queue": name})
            self.instruments.remove({"preempting_cluster_queue": name})
        self._forget_if_left(_cohort_of(old), _cohort_of(new))

    def _cohort_changed(self, old: Object | None, new: Object | None) -> None:
        """A Cohort that is created again under this name starts to count at zero."""
        if new is None and old is not None:
            self._forget_cohort(objects.name(old))
        self._forget_if_left(_parent_of(old), _parent_of(new))

    def _forget_if_left(self, former: str, current: str) -> None:
        """A cohort without an object ends with its last member: its next one counts from zero."""
        if former not in self._counted_cohorts or former == current or self._cache.get(resources.COHORT, former):
            return
        members = (
            *map(_cohort_of, self._cache.all(resources.CLUSTER_QUEUE)),
            *map(_parent_of, self._cache.all(resources.COHORT)),
        )
        if former not in members:
            self._forget_cohort(former)

    def _forget_cohort(self, name: str) -> None:
        self.instruments.remove({"cohort": name})
        self._counted_cohorts.discard(name)

    def _local_queue_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and self._filter.includes(old) and not self._filter.includes(new):
            metadata = old["metadata"]
            self.instruments.remove({"name": metadata["name"], "namespace": metadata["namespace"]})

    # Workloads.

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if old is None:
            if self._measures_creation and self._cache.is_listed(resources.WORKLOAD):
                self._created(new)
            return
        became_true = conditions.true_types(new) - conditions.true_types(old)
        if became_true and not variants.is_parent(new):
            self._scheduled(new, became_true)
        if "Finished" in became_true:
            self._finished(old, new)
        ready = conditions.find(new, "PodsReady") if "PodsReady" in became_true else None
        if ready is not None and ready["reason"] == "Started":
            self._observe(new, "ready_wait_time_seconds", self._seconds_queued(new))
            self._observe(new, "admitted_until_ready_wait_time_seconds", self._seconds_since(new, "Admitted"))
        if conditions.find(new, "Evicted") is not None:
            self._evicted(old, new)

    def _scheduled(self, workload: Object, became_true: set[str]) -> None:
        if "QuotaReserved" in became_true:
            self._count(workload, "quota_reserved_workloads_total")
            self._observe(workload, "quota_reserved_wait_time_seconds", self._seconds_queued(workload))
        if "Admitted" in became_true:
            self._admitted(workload)

    def _created(self, workload: Object) -> None:
        owner = objects.controller_of(workload)
        if owner is None:
            return
        group = str(owner["apiVersion"]).rpartition("/")[0]
        resource = self._job_resources.get((group, owner["kind"]))
        metadata = workload["metadata"]
        job = None if resource is None else self._cache.get(resource, owner["name"], metadata["namespace"])
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
            if cohort not in self._counted_cohorts:
                self._forget_former_cohorts()
                self._counted_cohorts.add(cohort)

    def _finished(self, old: Object, new: Object) -> None:
        self._count(new, "finished_workloads_total", cluster_queue=predicates.cluster_queue_reserved(old))
        finished = conditions.find(new, "Finished")
        if finished is not None and finished["reason"] == "WorkloadSliceReplaced":
            self.instruments.count("replaced_workload_slices_total", predicates.cluster_queue_reserved(old))

    def _evicted(self, old: Object, new: Object) -> None:
        cluster_queue = predicates.cluster_queue_reserved(old)
        before = {_cause(eviction): eviction["count"] for eviction in _evictions(old)}
        for eviction in _evictions(new):
            cause = _cause(eviction)
            added = eviction["count"] - before.get(cause, 0)
            if added <= 0:
                continue
            labels = (*cause, predicates.priority_class_name(new))
            self.instruments.count("evicted_workloads_total", cluster_queue, *labels, by=added)
            if cause not in before:
                self.instruments.count("evicted_workloads_once_total", cluster_queue, *labels)
            if local_queue := self._measured_local_queue(new):
                self.instruments.count("local_queue_evicted_workloads_total", *local_queue, *labels, by=added)
            if conditions.is_true(old, "PodsReady"):
                seconds = self._seconds_since(old, "PodsReady")
                name = "pods_ready_to_evicted_time_seconds"
                self.instruments.observe(name, cluster_queue, *cause, seconds=seconds)
        evicted = conditions.find(new, "Evicted")
        is_pending_again = predicates.has_quota_reservation(old) and predicates.status_word(new) == "pending"
        if cluster_queue and is_pending_again and evicted is not None and evicted["status"] == "True":
            seconds = self._seconds_since(new, "Evicted")
            name = "workload_eviction_latency_seconds"
            self.instruments.observe(name, cluster_queue, str(evicted["reason"]), seconds=seconds)

    # Samples of a ClusterQueue, and of its LocalQueue if that has metrics.

    def _count(self, workload: Object, name: str, *, cluster_queue: str | None = None) -> None:
        priority_class = predicates.priority_class_name(workload)
        queue = predicates.cluster_queue_reserved(workload) if cluster_queue is None else cluster_queue
        self.instruments.count(name, queue, priority_class)
        if local_queue := self._measured_local_queue(workload):
            self.instruments.count(f"local_queue_{name}", *local_queue, priority_class)

    def _observe(self, workload: Object, name: str, seconds: float) -> None:
        priority_class = predicates.priority_class_name(workload)
        self.instruments.observe(name, predicates.cluster_queue_reserved(workload), priority_class, seconds=seconds)
        if local_queue := self._measured_local_queue(workload):
            self.instruments.observe(f"local_queue_{name}", *local_queue, priority_class, seconds=seconds)

    def _measured_local_queue(self, workload: Object) -> tuple[str, str] | None:
        name, namespace = workload["spec"].get("queueName", ""), workload["metadata"]["namespace"]
        queue = self._cache.get(resources.LOCAL_QUEUE, name, namespace)
        return (name, namespace) if self._filter.includes(queue) else None

    def _seconds_queued(self, workload: Object) -> float:
        return (self._clock.now_ns() - predicates.queued_since_ns(workload)) / SECOND_NS

    def _seconds_since(self, workload: Object, condition_type: str) -> float:
        condition = conditions.find(workload, condition_type)
        return 0.0 if condition is None else (self._clock.now_ns() - conditions.since_ns(condition)) / SECOND_NS


def _cohort_of(cluster_queue: Object | None) -> str:
    return str(objects.spec(cluster_queue).get("cohortName") or "") if cluster_queue else ""


def _parent_of(cohort: Object | None) -> str:
    return str(objects.spec(cohort).get("parentName") or "") if cohort else ""


def _evictions(workload: Object) -> list[Object]:
    return objects.nested_list(workload, "status", "schedulingStats", "evictions")


def _cause(eviction: Object) -> tuple[str, str]:
    return str(eviction["reason"]), str(eviction.get("underlyingCause", ""))


GATES = (TOPOLOGY_GATE, ADMISSION_GATE, ELASTIC_JOB)


class PodGates:
    """Measures the time from the admission of a Workload to the removal of its pods' gates."""

    def __init__(self, cache: ObjectCache, clock: Clock, instruments: Instruments) -> None:
        self._cache = cache
        self._clock = clock
        self._instruments = instruments
        cache.on_change(resources.POD, self._pod_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or not old["spec"].get("schedulingGates"):
            return
        for gate in _gates(old) - _gates(new):
            self._removed(gate, new)

    def _removed(self, gate: str, pod: Object) -> None:
        group = objects.labels(pod).get(POD_GROUP_NAME, "")
        workload = self._workload_of(pod, group)
        admitted = None if workload is None else conditions.find(workload, "Admitted")
        if workload is None or admitted is None or admitted["status"] != "True":
            return
        seconds = (self._clock.now_ns() - conditions.since_ns(admitted)) / SECOND_NS
        labels = (gate, predicates.cluster_queue_reserved(workload), "true" if group else "false")
        self._instruments.observe("pod_scheduling_gate_removal_seconds", *labels, seconds=seconds)

    def _workload_of(self, pod: Object, group: str) -> Object | None:
        """The Workload of the pod's group, or the annotated one, or the one that the pod owns."""
        metadata = pod["metadata"]
        name = group or (metadata.get("annotations") or {}).get(WORKLOAD_ANNOTATION, "")
        if name:
            return self._cache.get(resources.WORKLOAD, name, metadata["namespace"])
        owned = self._cache.indexed(resources.WORKLOAD, "owner", f"Pod/{metadata['namespace']}/{metadata['name']}")
        return owned[0] if owned else None


def _gates(pod: Object) -> set[str]:
    return {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()} & set(GATES)
