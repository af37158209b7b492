"""Kueue's feature gates: default, stage, the gates that each one requires, and who reads it.

Admission rules read them through `Settings.feature_gates`, which holds only what the administrator
set. `api.configuration` refuses unknown gates, locked values and a gate without the gates that it
requires. A gate that nobody reads says why (`limits`): `api.configuration.effects` warns of it.
docs/compatibility.md is made from this table.
"""

import enum
import functools
from collections.abc import Mapping

import msgspec


class GateStage(enum.Enum):
    ALPHA = "Alpha"
    BETA = "Beta"
    STABLE = "GA"
    DEPRECATED = "Deprecated"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    is_on: bool
    stage: GateStage
    is_locked: bool = False
    needs: tuple[str, ...] = ()
    read_by: str = ""
    """The module of pykueue that reads the gate; others may read it, too."""
    limits: str = ""
    """What pykueue does instead, or leaves out. Every gate without a reader has it."""
    acts_as: bool | None = None
    """The value that the behaviour with `limits` corresponds to; None means the default."""
    is_alike: bool = False
    """Both values give the same decisions and objects, in Kueue too: only its inside differs."""

    def has_effect(self, value: bool) -> bool:  # noqa: FBT001 - the value of the gate
        """Whether pykueue behaves as Kueue does with this value of the gate."""
        return not self.limits or self.is_alike or value == (self.is_on if self.acts_as is None else self.acts_as)


_beta = functools.partial(Gate, is_on=True, stage=GateStage.BETA)
_alpha = functools.partial(Gate, is_on=False, stage=GateStage.ALPHA)
_stable = functools.partial(Gate, is_on=True, stage=GateStage.STABLE, is_locked=True)
_deprecated = functools.partial(Gate, is_on=False, stage=GateStage.DEPRECATED)

_TAS = "TopologyAwareScheduling"
_REPLACEMENT = "TASFailedNodeReplacement"
_DRA = "KueueDRAIntegration"

