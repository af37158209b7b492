"""Kueue's feature gates: default, stage, and the gates that each one requires.

Admission rules read them through `Settings.feature_gates`, which holds only what the administrator
set. `api.configuration` refuses unknown gates, locked values and a gate without the gates that it
requires.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class GateStage(enum.Enum):
    ALPHA = "Alpha"
    BETA = "Beta"
    STABLE = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    is_on: bool
    stage: GateStage
    is_locked: bool = False
    needs: tuple[str, ...] = ()


_BETA_ON = Gate(is_on=True, stage=GateStage.BETA)
_BETA_OFF = Gate(is_on=False, stage=GateStage.BETA)
_ALPHA = Gate(is_on=False, stage=GateStage.ALPHA)
_STABLE = Gate(is_on=True, stage=GateStage.STABLE, is_locked=True)


def _on(*needs: str) -> Gate:
    return Gate(is_on=True, stage=GateStage.BETA, needs=needs)


def _alpha(*needs: str) -> Gate:
    return Gate(is_on=False, stage=GateStage.ALPHA, needs=needs)


_TAS = "TopologyAwareScheduling"
_REPLACEMENT = "TASFailedNodeReplacement"
_DRA = "KueueDRAIntegration"

GATES: Mapping[str, Gate] = {
    "AdmissionFairSharing": _BETA_ON,
    "AdmissionGatedBy": _BETA_ON,
    "AssignQueueLabelsForPods": _BETA_ON,
    "CleanupProvisioningRequestsOnEviction": _BETA_ON,
    "ConcurrentAdmission": _ALPHA,
    "CustomMetricLabels": _ALPHA,
    "DeferRayServiceFinalizationForRedisCleanup": _BETA_ON,
    "DisableWaitForPodsReady": _ALPHA,
    "ElasticJobsViaWorkloadSlices": _BETA_ON,
    "ElasticJobsViaWorkloadSlicesWithTAS": _alpha("ElasticJobsViaWorkloadSlices", _TAS),
    "FailureRecoveryPolicy": _ALPHA,
    "FairSharingPreemptWithinNominal": _BETA_ON,
    "FairSharingPrioritizeNonBorrowing": _BETA_ON,
    "FastQuotaReleaseInPodIntegration": _ALPHA,
    "FinishOrphanedWorkloads": _BETA_ON,
    "FlavorFungibility": _BETA_ON,
    "FlavorFungibilityPreserveScanProgress": _BETA_ON,
    "HierarchicalCohorts": _STABLE,
    "KueueDRAIntegration": _BETA_ON,
    "KueueDRAIntegrationConsumableCapacity": _alpha(_DRA),
    "KueueDRAIntegrationExtendedResource": _on(_DRA),
    "KueueDRAIntegrationPartitionableDevices": _on(_DRA),
    "KueueDRARejectWorkloadsWhenDRADisabled": _BETA_ON,
    "LWSImmutableGroupSize": _BETA_ON,
    "LocalQueueMetrics": _BETA_ON,
    "ManagedJobsNamespaceSelectorAlwaysRespected": _STABLE,
    "MetricForWorkloadCreationLatency": _BETA_ON,
    "MetricsForCohorts": _BETA_ON,
    "MultiKueue": _BETA_ON,
    "MultiKueueAdaptersForCustomJobs": _BETA_ON,
    "MultiKueueAllowInsecureKubeconfigs": Gate(is_on=False, stage=GateStage.DEPRECATED, is_locked=True),
    "MultiKueueClusterProfile": _ALPHA,
    "MultiKueueIncrementalDispatcherConfig": _BETA_ON,
    "MultiKueueIncrementalDispatcherRespectConfigOrder": _BETA_ON,
    "MultiKueueKubeConfigPathValidation": _ALPHA,
    "MultiKueueManagerQuotaAutomation": _ALPHA,
    "MultiKueueOrchestratedPreemption": _ALPHA,
    "MultiKueueRedoAdmissionOnEvictionInWorker": _STABLE,
    "MultiKueueRemoteSpecSync": _BETA_ON,
    "MultiKueueWaitForWorkloadAdmitted": _STABLE,
    "ObjectRetentionPolicies": _STABLE,
    "PartialAdmission": _BETA_ON,
    "PodIntegrationValidateGroupOwner": _BETA_ON,
    "PrioritizePreemptorWorkloads": _ALPHA,
    "PriorityBoost": _ALPHA,
    "PrioritySortingWithinCohort": _BETA_ON,
    "PropagateBatchJobLabelsToWorkload": _STABLE,
    "QuotaCheckStrategy": _BETA_ON,
    "ReclaimablePods": _BETA_ON,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": _ALPHA,
    "RejectUpdatesToCQWithInvalidOnFlavors": _ALPHA,
    "RemoveFinalizersWithStrictPatch": _BETA_ON,
    "SchedulerLibraryIntegration": _ALPHA,
    "SchedulerLongRequeueInterval": _ALPHA,
    "SchedulerTimestampPreemptionBuffer": _ALPHA,
    "SchedulingEquivalenceHashing": _BETA_ON,
    "ShortWorkloadNames": _ALPHA,
    "SkipAncestorCheckForDeletedWorkloads": _BETA_ON,
    "SkipFinalizersForPodsSuspendedByParent": _STABLE,
    "SkipReassignmentForPodOwnedWorkloads": _BETA_ON,
    "SparkApplicationIntegration": _ALPHA,
    "TASAssignmentsEncodingByHostnamePrefix": _BETA_ON,
    "TASBalancedPlacement": _alpha(_TAS),
    "TASCacheNodeMatchResults": _BETA_ON,
    "TASCacheTopologyTree": _ALPHA,
    "TASCachingRemainingResources": _BETA_ON,
    "TASFailedNodeReplacement": _on(_TAS),
    "TASFailedNodeReplacementFailFast": _on(_TAS, _REPLACEMENT),
    "TASHandleOverlappingFlavors": _on(_TAS),
    "TASMultiLayerTopology": _on(_TAS),
    "TASProfileMixed": _on(_TAS),
    "TASRecomputeAssignmentWithinSchedulingCycle": _on(_TAS),
    "TASReplaceNodeDueToNotReadyOverFixedTime": Gate(
        is_on=False, stage=GateStage.DEPRECATED, needs=(_TAS, _REPLACEMENT)
    ),
    "TASReplaceNodeOnNodeTaints": _on(_TAS),
    "TASReplaceNodeOnPodTermination": _on(_TAS, _REPLACEMENT),
    "TASRespectNodeAffinityPreferred": _alpha(_TAS),
    "TASValidateWorkloadSliceSize": _BETA_ON,
    "TLSOptions": _BETA_ON,
    "TopologyAwareScheduling": _BETA_ON,
    "UnadmittedWorkloadsExplicitStatus": Gate(
        is_on=False, stage=GateStage.BETA, needs=("UnadmittedWorkloadsObservability",)
    ),
    "UnadmittedWorkloadsObservability": _BETA_OFF,
    "ValidateRayAndSparkJobUpdates": _BETA_ON,
    "VectorizedResourceRequests": _BETA_ON,
    "VisibilityOnDemand": _BETA_ON,
    "WorkloadIdentifierAnnotations": _BETA_ON,
    "WorkloadPriorityClassDefaulting": _ALPHA,
    "WorkloadRequestUseMergePatch": _ALPHA,
    "WorkloadValidateResourcesAreNonNegative": _BETA_ON,
    "WorkloadValidationForPodSetMetadata": _BETA_ON,
}


def is_enabled(settings: Mapping[str, bool], name: str) -> bool:
    """Whether the gate is enabled: as the administrator set it, else by default.

    An unknown gate is a programming error (KeyError).
    """
    return settings.get(name, GATES[name].is_on)
