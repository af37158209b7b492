"""The input of `decide.plan`: a job, related objects and the policy, gathered by `controller`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api import selectors
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.workloads.unadmitted import LEGACY, UnadmittedStatus
from pykueue.translate.jobs.framework import JobFramework, JobOptions


class JobPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that the job controllers use."""

    manage_jobs_without_queue_name: bool = False
    namespace_selector: Mapping[str, Any] | None = None
    """managedJobsNamespaceSelector; None manages every namespace."""
    label_keys_to_copy: tuple[str, ...] = ()
    annotation_keys_to_copy: tuple[str, ...] = ()
    """The annotations that metrics show of Workloads (CustomMetricLabels)."""
    waits_for_pods_ready: bool = True
    retain_deactivated_ns: int | None = None
    finish_orphans: bool = True
    slices_workloads: bool = True
    """Whether elastic jobs grow and shrink while they run (ElasticJobsViaWorkloadSlices)."""
    identifies_by_annotation: bool = True
    """Whether annotations name prebuilt Workloads and groups (WorkloadIdentifierAnnotations)."""
    labels_queues: bool = True
    """Whether pods get labels with the names of their queues (AssignQueueLabelsForPods)."""
    deleted_pods_use_quota: bool = True
    """Off by FastQuotaReleaseInPodIntegration."""
    external_jobs: tuple[Resource, ...] = ()
    """The job kinds that other controllers queue (`integrations.externalFrameworks`)."""
    requeues_single_pods: bool = False
    """Whether the Workload of an evicted single pod may be queued again, although the pod ends
    with it (off by SkipReassignmentForPodOwnedWorkloads)."""
    dispatches: bool = True
    """Whether Workloads with a check of MultiKueue run on other clusters (MultiKueue)."""
    checks_group_owner: bool = True
    """Whether a pod group takes only Workloads of pod groups
    (PodIntegrationValidateGroupOwner)."""
    defers_finalization: bool = True
    """Whether the Workload of a deleted RayService stays until Redis is cleaned up
    (DeferRayServiceFinalizationForRedisCleanup)."""
    unadmitted: UnadmittedStatus = LEGACY
    max_name_length: int = 253
    """The maximum length of a Workload's name (ShortWorkloadNames)."""
    options: JobOptions = msgspec.field(default_factory=JobOptions)

    def manages(self, namespace_labels: Mapping[str, str]) -> bool:
        return self.namespace_selector is None or selectors.selects(self.namespace_selector, namespace_labels)


class PriorityClasses(msgspec.Struct, frozen=True, kw_only=True):
    """The WorkloadPriorityClasses and PriorityClasses by name."""

    workload: Mapping[str, Object] = msgspec.field(default_factory=dict)
    pod: Mapping[str, Object] = msgspec.field(default_factory=dict)


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    kind: JobFramework
    job: Object | None
    """None if the job was deleted."""
    workloads: tuple[Object, ...] = ()
    """The Workloads that the job controls, and the prebuilt one if the job names one."""
    namespace_labels: Mapping[str, str] | None = None
    ancestor: Object | None = None
    """The topmost owner that Kueue manages; its Workload admits the job too."""
    ancestor_workloads: tuple[Object, ...] = ()
    flavors: Mapping[str, Object] = msgspec.field(default_factory=dict)
    classes: PriorityClasses = msgspec.field(default_factory=PriorityClasses)
    dispatching_checks: frozenset[str] = frozenset()
    """The AdmissionChecks of MultiKueue: pods with one of them run on another cluster."""
    policy: JobPolicy = msgspec.field(default_factory=JobPolicy)
    now_ns: int = 0
