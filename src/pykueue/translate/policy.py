"""Converts the Configuration and its feature gates to the engine's `Policy` and other options.

Takes the configuration as JSON (v1beta2, with or without its defaults). Called once at start by
the scheduler, `pykueue explain` and replays.
"""

from collections.abc import Mapping
from typing import Any

from pykueue.api import durations, feature_gates
from pykueue.api.times import SECOND_NS
from pykueue.engine import policy, values
from pykueue.translate import device_sources, devices, requests, workload

_DEFAULT_SAMPLING_INTERVAL = "5m"


def engine_policy(configuration: Mapping[str, Any]) -> policy.Policy:
    def gate(name: str) -> bool:
        return feature_gates.is_enabled(configuration.get("featureGates") or {}, name)

    pods_ready = configuration.get("waitForPodsReady") or {}
    return policy.Policy(
        fair_sharing=_fair_sharing(configuration.get("fairSharing")),
        admission_fair_sharing=(
            _admission_fair_sharing(configuration.get("admissionFairSharing")) if gate("AdmissionFairSharing") else None
        ),
        quota_check_strategy=policy.QuotaCheckStrategy(
            (gate("QuotaCheckStrategy") and (configuration.get("resources") or {}).get("quotaCheckStrategy"))
            or "BlockUndeclared"
        ),
        requeuing_timestamp=policy.RequeuingTimestamp(
            (pods_ready.get("requeuingStrategy") or {}).get("timestamp") or "Eviction"
        ),
        block_admission=bool(pods_ready.get("blockAdmission")) and not gate("DisableWaitForPodsReady"),
        preemption_loop_guard=bool(configuration.get("preemptionLoopGuard")),
        partial_admission=gate("PartialAdmission"),
        flavor_fungibility=gate("FlavorFungibility"),
        preserve_scan_progress=gate("FlavorFungibilityPreserveScanProgress"),
        priority_sorting_within_cohort=gate("PrioritySortingWithinCohort"),
        fair_sharing_preempt_within_nominal=gate("FairSharingPreemptWithinNominal"),
        fair_sharing_prioritize_non_borrowing=gate("FairSharingPrioritizeNonBorrowing"),
        scheduling_equivalence_hashing=gate("SchedulingEquivalenceHashing"),
        unadmitted_workloads_observability=gate("UnadmittedWorkloadsObservability"),
        preemption_gates=gate("ConcurrentAdmission") or gate("MultiKueueOrchestratedPreemption"),
        prioritize_preemptor_workloads=gate("PrioritizePreemptorWorkloads"),
        timestamp_preemption_buffer=gate("SchedulerTimestampPreemptionBuffer"),
        topology_aware=gate("TopologyAwareScheduling"),
        topology=topology_policy(configuration),
        recompute_placement_within_cycle=gate("TASRecomputeAssignmentWithinSchedulingCycle"),
        recompute_overlapping_targets=gate("RecomputeAssignmentUponPreemptionTargetsOverlap"),
        failed_replacement_evicts=gate("TASFailedNodeReplacementFailFast"),
    )


def requeue_interval_ns(configuration: Mapping[str, Any]) -> int:
    """How long Kueue collects what may let inadmissible workloads in."""
    is_long = feature_gates.is_enabled(configuration.get("featureGates") or {}, "SchedulerLongRequeueInterval")
    return (10 if is_long else 1) * SECOND_NS


def topology_policy(configuration: Mapping[str, Any]) -> policy.TopologyPolicy:
    gates = configuration.get("featureGates") or {}
    return policy.TopologyPolicy(
        mixed_profile=feature_gates.is_enabled(gates, "TASProfileMixed"),
        balanced_placement=feature_gates.is_enabled(gates, "TASBalancedPlacement"),
        overlapping_flavors=feature_gates.is_enabled(gates, "TASHandleOverlappingFlavors"),
    )


def encodes_by_hostname_prefix(configuration: Mapping[str, Any]) -> bool:
    gates = configuration.get("featureGates") or {}
    return feature_gates.is_enabled(gates, "TASAssignmentsEncodingByHostnamePrefix")


def workload_options(configuration: Mapping[str, Any]) -> workload.WorkloadOptions:
    gates = configuration.get("featureGates") or {}
    resources = configuration.get("resources") or {}
    return workload.WorkloadOptions(
        rules=requests.RequestRules(
            excluded_prefixes=tuple(resources.get("excludeResourcePrefixes") or ()),
            transformations=requests.transformations_from(resources.get("transformations") or ()),
            subtracts_reclaimable_pods=feature_gates.is_enabled(gates, "ReclaimablePods"),
        ),
        device_rules=device_rules(configuration),
        computes_hash=feature_gates.is_enabled(gates, "SchedulingEquivalenceHashing"),
        honors_admission_gates=feature_gates.is_enabled(gates, "AdmissionGatedBy"),
        honors_priority_boost=feature_gates.is_enabled(gates, "PriorityBoost"),
        replaces_slices=feature_gates.is_enabled(gates, "ElasticJobsViaWorkloadSlices"),
        respects_preferred_affinity=feature_gates.is_enabled(gates, "TASRespectNodeAffinityPreferred"),
        admits_concurrently=feature_gates.is_enabled(gates, "ConcurrentAdmission"),
        refuses_levels_of_elastic_jobs=feature_gates.is_enabled(gates, "ElasticJobsViaWorkloadSlicesWithTAS"),
        keeps_nodes_of_single_pods=feature_gates.is_enabled(gates, "SkipReassignmentForPodOwnedWorkloads"),
    )


def device_rules(configuration: Mapping[str, Any]) -> devices.DeviceRules:
    gates = configuration.get("featureGates") or {}

    kinds = {
        "counter": feature_gates.is_enabled(gates, "KueueDRAIntegrationPartitionableDevices"),
        "capacity": feature_gates.is_enabled(gates, "KueueDRAIntegrationConsumableCapacity"),
    }
    mappings = (configuration.get("resources") or {}).get("deviceClassMappings") or ()
    return devices.DeviceRules(
        enabled=feature_gates.is_enabled(gates, "KueueDRAIntegration"),
        rejects_when_disabled=feature_gates.is_enabled(gates, "KueueDRARejectWorkloadsWhenDRADisabled"),
        counts_extended_resources=feature_gates.is_enabled(gates, "KueueDRAIntegrationExtendedResource"),
        resource_of=devices.resource_names(mappings),
        sources=device_sources.from_mappings(mappings, frozenset(kind for kind in kinds if kinds[kind])),
    )


def _fair_sharing(section: Mapping[str, Any] | None) -> policy.FairSharing | None:
    if section is None:
        return None
    strategies = section.get("preemptionStrategies")
    if not strategies:
        return policy.FairSharing()
    return policy.FairSharing(preemption_strategies=tuple(policy.FairSharingStrategy(name) for name in strategies))


def _admission_fair_sharing(section: Mapping[str, Any] | None) -> policy.AdmissionFairSharing | None:
    if section is None:
        return None
    return policy.AdmissionFairSharing(
        half_life_ns=durations.to_ns(section["usageHalfLifeTime"]),
        sampling_interval_ns=durations.to_ns(section.get("usageSamplingInterval") or _DEFAULT_SAMPLING_INTERVAL),
        resource_weights={
            values.ResourceName(name): float(weight) for name, weight in (section.get("resourceWeights") or {}).items()
        },
    )
