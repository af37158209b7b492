"""The policy: all switches of the engine in one value.

`translate` makes it from the Configuration.
"""

import enum
from collections.abc import Mapping

import msgspec

from pykueue.engine import values


class FairSharingStrategy(enum.StrEnum):
    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


class QuotaCheckStrategy(enum.StrEnum):
    BLOCK_UNDECLARED = "BlockUndeclared"
    IGNORE_UNDECLARED = "IgnoreUndeclared"


class RequeuingTimestamp(enum.StrEnum):
    EVICTION = "Eviction"
    CREATION = "Creation"


class FairSharing(values.Value, frozen=True, kw_only=True):
    """Without configured strategies both apply, in this order."""

    preemption_strategies: tuple[FairSharingStrategy, ...] = (
        FairSharingStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
        FairSharingStrategy.LESS_THAN_INITIAL_SHARE,
    )


class AdmissionFairSharing(values.Value, frozen=True, kw_only=True):
    half_life_ns: int
    sampling_interval_ns: int
    resource_weights: Mapping[values.ResourceName, float] = msgspec.field(default_factory=dict)


class TopologyPolicy(values.Value, frozen=True, kw_only=True):
    """How pods are placed in topology domains."""

    mixed_profile: bool = True
    """Pods without a topology requirement fill the domains with the least free capacity first."""
    balanced_placement: bool = False
    """Pods with a preferred level use domains evenly."""
    overlapping_flavors: bool = True
    """Flavors that share nodes share the capacity of these nodes."""


class Policy(values.Value, frozen=True, kw_only=True):
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    quota_check_strategy: QuotaCheckStrategy = QuotaCheckStrategy.BLOCK_UNDECLARED
    requeuing_timestamp: RequeuingTimestamp = RequeuingTimestamp.EVICTION
    block_admission: bool = False
    """`waitForPodsReady.blockAdmission`: admit nothing while some admitted pods are not ready."""
    preemption_loop_guard: bool = False
    """Workloads must not preempt each other in turn.

    Kueue does not have this; it is off by default.
    """

    partial_admission: bool = True
    flavor_fungibility: bool = True
    preserve_scan_progress: bool = True
    priority_sorting_within_cohort: bool = True
    fair_sharing_preempt_within_nominal: bool = True
    fair_sharing_prioritize_non_borrowing: bool = True
    scheduling_equivalence_hashing: bool = True
    unadmitted_workloads_observability: bool = False
    preemption_gates: bool = False
    """A workload with a closed preemption gate does not preempt."""
    prioritize_preemptor_workloads: bool = False
    timestamp_preemption_buffer: bool = False
    topology_aware: bool = True
    topology: TopologyPolicy = TopologyPolicy()
    recompute_placement_within_cycle: bool = True
    recompute_overlapping_targets: bool = False
    """A workload whose targets another one preempts in the same cycle is assigned again."""
    failed_replacement_evicts: bool = True
    """A workload on a failed node is evicted at once if there is no replacement node."""
