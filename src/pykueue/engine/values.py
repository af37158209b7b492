"""The engine's values: workloads, queues, cohorts, flavors and nodes as frozen Structs.

`translate` makes them from API objects, and events carry them. Amounts are integers (see
`quota.amounts`); weights are floats, as in Kueue; times are integer nanoseconds; `None` means
absent.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple, NewType, Self

import msgspec

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


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value never changes, so a fork of the engine shares it instead of copying it."""

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
    """Left empty inside a present `preemption`.

    It allows no candidates, but fair sharing distinguishes it from Never.
    """
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
    """The operator of a label requirement; `Gt` and `Lt` occur only in node selectors."""

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


class LabelRequirement(Value, frozen=True, kw_only=True):
    """One match expression of a selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True, kw_only=True):
    """All requirements must match.

    An empty selector selects everything; a selector of `None` selects nothing.
    """

    requirements: tuple[LabelRequirement, ...] = ()


class Taint(Value, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = TaintEffect.NO_SCHEDULE


class Toleration(Value, frozen=True, kw_only=True):
    """`operator` is Equal (also when empty), Exists, Lt or Gt."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Quota(Value, frozen=True, kw_only=True):
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorQuotas(Value, frozen=True, kw_only=True):
    name: FlavorName
    resources: Mapping[ResourceName, Quota]


class ResourceGroup(Value, frozen=True, kw_only=True):
    covered_resources: tuple[ResourceName, ...]
    flavors: tuple[FlavorQuotas, ...]


class FlavorFungibility(Value, frozen=True, kw_only=True):
    when_can_borrow: FungibilityPolicy = FungibilityPolicy.MAY_STOP_SEARCH
    when_can_preempt: FungibilityPolicy = FungibilityPolicy.TRY_NEXT_FLAVOR
    preference: FungibilityPreference | None = None


class BorrowWithinCohort(Value, frozen=True, kw_only=True):
    """`borrowWithinCohort`, if its policy is not Never."""

    max_priority_threshold: int | None = None


class Preemption(Value, frozen=True, kw_only=True):
    within_cluster_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim_within_cohort: PreemptionPolicy = PreemptionPolicy.NEVER
    borrow_within_cohort: BorrowWithinCohort | None = None


class ConcurrentAdmission(Value, frozen=True, kw_only=True):
    """`concurrentAdmissionPolicy`: a workload is tried with all flavors at a time."""

    last_acceptable_flavor: FlavorName | None = None
    """No variant migrates to a flavor behind this one."""


class ClusterQueue(Value, frozen=True, kw_only=True):
    name: ClusterQueueName
    cohort: CohortName | None = None
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: LabelSelector | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks: Mapping[CheckName, frozenset[FlavorName]] = msgspec.field(default_factory=dict)
    """Check to the flavors it applies to; an empty set means all flavors."""
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: float | None = None
    """None means 1.

    Setting an explicit 1 still counts as a change, so inadmissible workloads are retried.
    """
    uses_admission_fair_sharing: bool = False
    concurrent_admission: ConcurrentAdmission | None = None
    terminating: bool = False


class Cohort(Value, frozen=True, kw_only=True):
    name: CohortName
    parent: CohortName | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight: float | None = None


class LocalQueue(Value, frozen=True, kw_only=True):
    key: LocalQueueKey
    cluster_queue: ClusterQueueName
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: float = 1.0


class ResourceFlavor(Value, frozen=True, kw_only=True):
    name: FlavorName
    node_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


PROVISIONING = "kueue.x-k8s.io/provisioning-request"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""Controllers of admission checks that have rules of their own."""


class AdmissionCheck(Value, frozen=True, kw_only=True):
    name: CheckName
    controller: str
    active: bool = True


class SliceLayer(Value, frozen=True, kw_only=True):
    """Pods form slices of `size`, each within one domain of the level `topology`."""

    topology: str
    size: int


class TopologyRequest(Value, frozen=True, kw_only=True):
    """The topology request of a pod set.

    Pod sets with the same `group` get flavors and domains together.
    """

    group: str | None = None
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    slices: tuple[SliceLayer, ...] = ()
    """The outermost layer first; the size of each layer divides the size of the layer before it.
    """

    @property
    def is_explicit(self) -> bool:
        """Whether it requests topology-aware scheduling at all; a group alone does not."""
        levels = (self.required, self.preferred, self.unconstrained)
        return bool(self.slices) or any(level is not None for level in levels)


class TopologyDomain(NamedTuple):
    """A domain, named by the values of its levels, and the number of pods in it."""

    values: tuple[str, ...]
    pods: int


class TopologyAssignment(Value, frozen=True, kw_only=True):
    """The domains in which the pods of a pod set run."""

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]


class Node(Value, frozen=True, kw_only=True):
    """A node that is ready and schedulable."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[ResourceName, int]


