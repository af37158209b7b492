"""Why something was decided, as data: noun phrases that `messages` turns into Kueue's words and `explain` into facts."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

from pykueue.engine import values


class Mode(enum.IntEnum):
    """How well a flavor, pod set or workload fits; the worst part speaks for the whole."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


MODE_WORDS = {Mode.NO_FIT: "NoFit", Mode.PREEMPT: "Preempt", Mode.DEFERRED_FIT: "DeferredFit", Mode.FIT: "Fit"}


class Possibility(enum.IntEnum):
    """What preemption could do for one flavor and resource."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2


POSSIBILITY_WORDS = {
    Possibility.NO_CANDIDATES: "NoCandidates",
    Possibility.PREEMPT: "Preempt",
    Possibility.RECLAIM: "Reclaim",
}


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
    PREEMPTION_FAILED = "PreemptionFailed"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


# Why one flavor does not serve one pod set.


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUndeclared:
    resource: values.ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorMissing:
    flavor: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintUntolerated:
    flavor: values.FlavorName
    taint: values.Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityMismatch:
    flavor: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityExceeded:
    """More than the queue could ever have, whoever leaves."""

    flavor: values.FlavorName
    resource: values.ResourceName
    assumed: int
    requested: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShort:
    flavor: values.FlavorName
    resource: values.ResourceName
    needed: int
    """How much more than what is unused now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNotProvided:
    flavor: values.FlavorName
    resource: values.ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNotNominated:
    """Looked at again within a cycle, a workload stays with the flavors it was nominated with."""

    flavor: values.FlavorName
    resource: values.ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFlavorDiffers:
    """A slice of an elastic job stays in the flavor of the slice that it replaces."""

    flavor: values.FlavorName
    original: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementImpossible:
    """Topology: in the words of the placement."""

    flavor: values.FlavorName
    text: str


FlavorReason = (
    ResourceUndeclared
    | FlavorMissing
    | TaintUntolerated
    | AffinityMismatch
    | CapacityExceeded
    | QuotaShort
    | ResourceNotProvided
    | FlavorNotNominated
    | SliceFlavorDiffers
    | PlacementImpossible
)


class FlavorAttempt(NamedTuple):
    """One flavor looked at for one pod set, and its worst outcome over the requested resources."""

    flavor: values.FlavorName
    mode: Mode
    borrowing: int = 0
    possibility: Possibility | None = None
    reasons: tuple[FlavorReason, ...] = ()
    no_fit_reason: NoFitReason = NoFitReason.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetShortage:
    name: values.PodSetName
    reasons: tuple[FlavorReason, ...]
    fault: str = ""
    """In words: flavors that cannot go together."""


# Why a workload is still pending.


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorsShort:
    """No flavors for some pod set; `preempting` workloads are on their way out for it."""

    pod_sets: tuple[PodSetShortage, ...]
    preempting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksFailed:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueInactive:
    name: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueMissing:
    name: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMissing:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMismatch:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsInvalid:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsOverlap:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsOverlapThenFit:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLongerFits:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionGated:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsNotReady:
    """Admission is blocked until every admitted workload has its pods ready."""


PendingReason = (
    FlavorsShort
    | ChecksFailed
    | ClusterQueueInactive
    | ClusterQueueMissing
    | NamespaceMissing
    | NamespaceMismatch
    | RequestsInvalid
    | TargetsOverlap
    | TargetsOverlapThenFit
    | NoLongerFits
    | PreemptionGated
    | PodsNotReady
)
