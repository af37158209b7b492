"""The engine's nouns: workloads, queues, cohorts and flavors as plain frozen values.

`translate` makes them from API objects; events carry them in. They hold no clock, no text made for people and no API
object. Amounts are integers (`amounts`), times are integer nanoseconds, absent is `None`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NewType, Self

WorkloadKey = NewType("WorkloadKey", str)
"""`namespace/name`."""
LocalQueueKey = NewType("LocalQueueKey", str)
"""`namespace/name`."""
ClusterQueueName = NewType("ClusterQueueName", str)
CohortName = NewType("CohortName", str)
FlavorName = NewType("FlavorName", str)
ResourceName = NewType("ResourceName", str)
PodSetName = NewType("PodSetName", str)
CheckName = NewType("CheckName", str)

PODS: ResourceName = ResourceName("pods")


class Value:
    """Never changes, so a copy of the engine shares it."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class FlavorResource(NamedTuple):
    flavor: FlavorName
    resource: ResourceName


class QueueingStrategy(enum.StrEnum):
    BEST_EFFORT_FIFO = "BestEffortFIFO"
    STRICT_FIFO = "StrictFIFO"


class StopPolicy(enum.StrEnum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class PreemptionPolicy(enum.StrEnum):
    UNSET = ""
    """A policy left empty inside a present `preemption`: finds nobody, yet is not Never (fair sharing tells them apart)."""
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


class FungibilityPolicy(enum.StrEnum):
    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FungibilityPreference(enum.StrEnum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class Operator(enum.StrEnum):
    """How a label requirement compares; `Gt` and `Lt` only in node selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class TaintEffect(enum.StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class CheckState(enum.StrEnum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement(Value):
    """One expression on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector(Value):
    """All requirements must hold; an empty selector selects everything (a selector of `None` selects nothing)."""

    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint(Value):
    key: str
    value: str = ""
    effect: str = TaintEffect.NO_SCHEDULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration(Value):
    """`operator` is Equal (also when empty), Exists, Lt or Gt."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Value):
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuotas(Value):
    name: FlavorName
    resources: Mapping[ResourceName, Quota]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup(Value):
    covered_resources: tuple[ResourceName, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility(Value):
    when_can_borrow: FungibilityPolicy = FungibilityPolicy.MAY_STOP_SEARCH
    when_can_preempt: FungibilityPolicy = FungibilityPolicy.TRY_NEXT_FLAVOR
    preference: FungibilityPreference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWithinCohort(Value):
    """Present only when its policy is not Never."""

    max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption(Value):
    within_cluster_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    borrow_within_cohort: BorrowWithinCohort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue(Value):
    name: ClusterQueueName
    cohort: CohortName | None = None
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: LabelSelector | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks: Mapping[CheckName, frozenset[FlavorName]] = field(default_factory=dict)
    """Check to the flavors it applies to; none named means all flavors."""
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: float | None = None
    """To say 1, which is what silence means, is a change all the same: the parked are tried again."""
    uses_admission_fair_sharing: bool = False
    terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort(Value):
    name: CohortName
    parent: CohortName | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue(Value):
    key: LocalQueueKey
    cluster_queue: ClusterQueueName
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor(Value):
    name: FlavorName
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck(Value):
    name: CheckName
    controller: str
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLayer(Value):
    """Pods come in slices of `size`, each within one domain of the level `topology`."""

    topology: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest(Value):
    """What a pod set asks of topology. Pod sets that share `group` get their flavors, and their places, together."""

    group: str | None = None
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    slices: tuple[SliceLayer, ...] = ()
    """The outermost layer first; the size of each divides the one before."""

    @property
    def is_explicit(self) -> bool:
        """Whether it asks for a place at all; ranks alone do not."""
        return any(each is not None for each in (self.required, self.preferred, self.unconstrained)) or bool(
            self.slices
        )


class TopologyDomain(NamedTuple):
    """Some pods in one place."""

    values: tuple[str, ...]
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAssignment(Value):
    """Where the pods of a pod set go: for each domain the value of every level, in order."""

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Value):
    """A node that is ready and takes pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet(Value):
    name: PodSetName
    count: int
    """Pods that count now: the count of the spec less the reclaimable ones."""
    spec_count: int
    min_count: int | None = None
    requests: Mapping[ResourceName, int]
    """Of all `count` pods together."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity_terms: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity, terms ORed; `None` when there is none."""
    topology_request: TopologyRequest | None = None
    pod_requests: Mapping[ResourceName, int] = field(default_factory=dict)
    """What one pod takes on a node, whatever quota counts of it."""
    checked_node_selector: Mapping[str, str] = field(default_factory=dict)
    """What admission checks that are ready add to the pods, this and the next."""
    checked_tolerations: tuple[Toleration, ...] = ()


class DelayedTopology(enum.StrEnum):
    """A place that is found only after the admission checks are ready."""

    PENDING = "Pending"
    READY = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAdmission(Value):
    """What one pod set was given: flavors and the usage charged for `count` pods."""

    name: PodSetName
    flavors: Mapping[ResourceName, FlavorName]
    usage: Mapping[ResourceName, int]
    count: int
    topology: TopologyAssignment | None = None
    delayed_topology: DelayedTopology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission(Value):
    cluster_queue: ClusterQueueName
    pod_sets: tuple[PodSetAdmission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction(Value):
    """The Evicted (or Preempted) condition while it is true."""

    reason: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Value):
    key: WorkloadKey
    uid: str
    namespace: str
    local_queue: LocalQueueKey
    created_at_ns: int
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    """Effective: the spec's priority plus `priority_boost`."""
    priority_boost: int = 0
    generation: int = 0
    shape: str = ""
    """Scheduling equivalence hash: workloads of one shape in one queue fare alike. Empty means unknown."""
    job_uid: str = ""
    active: bool = True
    finished: bool = False
    on_hold: bool = False
    admission_gated: bool = False
    """Kept out of the queues by the admission-gated-by annotation."""
    waiting_for_replacement_pods: bool = False
    closed_preemption_gate: bool = False
    admissibility_fault: str = ""
    """Why its requests are invalid (requests above limits, a LimitRange), in words; empty when valid."""
    admission: Admission | None = None
    reserved_at_ns: int | None = None
    """When the QuotaReserved condition became true."""
    admitted: bool = False
    eviction: Eviction | None = None
    preemption: Eviction | None = None
    requeued: bool | None = None
    """The Requeued condition; `False` keeps it out of the heap."""
    requeue_at_ns: int | None = None
    check_states: Mapping[CheckName, CheckState] = field(default_factory=dict)
    pods_ready: bool = False
    unhealthy_nodes: tuple[str, ...] = ()
    """Nodes that its pods were placed on and that failed."""
    replaces: WorkloadKey | None = None
    """The slice of the same elastic job that it takes the place of: it needs only what it asks for beyond that."""
    keeps_lost_places: bool = False
    """A single pod cannot move: its assignment stays as it is."""

    @property
    def may_queue(self) -> bool:
        return (
            self.active
            and self.admission is None
            and not (self.finished or self.on_hold or self.admission_gated or self.waiting_for_replacement_pods)
        )