class PreferredTerm(NamedTuple):
    """A term of the preferred node affinity, and its weight."""

    weight: int
    term: tuple[LabelRequirement, ...]


class PodSet(Value, frozen=True, kw_only=True):
    name: PodSetName
    count: int
    """The count of the spec without the reclaimable pods."""
    spec_count: int
    min_count: int | None = None
    requests: Mapping[ResourceName, int]
    """Requests of all `count` pods together."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    affinity_terms: tuple[tuple[LabelRequirement, ...], ...] | None = None
    """Terms of the required node affinity, of which one must match; `None` without affinity."""
    preferred_terms: tuple[PreferredTerm, ...] = ()
    """The preferred node affinity, if the placement respects it."""
    topology_request: TopologyRequest | None = None
    pod_requests: Mapping[ResourceName, int] = msgspec.field(default_factory=dict)
    """What one pod uses on a node, also resources that are excluded from quota."""
    checked_node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Node selector, and below tolerations, that ready admission checks add to the pods."""
    checked_tolerations: tuple[Toleration, ...] = ()


class DelayedTopology(enum.StrEnum):
    """Whether topology is assigned only after the admission checks are ready."""

    PENDING = "Pending"
    READY = "Ready"


class PodSetAdmission(Value, frozen=True, kw_only=True):
    """The admission of one pod set: its flavors and the usage charged for `count` pods."""

    name: PodSetName
    flavors: Mapping[ResourceName, FlavorName]
    usage: Mapping[ResourceName, int]
    count: int
    topology: TopologyAssignment | None = None
    delayed_topology: DelayedTopology | None = None


class Admission(Value, frozen=True, kw_only=True):
    cluster_queue: ClusterQueueName
    pod_sets: tuple[PodSetAdmission, ...]


class EvictionCondition(Value, frozen=True, kw_only=True):
    """The condition Evicted or Preempted while it is true."""

    reason: str
    at_ns: int


class RequestsRule(enum.Enum):
    WITHIN_LIMITS = enum.auto()
    """Requests must not exceed the limits of the same container or pod."""
    LIMIT_RANGE = enum.auto()
    """Requests must satisfy the LimitRanges of the namespace."""


class InvalidRequests(Value, frozen=True, kw_only=True):
    rule: RequestsRule
    field_errors: str
    """The field errors as Kubernetes prints them; the engine does not read them."""


class Workload(Value, frozen=True, kw_only=True):
    key: WorkloadKey
    uid: str
    namespace: str
    local_queue: LocalQueueKey
    created_at_ns: int
    pod_sets: tuple[PodSet, ...]
    arrival: int = 0
    """The order of arrival, which decides among workloads of the same second; 0 if unknown."""
    priority: int = 0
    """The effective priority: the priority of the spec plus `priority_boost`."""
    priority_boost: int = 0
    generation: int = 0
    scheduling_hash: str = ""
    """Workloads of one queue with the same hash are scheduled alike. Empty means unknown."""
    job_uid: str = ""
    active: bool = True
    finished: bool = False
    on_hold: bool = False
    admission_gated: bool = False
    """The annotation admission-gated-by keeps it out of the queues."""
    waiting_for_replacement_pods: bool = False
    closed_preemption_gate: bool = False
    has_variants: bool = False
    """Its variants are queued and charged instead of it (concurrent admission)."""
    parent_uid: str = ""
    """The uid of the workload that it is a variant of; empty if it is no variant."""
    allowed_flavors: tuple[FlavorName, ...] | None = None
    """The flavors that may be assigned; `None` means all."""
    invalid_requests: InvalidRequests | None = None
    """None when the requests are valid."""
    admission: Admission | None = None
    reserved_at_ns: int | None = None
    """When the QuotaReserved condition became true."""
    admitted: bool = False
    eviction: EvictionCondition | None = None
    preemption: EvictionCondition | None = None
    requeued: bool | None = None
    """The condition Requeued; `False` keeps the workload out of the heap."""
    requeue_at_ns: int | None = None
    check_states: Mapping[CheckName, CheckState] = msgspec.field(default_factory=dict)
    pods_ready: bool = False
    unhealthy_nodes: tuple[str, ...] = ()
    """Failed nodes on which some of its pods were placed."""
    replaces: WorkloadKey | None = None
    """The slice of the elastic job that this one replaces; only the difference needs quota."""
    refuses_levels: bool = False
    """The workload is of an elastic job, which may not request a topology level."""
    keeps_failed_nodes: bool = False
    """The workload is a single pod, which cannot move, so its topology assignment stays as it is.
    """

    @property
    def may_queue(self) -> bool:
        return (
            self.active
            and self.admission is None
            and not (self.finished or self.on_hold or self.admission_gated or self.waiting_for_replacement_pods)
            and not self.has_variants
        )
