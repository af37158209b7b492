"""Reasons of decisions, as data. `translate.messages` turns them into Kueue's words."""

import enum
from typing import NamedTuple

import msgspec

from pykueue.engine import values


class Mode(enum.IntEnum):
    """How well a flavor, pod set or workload fits.

    The mode of a whole is the lowest mode of its parts.
    """

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


class Possibility(enum.IntEnum):
    """What preemption could do for one flavor and resource."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2


class NoFitReason(enum.StrEnum):
    """Granular reasons of QuotaReserved=False (UnadmittedWorkloadsObservability)."""

    NONE = ""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    PENDING_EVALUATION = "PendingEvaluation"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    ADMISSION_GATED = "AdmissionGated"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"


SEVERITY = {
    reason: severity
    for severity, reason in enumerate(
        (
            NoFitReason.NONE,
            NoFitReason.TOPOLOGY_PLACEMENT_FAILED,
            NoFitReason.WAITING_FOR_QUOTA,
            NoFitReason.EXCEEDS_MAX_QUOTA,
            NoFitReason.NO_MATCHING_FLAVOR,
        )
    )
}


class PreemptionReason(enum.StrEnum):
    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class RequeueReason(enum.StrEnum):
    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PREEMPTION_GATED = "PreemptionGated"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


# Why a cluster queue admits nothing.


class InactiveReason(enum.StrEnum):
    """In the order in which Kueue lists them."""

    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    SEVERAL_MULTI_KUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    MULTI_KUEUE_CHECK_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTI_KUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"


class Inactivity(values.Value, frozen=True, kw_only=True):
    reason: InactiveReason
    names: tuple[str, ...] = ()
    """The missing or inactive flavors or checks; or a missing topology and its flavor."""


# Why pods of a pod set cannot be placed on the nodes of a flavor.


class NodeExclusions(values.Value, frozen=True, kw_only=True):
    """How many nodes (or lowest domains) were excluded for each reason."""

    total: int
    """Nodes of the flavor, also those that were not excluded."""
    taints: tuple[tuple[values.Taint, int], ...] = ()
    resources: tuple[tuple[values.ResourceName, int], ...] = ()
    """Nodes that lack the resource for even one pod."""
    node_selector: int = 0
    affinity: int = 0
    topology_domain: int = 0
    """Nodes outside the domain in which the pods must stay."""


class LevelUnspecified(msgspec.Struct, frozen=True, kw_only=True):
    pass


class LevelMissing(msgspec.Struct, frozen=True, kw_only=True):
    level: str


class SliceSizeUnspecified(msgspec.Struct, frozen=True, kw_only=True):
    pass


class SliceLevelMissing(msgspec.Struct, frozen=True, kw_only=True):
    level: str


class SliceLevelTooHigh(msgspec.Struct, frozen=True, kw_only=True):
    slice_level: str
    level: str


class SliceLayerMissing(msgspec.Struct, frozen=True, kw_only=True):
    level: str


class SliceLayerTooHigh(msgspec.Struct, frozen=True, kw_only=True):
    level: str
    parent_level: str


class SliceLayerUneven(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    parent_size: int


class DomainsMissing(msgspec.Struct, frozen=True, kw_only=True):
    level: str


class DomainsShort(msgspec.Struct, frozen=True, kw_only=True):
    """The domains can take only `fitting` of the `requested` pods, or slices."""

    topology: str
    fitting: int
    requested: int
    of_slices: bool
    exclusions: NodeExclusions


class LayerFit(NamedTuple):
    level: str
    fitting: int
    requested: int


class SliceLayersShort(msgspec.Struct, frozen=True, kw_only=True):
    """How many slices of each layer the best domain can take."""

    topology: str
    layers: tuple[LayerFit, ...]
    exclusions: NodeExclusions


class DomainStale(msgspec.Struct, frozen=True, kw_only=True):
    """A node cannot be replaced, because another domain of the assignment no longer exists."""

    domain: str


class ReplacementNodeMissing(msgspec.Struct, frozen=True, kw_only=True):
    node: str


PlacementReason = (
    LevelUnspecified
    | LevelMissing
    | SliceSizeUnspecified
    | SliceLevelMissing
    | SliceLevelTooHigh
    | SliceLayerMissing
    | SliceLayerTooHigh
    | SliceLayerUneven
    | DomainsMissing
    | DomainsShort
    | SliceLayersShort
    | DomainStale
    | ReplacementNodeMissing
)


# Why the flavors of a pod set cannot be used together for topology-aware scheduling.


class TopologyUnavailable(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ElasticLevelRefused(msgspec.Struct, frozen=True, kw_only=True):
    """An elastic job requests a required or a preferred level."""

    is_required: bool


class TopologyFlavorMissing(msgspec.Struct, frozen=True, kw_only=True):
    pass


class TopologyFlavorsMixed(msgspec.Struct, frozen=True, kw_only=True):
    flavors: tuple[values.FlavorName, ...]


FlavorsConflict = TopologyUnavailable | TopologyFlavorMissing | TopologyFlavorsMixed | ElasticLevelRefused


# Why a flavor cannot be assigned to a pod set.


class ResourceUndeclared(msgspec.Struct, frozen=True, kw_only=True):
    resource: values.ResourceName


class FlavorMissing(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName


class TaintUntolerated(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName
    taint: values.Taint


class AffinityMismatch(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName


class CapacityExceeded(msgspec.Struct, frozen=True, kw_only=True):
    """The request exceeds what the cluster queue could have if nothing else were admitted."""

    flavor: values.FlavorName
    resource: values.ResourceName
    assumed: int
    requested: int
    capacity: int


class QuotaShort(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName
    resource: values.ResourceName
    needed: int
    """How much the request exceeds the unused quota."""


class ResourceNotProvided(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName
    resource: values.ResourceName


class FlavorNotNominated(msgspec.Struct, frozen=True, kw_only=True):
    """A second assignment within the same cycle may only use the flavors of the first one."""

    flavor: values.FlavorName
    resource: values.ResourceName


class FlavorNotAllowed(msgspec.Struct, frozen=True, kw_only=True):
    """A variant may only use the flavor that it was created for."""

    flavor: values.FlavorName


class SliceFlavorDiffers(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of an elastic job must use the flavor of the slice that it replaces."""

    flavor: values.FlavorName
    original: values.FlavorName


