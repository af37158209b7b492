"""An explanation as data: where a workload stands, what is short, who holds it, who could make room, what would help.

Made by `explain`, rendered by `translate.explanations`; every amount is an engine integer, every reason a value.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.engine import values
from pykueue.engine.reasons import FlavorReason, PendingReason, PreemptionReason


class Standing(enum.StrEnum):
    FINISHED = "finished"
    ADMITTED = "admitted"
    RESERVED = "quota reserved"
    QUEUED = "queued"
    PARKED = "parked"
    """Out of the heap until something changes."""
    OUTSIDE = "outside"
    """In no queue; see the obstacle."""


class Obstacle(enum.StrEnum):
    """Why a workload is in no queue."""

    DEACTIVATED = "deactivated"
    ON_HOLD = "on hold"
    ADMISSION_GATED = "admission gated"
    WAITING_FOR_PODS = "waiting for replacement pods"
    LOCAL_QUEUE_MISSING = "local queue missing"
    LOCAL_QUEUE_STOPPED = "local queue stopped"
    CLUSTER_QUEUE_MISSING = "cluster queue missing"


class Refusal(enum.StrEnum):
    """Why a workload that holds what is short is not preempted."""

    WITHIN_QUEUE_NEVER = "withinClusterQueue is Never"
    RECLAIM_NEVER = "reclaimWithinCohort is Never"
    WITHIN_NOMINAL = "its queue uses no more than its own quota"
    POLICY = "its priority is not low enough"
    NOT_ENOUGH = "it would not make enough room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who uses some of what is asked for, how much and since when."""

    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName
    priority: int
    usage: Mapping[values.FlavorResource, int]
    since_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFit:
    resource: values.ResourceName
    requested: int
    """With what earlier pod sets of the same workload would take."""
    unused: int
    nominal: int
    capacity: int
    """The most that the queue could ever have."""
    holders: tuple[Holder, ...] = ()

    @property
    def short(self) -> int:
        return max(0, self.requested - self.unused)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFit:
    flavor: values.FlavorName
    mismatch: FlavorReason | None
    resources: tuple[ResourceFit, ...]

    @property
    def fits(self) -> bool:
        return self.mismatch is None and not any(resource.short for resource in self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetFit:
    name: values.PodSetName
    count: int
    requests: Mapping[values.ResourceName, int]
    undeclared: tuple[values.ResourceName, ...]
    flavors: tuple[FlavorFit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    holder: Holder
    reason: PreemptionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    holder: Holder
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreQuota:
    """Raise the nominal quota of the cluster queue by these amounts."""

    amounts: Mapping[values.FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HigherPriority:
    """The least priority with which it would make room by preemption."""

    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerPods:
    """The most pods that fit now, by pod set."""

    counts: Mapping[values.PodSetName, int]


Remedy = MoreQuota | HigherPriority | FewerPods


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    workload: values.Workload
    standing: Standing
    cluster_queue: values.ClusterQueueName | None = None
    obstacle: Obstacle | None = None
    admission: values.Admission | None = None
    position: int = 0
    """1 is next; 0 when not queued."""
    queue_length: int = 0
    ahead: tuple[values.WorkloadKey, ...] = ()
    pending: PendingReason | None = None
    """Why it is not admitted at this moment; None when it would be, at its turn."""
    pod_sets: tuple[PodSetFit, ...] = ()
    victims: tuple[Victim, ...] = ()
    spared: tuple[Spared, ...] = ()
    remedies: tuple[Remedy, ...] = ()
