"""Decisions: what `Engine.handle` returns for a scheduling cycle, in the imperative.

The engine has already assumed every decision. The caller writes it to the API, and sends an event
if that fails.
"""

import msgspec

from pykueue.engine import reasons, values


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName


class ConsideredFlavors(msgspec.Struct, frozen=True, kw_only=True):
    pod_set: values.PodSetName
    attempts: tuple[reasons.FlavorAttempt, ...]


class Admit(Decision, frozen=True, kw_only=True):
    """Reserve quota.

    `admitted` says that all required admission checks are ready, or that there are none.
    """

    admission: values.Admission
    borrowing: int
    """Height of the smallest subtree whose quota suffices; 0 means within nominal quota."""
    admitted: bool
    considered: tuple[ConsideredFlavors, ...]
    reserved_at_ns: int
    replaces: values.WorkloadKey | None = None
    """The slice of the same elastic job that finishes with this admission."""


class AssignTopology(Decision, frozen=True, kw_only=True):
    """Write the topology assignment of a workload with quota, or replace failed nodes in it."""

    admission: values.Admission
    admitted: bool
    replaces_nodes: bool
    """The assignment replaces failed nodes of a workload that was admitted before."""


class RetrySecondPass(Decision, frozen=True, kw_only=True):
    """A workload with quota could not be placed; the engine tries again at `due_ns`."""

    pending: reasons.PendingReason
    due_ns: int


class Evict(Decision, frozen=True, kw_only=True):
    """Evict a workload because some of its nodes failed and there are no replacements."""

    lost_nodes: tuple[str, ...]
    pending: reasons.PendingReason


class PreemptedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    workload: values.WorkloadKey
    cluster_queue: values.ClusterQueueName
    reason: reasons.PreemptionReason
    path: tuple[str, ...]
    """Names from the root cohort to its cluster queue."""
    already_evicted: bool = False


class Preempt(Decision, frozen=True, kw_only=True):
    """Evict the targets so that `workload` fits.

    Targets that are already evicted are only listed.
    """

    targets: tuple[PreemptedWorkload, ...]
    path: tuple[str, ...]


class Migrate(Decision, frozen=True, kw_only=True):
    """Evict `victim`, a variant of the same parent with a later flavor than `workload`."""

    victim: values.WorkloadKey


class Requeue(Decision, frozen=True, kw_only=True):
    """Set the pending reason of a workload that is tried again in the next cycle."""

    reason: reasons.RequeueReason
    pending: reasons.PendingReason
    no_fit_reason: reasons.NoFitReason


class MarkInadmissible(Decision, frozen=True, kw_only=True):
    """Set the pending reason of a workload that is not tried again until something changes."""

    reason: reasons.RequeueReason
    pending: reasons.PendingReason
    no_fit_reason: reasons.NoFitReason