GATES: Mapping[str, Gate] = {
    "AdmissionFairSharing": _beta(read_by="translate.policy"),
    "AdmissionGatedBy": _beta(read_by="translate.policy"),
    "AssignQueueLabelsForPods": _beta(read_by="controllers.settings"),
    "CleanupProvisioningRequestsOnEviction": _beta(read_by="controllers.settings"),
    "ConcurrentAdmission": _alpha(read_by="controllers.settings"),
    "CustomMetricLabels": _alpha(read_by="controllers.metrics.instruments"),
    "DeferRayServiceFinalizationForRedisCleanup": _beta(read_by="controllers.settings"),
    "DisableWaitForPodsReady": _alpha(read_by="controllers.settings"),
    "ElasticJobsViaWorkloadSlices": _beta(read_by="controllers.settings"),
    "ElasticJobsViaWorkloadSlicesWithTAS": _alpha(
        needs=("ElasticJobsViaWorkloadSlices", _TAS), read_by="translate.policy"
    ),
    "FailureRecoveryPolicy": _alpha(read_by="controllers.settings"),
    "FairSharingPreemptWithinNominal": _beta(read_by="translate.policy"),
    "FairSharingPrioritizeNonBorrowing": _beta(read_by="translate.policy"),
    "FastQuotaReleaseInPodIntegration": _alpha(read_by="controllers.settings"),
    "FinishOrphanedWorkloads": _beta(read_by="controllers.settings"),
    "FlavorFungibility": _beta(read_by="translate.policy"),
    "FlavorFungibilityPreserveScanProgress": _beta(read_by="translate.policy"),
    "HierarchicalCohorts": _stable(limits="cohorts are always hierarchical"),
    "KueueDRAIntegration": _beta(read_by="translate.policy"),
    "KueueDRAIntegrationConsumableCapacity": _alpha(needs=(_DRA,), read_by="translate.policy"),
    "KueueDRAIntegrationExtendedResource": _beta(needs=(_DRA,), read_by="translate.policy"),
    "KueueDRAIntegrationPartitionableDevices": _beta(needs=(_DRA,), read_by="translate.policy"),
    "KueueDRARejectWorkloadsWhenDRADisabled": _beta(read_by="translate.policy"),
    "LWSImmutableGroupSize": _beta(read_by="api.rules.jobs.leader_worker_set"),
    "LocalQueueMetrics": _beta(read_by="controllers.metrics.local_queue_gauges"),
    "ManagedJobsNamespaceSelectorAlwaysRespected": _stable(limits="the selector is always respected"),
    "MetricForWorkloadCreationLatency": _beta(read_by="controllers.metrics.collector"),
    "MetricsForCohorts": _beta(read_by="controllers.metrics.collector"),
    "MultiKueue": _beta(read_by="controllers.settings"),
    "MultiKueueAdaptersForCustomJobs": _beta(read_by="controllers.settings"),
    "MultiKueueAllowInsecureKubeconfigs": _deprecated(is_locked=True, limits="such kubeconfigs are never used"),
    "MultiKueueClusterProfile": _alpha(read_by="controllers.settings"),
    "MultiKueueIncrementalDispatcherConfig": _beta(read_by="controllers.settings"),
    "MultiKueueIncrementalDispatcherRespectConfigOrder": _beta(read_by="controllers.settings"),
    "MultiKueueKubeConfigPathValidation": _alpha(read_by="controllers.settings"),
    "MultiKueueManagerQuotaAutomation": _alpha(read_by="controllers.settings"),
    "MultiKueueOrchestratedPreemption": _alpha(read_by="controllers.settings"),
    "MultiKueueRedoAdmissionOnEvictionInWorker": _stable(limits="an eviction on a worker always redoes admission"),
    "MultiKueueRemoteSpecSync": _beta(read_by="controllers.settings"),
    "MultiKueueWaitForWorkloadAdmitted": _stable(limits="the manager always waits for the admission on a worker"),
    "ObjectRetentionPolicies": _stable(limits="retention policies always act"),
    "PartialAdmission": _beta(read_by="translate.policy"),
    "PodIntegrationValidateGroupOwner": _beta(read_by="controllers.settings"),
    "PrioritizePreemptorWorkloads": _alpha(read_by="translate.policy"),
    "PriorityBoost": _alpha(read_by="translate.policy"),
    "PrioritySortingWithinCohort": _beta(read_by="translate.policy"),
    "PropagateBatchJobLabelsToWorkload": _stable(limits="labels are always propagated"),
    "QuotaCheckStrategy": _beta(read_by="translate.policy"),
    "ReclaimablePods": _beta(read_by="translate.policy"),
    "RecomputeAssignmentUponPreemptionTargetsOverlap": _alpha(read_by="translate.policy"),
    "RejectUpdatesToCQWithInvalidOnFlavors": _alpha(read_by="api.rules.cluster_queue"),
    "RemoveFinalizersWithStrictPatch": _beta(
        is_alike=True, limits="finalizers are always removed with the version that was read"
    ),
    "SchedulerLibraryIntegration": _alpha(
        is_alike=True, limits="pykueue matches nodes itself, by taints, selectors and affinity"
    ),
    "SchedulerLongRequeueInterval": _alpha(read_by="translate.policy"),
    "SchedulerTimestampPreemptionBuffer": _alpha(read_by="translate.policy"),
    "SchedulingEquivalenceHashing": _beta(read_by="translate.policy"),
    "ShortWorkloadNames": _alpha(read_by="controllers.settings"),
    "SkipAncestorCheckForDeletedWorkloads": _beta(read_by="api.rules.jobs.management"),
    "SkipFinalizersForPodsSuspendedByParent": _stable(limits="such pods never get the finalizer"),
    "SkipReassignmentForPodOwnedWorkloads": _beta(read_by="controllers.settings"),
    "SparkApplicationIntegration": _alpha(read_by="api.configuration.checks"),
    "TASAssignmentsEncodingByHostnamePrefix": _beta(read_by="translate.policy"),
    "TASBalancedPlacement": _alpha(needs=(_TAS,), read_by="translate.policy"),
    "TASCacheNodeMatchResults": _beta(is_alike=True, limits="it concerns the speed of Kueue's scheduler only"),
    "TASCacheTopologyTree": _alpha(is_alike=True, limits="it concerns the speed of Kueue's scheduler only"),
    "TASCachingRemainingResources": _beta(is_alike=True, limits="it concerns the speed of Kueue's scheduler only"),
    "TASFailedNodeReplacement": _beta(needs=(_TAS,), read_by="controllers.settings"),
    "TASFailedNodeReplacementFailFast": _beta(needs=(_TAS, _REPLACEMENT), read_by="translate.policy"),
    "TASHandleOverlappingFlavors": _beta(needs=(_TAS,), read_by="translate.policy"),
    "TASMultiLayerTopology": _beta(needs=(_TAS,), read_by="api.rules.jobs.topology"),
    "TASProfileMixed": _beta(needs=(_TAS,), read_by="translate.policy"),
    "TASRecomputeAssignmentWithinSchedulingCycle": _beta(needs=(_TAS,), read_by="translate.policy"),
    "TASReplaceNodeDueToNotReadyOverFixedTime": _deprecated(needs=(_TAS, _REPLACEMENT), read_by="controllers.settings"),
    "TASReplaceNodeOnNodeTaints": _beta(needs=(_TAS,), read_by="controllers.settings"),
    "TASReplaceNodeOnPodTermination": _beta(needs=(_TAS, _REPLACEMENT), read_by="controllers.settings"),
    "TASRespectNodeAffinityPreferred": _alpha(needs=(_TAS,), read_by="translate.policy"),
    "TASValidateWorkloadSliceSize": _beta(read_by="api.rules.workload"),
    "TLSOptions": _beta(read_by="api.configuration.types"),
    "TopologyAwareScheduling": _beta(read_by="translate.policy"),
    "UnadmittedWorkloadsExplicitStatus": _beta(
        needs=("UnadmittedWorkloadsObservability",), is_on=False, read_by="controllers.settings"
    ),
    "UnadmittedWorkloadsObservability": _beta(is_on=False, read_by="controllers.settings"),
    "ValidateRayAndSparkJobUpdates": _beta(read_by="api.rules.jobs.management"),
    "VectorizedResourceRequests": _beta(is_alike=True, limits="it concerns the speed of Kueue's scheduler only"),
    "VisibilityOnDemand": _beta(read_by="app.controller"),
    "WorkloadIdentifierAnnotations": _beta(read_by="controllers.settings"),
    "WorkloadPriorityClassDefaulting": _alpha(read_by="api.rules.jobs.management"),
    "WorkloadRequestUseMergePatch": _alpha(is_alike=True, limits="Workloads are always written with merge patches"),
    "WorkloadValidateResourcesAreNonNegative": _beta(read_by="api.rules.workload"),
    "WorkloadValidationForPodSetMetadata": _beta(read_by="api.rules.workload"),
}


def is_enabled(settings: Mapping[str, bool], name: str) -> bool:
    """Whether the gate is enabled: as the administrator set it, else by default.

    An unknown gate is a programming error (KeyError).
    """
    return settings.get(name, GATES[name].is_on)
