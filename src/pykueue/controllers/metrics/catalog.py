"""Every metric of Kueue: its name, type, labels and buckets. Read by `instruments`."""

import enum
from collections.abc import Iterable

import msgspec


class MetricType(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: MetricType
    labels: tuple[str, ...]
    """Without `replica_role` and the custom labels."""
    about: str
    buckets: tuple[float, ...] = ()
    sources: tuple[str, ...] = ()
    """The kinds of the objects that provide custom labels, in the order of the labels."""


def waiting_buckets(count: int) -> tuple[float, ...]:
    return (1, *(2.5 * 2**step for step in range(count - 1)))


DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_CREATION_BUCKETS = tuple(0.01 * 2**step for step in range(11))

_QUEUE = ("cluster_queue",)
_BY_CLASS = (*_QUEUE, "priority_class")
_LOCAL = ("name", "namespace")
_LOCAL_BY_CLASS = (*_LOCAL, "priority_class")
_CAUSE = ("reason", "underlying_cause")
_QUOTA = ("cohort", "cluster_queue", "flavor", "resource")
_LOCAL_QUOTA = (*_LOCAL, "flavor", "resource")
_COHORT_QUOTA = ("cohort", "flavor", "resource")
_PARENTS = ("parent_cohort", "root_cohort")

_COUNTERS = (
    ("admission_attempts_total", ("result",), "Scheduling cycles by result."),
    ("quota_reserved_workloads_total", _BY_CLASS, "Workloads that got quota."),
    ("admitted_workloads_total", _BY_CLASS, "Workloads that were admitted."),
    ("finished_workloads_total", _BY_CLASS, "Workloads that finished."),
    ("evicted_workloads_total", (*_QUEUE, *_CAUSE, "priority_class"), "Evictions."),
    ("evicted_workloads_once_total", (*_QUEUE, *_CAUSE, "priority_class"), "Workloads evicted for the first time."),
    ("preempted_workloads_total", ("preempting_cluster_queue", "reason"), "Preemptions by who asked for them."),
    ("replaced_workload_slices_total", _QUEUE, "Slices of elastic workloads that a newer one replaced."),
    ("cohort_subtree_admitted_workloads_total", ("cohort", "priority_class"), "Workloads admitted below a cohort."),
    ("local_queue_quota_reserved_workloads_total", _LOCAL_BY_CLASS, "Workloads that got quota."),
    ("local_queue_admitted_workloads_total", _LOCAL_BY_CLASS, "Workloads that were admitted."),
    ("local_queue_finished_workloads_total", _LOCAL_BY_CLASS, "Workloads that finished."),
    ("local_queue_evicted_workloads_total", (*_LOCAL, *_CAUSE, "priority_class"), "Evictions."),
)
_CLUSTER_COUNTERS = (
    ("multikueue_workloads_dispatched_total", (*_QUEUE, "cluster"), "Workloads created on a worker cluster."),
    ("multikueue_workloads_admitted_total", (*_QUEUE, "cluster"), "Workloads admitted on a worker cluster."),
)
_HISTOGRAMS = (
    ("admission_attempt_duration_seconds", ("result",), "Time of a scheduling cycle.", DEFAULT_BUCKETS),
    ("quota_reserved_wait_time_seconds", _BY_CLASS, "From queueing to quota.", waiting_buckets(14)),
    ("admission_wait_time_seconds", _BY_CLASS, "From queueing to admission.", waiting_buckets(16)),
    ("admission_checks_wait_time_seconds", _BY_CLASS, "From quota to admission.", waiting_buckets(14)),
    ("ready_wait_time_seconds", _BY_CLASS, "From queueing to ready pods.", waiting_buckets(14)),
    ("admitted_until_ready_wait_time_seconds", _BY_CLASS, "From admission to ready pods.", waiting_buckets(14)),
    ("pods_ready_to_evicted_time_seconds", (*_QUEUE, *_CAUSE), "From ready pods to eviction.", waiting_buckets(14)),
    ("workload_eviction_latency_seconds", (*_QUEUE, "reason"), "From eviction to free quota.", waiting_buckets(14)),
    ("workload_creation_latency_seconds", ("job_kind",), "From a job to its Workload.", _CREATION_BUCKETS),
    (
        "pod_scheduling_gate_removal_seconds",
        ("name", "cluster_queue", "is_group"),
        "From admission to the removal of a pod's scheduling gate.",
        DEFAULT_BUCKETS,
    ),
    ("local_queue_quota_reserved_wait_time_seconds", _LOCAL_BY_CLASS, "From queueing to quota.", waiting_buckets(14)),
    ("local_queue_admission_wait_time_seconds", _LOCAL_BY_CLASS, "From queueing to admission.", waiting_buckets(14)),
    (
        "local_queue_admission_checks_wait_time_seconds",
        _LOCAL_BY_CLASS,
        "From quota to admission.",
        waiting_buckets(14),
    ),
    ("local_queue_ready_wait_time_seconds", _LOCAL_BY_CLASS, "From queueing to ready pods.", waiting_buckets(14)),
    (
        "local_queue_admitted_until_ready_wait_time_seconds",
        _LOCAL_BY_CLASS,
        "From admission to ready pods.",
        waiting_buckets(14),
    ),
)
_GAUGES = (
    ("pending_workloads", (*_QUEUE, "status"), "Workloads that wait."),
    ("reserving_active_workloads", _QUEUE, "Workloads with quota now."),
    ("admitted_active_workloads", _QUEUE, "Workloads admitted now."),
    ("finished_workloads", _QUEUE, "Finished workloads that still exist."),
    ("unadmitted_workloads", (*_QUEUE, *_CAUSE), "Workloads that are not admitted, by reason."),
    ("admission_cycle_preemption_skips", _QUEUE, "Preemptors put off in the last cycle."),
    ("cluster_queue_status", (*_QUEUE, "status"), "1 for the status that a queue has."),
    ("cluster_queue_info", (*_QUEUE, *_PARENTS), "The cohorts above a queue."),
    ("cluster_queue_resource_reservation", _QUOTA, "Quota reserved."),
    ("cluster_queue_resource_usage", _QUOTA, "Quota of admitted workloads."),
    ("cluster_queue_resource_pending", (*_QUEUE, "resource"), "What the waiting workloads ask for."),
    ("cluster_queue_nominal_quota", _QUOTA, "Nominal quota."),
    ("cluster_queue_borrowing_limit", _QUOTA, "Most that may be borrowed."),
    ("cluster_queue_lending_limit", _QUOTA, "Most that may be lent."),
    ("cluster_queue_weighted_share", (*_QUEUE, "cohort"), "Share of borrowed quota."),
    ("cohort_info", ("cohort", *_PARENTS), "The cohorts above a cohort."),
    ("cohort_weighted_share", ("cohort",), "Share of borrowed quota."),
    ("cohort_subtree_quota", _COHORT_QUOTA, "Quota of a cohort and all below it."),
    ("cohort_subtree_resource_reservations", _COHORT_QUOTA, "Quota reserved below a cohort."),
    ("cohort_subtree_admitted_active_workloads", ("cohort",), "Workloads admitted now below a cohort."),
    ("local_queue_pending_workloads", (*_LOCAL, "status"), "Workloads that wait."),
    ("local_queue_reserving_active_workloads", _LOCAL, "Workloads with quota now."),
    ("local_queue_admitted_active_workloads", _LOCAL, "Workloads admitted now."),
    ("local_queue_finished_workloads", _LOCAL, "Finished workloads that still exist."),
    (
        "local_queue_unadmitted_workloads",
        (*_LOCAL, "cluster_queue", *_CAUSE),
        "Workloads that are not admitted, by reason.",
    ),
    ("local_queue_status", (*_LOCAL, "active"), "1 for the status that a queue has."),
    ("local_queue_resource_reservation", _LOCAL_QUOTA, "Quota reserved."),
    ("local_queue_resource_usage", _LOCAL_QUOTA, "Quota of admitted workloads."),
    ("local_queue_admission_fair_sharing_usage", (*_LOCAL, "cluster_queue"), "What was used lately, by weight."),
)
BUILD_INFO = Measure(
    name="kueue_build_info",
    kind=MetricType.GAUGE,
    labels=("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
    about="What is running here.",
)
LOOP_BLOCKED = Measure(
    name="pykueue_event_loop_blocked_total",
    kind=MetricType.COUNTER,
    labels=(),
    about="Turns of the event loop longer than 100 ms, in which nothing else was answered.",
)
"""These have no label `replica_role`; Kueue does not have the last one."""


def _sources(name: str, labels: Iterable[str]) -> tuple[str, ...]:
    if name.startswith("local_queue_") or name == "workload_creation_latency_seconds":
        return ("LocalQueue",)
    if name == "admitted_active_workloads":
        return ("ClusterQueue", "Workload")
    if {"cluster_queue", "preempting_cluster_queue"} & set(labels):
        return ("ClusterQueue",)
    return ("Cohort",) if "cohort" in labels else ()


def _measures() -> Iterable[Measure]:
    rows = [(MetricType.COUNTER, *row, ()) for row in _COUNTERS]
    rows += [(MetricType.GAUGE, *row, ()) for row in _GAUGES]
    rows += [(MetricType.HISTOGRAM, *row) for row in _HISTOGRAMS]
    for kind, name, labels, about, buckets in rows:
        yield Measure(
            name=f"kueue_{name}",
            kind=kind,
            labels=labels,
            about=about,
            buckets=buckets,
            sources=_sources(name, labels),
        )
    for name, labels, about in _CLUSTER_COUNTERS:
        yield Measure(name=name, kind=MetricType.COUNTER, labels=labels, about=about)


AUDIT_DIFFERENCES = Measure(
    name="pykueue_audit_differences_total",
    kind=MetricType.COUNTER,
    labels=("part", "kind"),
    about="Objects that a part (cache or engine) had otherwise than the API, and that were repaired.",
)
"""The only metric that Kueue does not have."""
CATALOG = {measure.name: measure for measure in _measures()}
