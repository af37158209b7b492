"""An explanation as data: the standing of a workload, missing quota, preemption targets, and
remedies.

`explain` makes it, and `translate.explanations` renders it. Amounts are integers of the engine;
reasons are values.
"""

import enum
from collections.abc import Mapping

import msgspec

from pykueue.engine import values
from pykueue.engine.reasons import FlavorReason, Inactivity, PendingReason, PreemptionReason


class Standing(enum.StrEnum):
    ADMITTED = "admitted"
    RESERVED = "quota reserved"
    QUEUED = "queued"
    INADMISSIBLE = "parked"
    """Not tried until something changes.

    The value is part of the output of `pykueue explain -o json`.
    """
    OUTSIDE = "outside"
    """In no queue; `obstacle` says why."""


class Obstacle(enum.StrEnum):
    """Why a workload is in no queue."""

    DEACTIVATED = "deactivated"
    ON_HOLD = "on hold"
    ADMISSION_GATED = "admission gated"
    HAS_VARIANTS = "has variants"
    WAITING_FOR_PODS = "waiting for replacement pods"
    LOCAL_QUEUE_MISSING = "local queue missing"
    LOCAL_QUEUE_STOPPED = "local queue stopped"
    CLUSTER_QUEUE_MISSING = "cluster queue missing"


class Refusal(enum.Enum):
    """Why a workload that uses short flavor-resources is not preempted."""

    WITHIN_QUEUE_NEVER = enum.auto()
    """`withinClusterQueue` is Never."""
    RECLAIM_NEVER = enum.auto()
    """`reclaimWithinCohort` is Never."""
    WITHIN_NOMINAL = enum.auto()
    """Its cluster queue does not borrow."""
    POLICY = enum.auto()
    """The preemption policy does not allow its priority."""
    NOT_ENOUGH = enum.auto()
    """Its usage would not be enough."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A workload with quota: its usage of the flavor-resources in question, and since when."""

    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName
    priority: int
    usage: Mapping[values.FlavorResource, int]
    since_ns: int | None


class ResourceFit(msgspec.Struct, frozen=True, kw_only=True):
    resource: values.ResourceName
    requested: int
    """Includes the requests of earlier pod sets of the same workload."""
    unused: int
    nominal: int
    capacity: int
    """The quota that the cluster queue could have if nothing else were admitted."""
    holders: tuple[Holder, ...] = ()

    @property
    def short(self) -> int:
        return max(0, self.requested - self.unused)


class FlavorFit(msgspec.Struct, frozen=True, kw_only=True):
    flavor: values.FlavorName
    mismatch: FlavorReason | None
    resources: tuple[ResourceFit, ...]

    @property
    def fits(self) -> bool:
        return self.mismatch is None and not any(resource.short for resource in self.resources)


class PodSetFit(msgspec.Struct, frozen=True, kw_only=True):
    name: values.PodSetName
    count: int
    requests: Mapping[values.ResourceName, int]
    undeclared: tuple[values.ResourceName, ...]
    flavors: tuple[FlavorFit, ...]


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    holder: Holder
    reason: PreemptionReason


class Spared(msgspec.Struct, frozen=True, kw_only=True):
    holder: Holder
    refusal: Refusal


class MoreQuota(msgspec.Struct, frozen=True, kw_only=True):
    """Raise the nominal quota of the cluster queue by these amounts."""

    amounts: Mapping[values.FlavorResource, int]


class HigherPriority(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest priority with which preemption would help."""

    priority: int


class FewerPods(msgspec.Struct, frozen=True, kw_only=True):
    """The largest counts that fit now, by pod set."""

    counts: Mapping[values.PodSetName, int]


class CoverResources(msgspec.Struct, frozen=True, kw_only=True):
    """Add resources to a resource group of the cluster queue, with at least these quotas."""

    amounts: Mapping[values.ResourceName, int]


class DropRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Request nothing of the resources that the cluster queue does not cover."""

    resources: tuple[values.ResourceName, ...]


class ReduceRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Request at most these amounts in each pod, by pod set; 0 stands for no request."""

    amounts: Mapping[values.PodSetName, Mapping[values.ResourceName, int]]


class SelectNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """Let the namespace selector of the cluster queue match all namespaces."""


class UseLocalQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Use one of these local queues of the namespace."""

    names: tuple[str, ...]


class ResumeQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Resume the queues that are stopped."""

    local_queue: str = ""
    cluster_queue: str = ""


class CreateFlavors(msgspec.Struct, frozen=True, kw_only=True):
    """Create the resource flavors that the cluster queue names."""

    names: tuple[values.FlavorName, ...]


class DropChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Take the admission checks that do not exist, or are not active, out of the cluster queue."""

    names: tuple[values.CheckName, ...]


class Activate(msgspec.Struct, frozen=True, kw_only=True):
    """Set `spec.active` of the workload to true."""


Remedy = (
    MoreQuota
    | HigherPriority
    | FewerPods
    | CoverResources
    | DropRequests
    | ReduceRequests
    | SelectNamespace
    | UseLocalQueue
    | ResumeQueue
    | CreateFlavors
    | DropChecks
    | Activate
)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    workload: values.Workload
    standing: Standing
    cluster_queue: values.ClusterQueueName | None = None
    obstacle: Obstacle | None = None
    admission: values.Admission | None = None
    position: int = 0
    """Counts from 1; 0 when the workload is not pending."""
    queue_length: int = 0
    ahead: tuple[values.WorkloadKey, ...] = ()
    stuck_ahead: tuple[values.WorkloadKey, ...] = ()
    """Those ahead that the cluster queue cannot admit as things are, whatever is freed."""
    is_strict: bool = False
    """A workload that cannot be admitted blocks those behind it (StrictFIFO)."""
    pending: PendingReason | None = None
    """Why it cannot be admitted now; None if it fits."""
    pod_sets: tuple[PodSetFit, ...] = ()
    covered: tuple[values.ResourceName, ...] = ()
    """The resources that the cluster queue covers."""
    unschedulable: tuple[Holder, ...] = ()
    """Workloads that use short flavor-resources, but whose pods are larger than any node."""
    victims: tuple[Victim, ...] = ()
    spared: tuple[Spared, ...] = ()
    inactivity: tuple[Inactivity, ...] = ()
    """Why the cluster queue admits nothing; empty if it is active."""
    remedies: tuple[Remedy, ...] = ()
    """Each was tried on a fork of the engine, and lets the workload in now."""
    repairs: tuple[tuple[Remedy, ...], ...] = ()
    """Alternatives, if nothing lets the workload in now: each was tried on a fork of the engine
    without other workloads, so that the workload may have to wait afterwards."""
