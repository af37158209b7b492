"""What to do, in the imperative: what `Engine.handle` answers.

A decision is already assumed in the engine; the caller writes it to the API, and says so by an event if that fails.
"""

from dataclasses import dataclass

from pykueue.engine import reasons, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredFlavors:
    pod_set: values.PodSetName
    attempts: tuple[reasons.FlavorAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(Decision):
    """Reserve quota. `admitted` says that all required checks are ready (or there are none)."""

    admission: values.Admission
    borrowing: int
    """Height of the smallest subtree whose quota suffices; 0 is within nominal."""
    admitted: bool
    considered: tuple[ConsideredFlavors, ...]
    reserved_at_ns: int
    replaces: values.WorkloadKey | None = None
    """The slice of the same elastic job that ends with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignTopology(Decision):
    """Give places to a workload that holds quota: for the first time, or new ones for those on lost nodes."""

    admission: values.Admission
    admitted: bool
    replaces_nodes: bool
    """It was admitted before, and keeps its other places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySecondPass(Decision):
    """There are no places for a workload that holds quota: look again."""

    pending: reasons.PendingReason
    due_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict(Decision):
    """Some of its pods lost their node, and there is no other for them."""

    lost_nodes: tuple[str, ...]
    pending: reasons.PendingReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptedWorkload:
    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName
    reason: reasons.PreemptionReason
    path: tuple[str, ...]
    """From the root cohort to its cluster queue."""
    already_evicted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt(Decision):
    """Evict the targets to make room for `workload`; those already on their way out are only counted."""

    targets: tuple[PreemptedWorkload, ...]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue(Decision):
    """Not now: it stays in its queue and is tried again in the next cycle."""

    reason: reasons.RequeueReason
    pending: reasons.PendingReason
    no_fit_reason: reasons.NoFitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkInadmissible(Decision):
    """Not until something changes: it waits outside the heap."""

    reason: reasons.RequeueReason
    pending: reasons.PendingReason
    no_fit_reason: reasons.NoFitReason