class TopologyMismatch(enum.Enum):
    ONLY_TOPOLOGY_AWARE = enum.auto()
    NOT_TOPOLOGY_AWARE = enum.auto()
    TOPOLOGY_MISSING = enum.auto()
    LEVEL_MISSING = enum.auto()


class FlavorTopologyMismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The topology of a flavor does not match the topology request of a pod set."""

    flavor: values.FlavorName
    mismatch: TopologyMismatch


class PlacementImpossible(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName
    cause: PlacementReason


FlavorReason = (
    ResourceUndeclared
    | FlavorMissing
    | TaintUntolerated
    | AffinityMismatch
    | CapacityExceeded
    | QuotaShort
    | ResourceNotProvided
    | FlavorNotNominated
    | FlavorNotAllowed
    | SliceFlavorDiffers
    | FlavorTopologyMismatch
    | PlacementImpossible
)


class FlavorAttempt(NamedTuple):
    """One flavor that was tried for a pod set, with its worst result over all resources."""

    flavor: values.FlavorName
    mode: Mode
    borrowing: int = 0
    possibility: Possibility | None = None
    reasons: tuple[FlavorReason, ...] = ()
    no_fit_reason: NoFitReason = NoFitReason.NONE


class PodSetShortage(msgspec.Struct, frozen=True, kw_only=True):
    name: values.PodSetName
    reasons: tuple[FlavorReason, ...]
    conflict: FlavorsConflict | None = None


# Why a workload is still pending.


class FlavorsShort(msgspec.Struct, frozen=True, kw_only=True):
    """Some pod set has no flavors, or waits for the preemption of `preempting` workloads."""

    pod_sets: tuple[PodSetShortage, ...]
    preempting: int = 0


class ChecksFailed(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ClusterQueueInactive(msgspec.Struct, frozen=True, kw_only=True):
    name: values.ClusterQueueName


class NamespaceMissing(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class NamespaceMismatch(msgspec.Struct, frozen=True, kw_only=True):
    pass


class RequestsInvalid(msgspec.Struct, frozen=True, kw_only=True):
    invalid: values.InvalidRequests


class TargetsOverlap(msgspec.Struct, frozen=True, kw_only=True):
    pass


class FitsAfterPreemptions(msgspec.Struct, frozen=True, kw_only=True):
    pass


class NoLongerFits(msgspec.Struct, frozen=True, kw_only=True):
    pass


class PreemptionGated(msgspec.Struct, frozen=True, kw_only=True):
    pass


class BetterVariantAdmitted(msgspec.Struct, frozen=True, kw_only=True):
    """A variant with an earlier flavor is admitted."""


class MigrationForbidden(msgspec.Struct, frozen=True, kw_only=True):
    """The flavor of the variant is behind the last acceptable one."""


class MigrationPending(msgspec.Struct, frozen=True, kw_only=True):
    """The variant waits for the eviction of a variant with a later flavor."""

    pod_sets: tuple[PodSetShortage, ...]


class PodsNotReady(msgspec.Struct, frozen=True, kw_only=True):
    """Admission is blocked until the pods of every admitted workload are ready."""


PendingReason = (
    FlavorsShort
    | ChecksFailed
    | ClusterQueueInactive
    | NamespaceMissing
    | NamespaceMismatch
    | RequestsInvalid
    | TargetsOverlap
    | FitsAfterPreemptions
    | NoLongerFits
    | PreemptionGated
    | BetterVariantAdmitted
    | MigrationForbidden
    | MigrationPending
    | PodsNotReady
)
