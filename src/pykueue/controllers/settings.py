"""The policies and job frameworks of the controllers, from the Configuration.

The Configuration is JSON (v1beta2, with or without its defaults). `translate.policy` reads it for
the engine.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykueue.api import durations, feature_gates, resources
from pykueue.api.configuration import loading
from pykueue.api.configuration.types import ALL_AT_ONCE, INCREMENTAL
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Settings
from pykueue.api.times import SECOND_NS
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.context import JobPolicy
from pykueue.controllers.leader_worker_sets import decide
from pykueue.controllers.nodes.decide import ReplacementPolicy
from pykueue.controllers.workloads.context import LifecyclePolicy, PodsReadyPolicy
from pykueue.controllers.workloads.unadmitted import UnadmittedStatus
from pykueue.translate.jobs import custom, registry
from pykueue.translate.jobs.framework import JobFramework, JobOptions

if TYPE_CHECKING:
    from pykueue.controllers.multikueue.composition import DispatchOptions
    from pykueue.controllers.multikueue.context import DispatchPolicy

Configuration = Mapping[str, Any]


def _gate(configuration: Configuration, name: str) -> bool:
    return feature_gates.is_enabled(configuration.get("featureGates") or {}, name)


def waits_for_pods_ready(configuration: Configuration) -> bool:
    """True also without the section, unless the feature gate turns it off."""
    return not _gate(configuration, "DisableWaitForPodsReady")


def lifecycle_policy(configuration: Configuration) -> LifecyclePolicy:
    retention = ((configuration.get("objectRetentionPolicies") or {}).get("workloads")) or {}
    return LifecyclePolicy(
        pods_ready=_pods_ready(configuration) if waits_for_pods_ready(configuration) else None,
        retain_finished_ns=_optional_ns(retention.get("afterFinished")),
        retain_deactivated_ns=_optional_ns(retention.get("afterDeactivatedByKueue")),
        finish_orphans=_gate(configuration, "FinishOrphanedWorkloads"),
        admission_gates=_gate(configuration, "AdmissionGatedBy"),
        concurrent_admission=admits_concurrently(configuration),
        unadmitted=unadmitted_status(configuration),
        syncs_preemption_gates=_gate(configuration, "MultiKueueOrchestratedPreemption"),
    )


def _optional_ns(text: str | None) -> int | None:
    return None if text is None else durations.to_ns(text)


def _pods_ready(configuration: Configuration) -> PodsReadyPolicy:
    section = configuration.get("waitForPodsReady") or {}
    strategy = section.get("requeuingStrategy") or {}
    timeout_ns = durations.to_ns(section.get("timeout") or "30m")
    recovery_ns = durations.to_ns(section["recoveryTimeout"]) if section.get("recoveryTimeout") else timeout_ns
    base_seconds, max_seconds = strategy.get("backoffBaseSeconds"), strategy.get("backoffMaxSeconds")
    return PodsReadyPolicy(
        timeout_ns=timeout_ns,
        recovery_timeout_ns=recovery_ns or None,
        block_admission=bool(section.get("blockAdmission")),
        backoff_limit_count=strategy.get("backoffLimitCount"),
        backoff_base_seconds=60 if base_seconds is None else int(base_seconds),
        backoff_max_seconds=3600 if max_seconds is None else int(max_seconds),
    )


def job_policy(configuration: Configuration) -> JobPolicy:
    lifecycle = lifecycle_policy(configuration)
    integrations = configuration.get("integrations") or {}
    label_keys, annotation_keys = _shown_by_metrics(configuration)
    return JobPolicy(
        manage_jobs_without_queue_name=bool(configuration.get("manageJobsWithoutQueueName")),
        namespace_selector=configuration.get("managedJobsNamespaceSelector") or _default_selector(configuration),
        label_keys_to_copy=tuple(sorted({*(integrations.get("labelKeysToCopy") or ()), *label_keys})),
        annotation_keys_to_copy=tuple(sorted(annotation_keys)),
        waits_for_pods_ready=waits_for_pods_ready(configuration),
        retain_deactivated_ns=lifecycle.retain_deactivated_ns,
        finish_orphans=lifecycle.finish_orphans,
        slices_workloads=_gate(configuration, "ElasticJobsViaWorkloadSlices"),
        identifies_by_annotation=_gate(configuration, "WorkloadIdentifierAnnotations"),
        labels_queues=_gate(configuration, "AssignQueueLabelsForPods"),
        deleted_pods_use_quota=not _gate(configuration, "FastQuotaReleaseInPodIntegration"),
        external_jobs=tuple(map(job_kinds.external, integrations.get("externalFrameworks") or ())),
        requeues_single_pods=not _gate(configuration, "SkipReassignmentForPodOwnedWorkloads"),
        dispatches=_gate(configuration, "MultiKueue"),
        checks_group_owner=_gate(configuration, "PodIntegrationValidateGroupOwner"),
        defers_finalization=_gate(configuration, "DeferRayServiceFinalizationForRedisCleanup"),
        unadmitted=lifecycle.unadmitted,
        max_name_length=max_name_length(configuration),
        options=JobOptions(
            topology_aware=_gate(configuration, "TopologyAwareScheduling"),
            count_default_submitter=bool((integrations.get("rayJob") or {}).get("countDefaultSubmitter")),
        ),
    )


def _shown_by_metrics(configuration: Configuration) -> tuple[set[str], set[str]]:
    """The labels and annotations that Workloads get from their job, because metrics show them."""
    labels: set[str] = set()
    annotations: set[str] = set()
    entries = (configuration.get("metrics") or {}).get("customLabels") or ()
    for entry in entries if _gate(configuration, "CustomMetricLabels") else ():
        if entry.get("sourceKind") != "Workload":
            continue
        if entry.get("sourceAnnotationKey"):
            annotations.add(entry["sourceAnnotationKey"])
        else:
            labels.add(entry.get("sourceLabelKey") or entry["name"])
    return labels, annotations


def unadmitted_status(configuration: Configuration) -> UnadmittedStatus:
    return UnadmittedStatus(
        is_granular=_gate(configuration, "UnadmittedWorkloadsObservability"),
        is_explicit=_gate(configuration, "UnadmittedWorkloadsExplicitStatus"),
    )


def admits_concurrently(configuration: Configuration) -> bool:
    return _gate(configuration, "ConcurrentAdmission")


def recovers_from_failures(configuration: Configuration) -> bool:
    return _gate(configuration, "FailureRecoveryPolicy")


def max_name_length(configuration: Configuration) -> int:
    """The maximum length of the names of Workloads."""
    is_short = _gate(configuration, "ShortWorkloadNames")
    return construction.SHORT_NAME_LENGTH if is_short else construction.MAX_NAME_LENGTH


def replacement_policy(configuration: Configuration) -> ReplacementPolicy:
    return ReplacementPolicy(
        enabled=_gate(configuration, "TopologyAwareScheduling") and _gate(configuration, "TASFailedNodeReplacement"),
        on_pod_termination=_gate(configuration, "TASReplaceNodeOnPodTermination"),
        on_taints=_gate(configuration, "TASReplaceNodeOnNodeTaints"),
        after_fixed_time=_gate(configuration, "TASReplaceNodeDueToNotReadyOverFixedTime"),
    )


def dispatch_options(configuration: Configuration) -> "DispatchOptions | None":
    """MultiKueue; None if its gate is off."""
    from pykueue.controllers.multikueue import adapters
    from pykueue.controllers.multikueue.composition import DispatchOptions

    if not _gate(configuration, "MultiKueue"):
        return None
    section = configuration.get("multiKueue") or {}
    external = section.get("externalFrameworks") if _gate(configuration, "MultiKueueAdaptersForCustomJobs") else ()
    profile = section.get("clusterProfile") or {}
    dispatcher = section.get("dispatcherName") or ALL_AT_ONCE
    names = framework_names(configuration)
    implies_pods = {"pod"} if manages_pods(configuration) else set()
    kinds = [adapters.ADAPTERS[name] for name in adapters.ADAPTERS if name in {*names, *implies_pods}]
    return DispatchOptions(
        policy=_dispatch_policy(configuration, section),
        adapters=(*kinds, *(adapters.external(framework["name"]) for framework in external or ())),
        namespace=configuration.get("namespace") or resources.KUEUE_NAMESPACE,
        gc_interval_ns=durations.to_ns(section.get("gcInterval") or "1m"),
        is_incremental=dispatcher == INCREMENTAL,
        automates_quotas=_gate(configuration, "MultiKueueManagerQuotaAutomation"),
        checks_paths=_gate(configuration, "MultiKueueKubeConfigPathValidation"),
        uses_profiles=_gate(configuration, "MultiKueueClusterProfile"),
        access_providers=profile.get("accessProviders") or profile.get("credentialsProviders") or (),
    )


def _dispatch_policy(configuration: Configuration, section: Mapping[str, Any]) -> "DispatchPolicy":
    from pykueue.controllers.multikueue.context import DispatchPolicy

    steps = section.get("incrementalDispatcherConfig") or {}
    uses_steps = _gate(configuration, "MultiKueueIncrementalDispatcherConfig")
    return DispatchPolicy(
        origin=section.get("origin") or "multikueue",
        worker_lost_timeout_ns=durations.to_ns(section.get("workerLostTimeout") or "15m"),
        nominates_all=(section.get("dispatcherName") or ALL_AT_ONCE) == ALL_AT_ONCE,
        step_size=(steps.get("stepSize") or 3) if uses_steps else 3,
        nominates_in_order=_gate(configuration, "MultiKueueIncrementalDispatcherRespectConfigOrder"),
        orchestrates_preemption=_gate(configuration, "MultiKueueOrchestratedPreemption"),
        syncs_spec=_gate(configuration, "MultiKueueRemoteSpecSync"),
        jobs=job_policy(configuration),
    )


def deletes_requests_on_eviction(configuration: Configuration) -> bool:
    return _gate(configuration, "CleanupProvisioningRequestsOnEviction")


def workers_by_kind(configuration: Configuration) -> Mapping[str, int]:
    """The number of concurrent reconciles by kind, such as `Job.batch` or `Pod`."""
    numbers = (configuration.get("controller") or {}).get("groupKindConcurrency") or {}
    return {kind: number for kind, number in numbers.items() if number > 0}


def cache_sync_seconds(configuration: Configuration) -> float | None:
    """How long the controllers wait for the first lists; without a value they wait for ever."""
    nanoseconds = (configuration.get("controller") or {}).get("cacheSyncTimeout")
    return None if not nanoseconds else int(nanoseconds) / SECOND_NS


def _default_selector(configuration: Configuration) -> Mapping[str, Any]:
    excluded = ["kube-system", configuration.get("namespace") or resources.KUEUE_NAMESPACE]
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}]}


def framework_names(configuration: Configuration) -> tuple[str, ...]:
    return tuple((configuration.get("integrations") or {}).get("frameworks") or ("batch/job",))


_QUEUED_THROUGH_PODS = frozenset({"pod", "deployment", "statefulset", decide.NAME})


def manages_pods(configuration: Configuration) -> bool:
    """Deployments, StatefulSets and LeaderWorkerSets are queued through their pods."""
    return not _QUEUED_THROUGH_PODS.isdisjoint(framework_names(configuration))


def frameworks(configuration: Configuration) -> dict[str, JobFramework]:
    """The enabled frameworks: builtin ones by name, and those that the Configuration describes."""
    enabled = {
        name: registry.FRAMEWORKS[name] for name in framework_names(configuration) if name in registry.FRAMEWORKS
    }
    for description in (configuration.get("integrations") or {}).get("custom") or ():
        framework = custom.framework(description)
        enabled[framework.name] = framework
    return enabled


def admission_settings(configuration: Configuration) -> Settings:
    """The settings of the API server's admission rules."""
    return loading.complete(dict(configuration)).value.settings()
