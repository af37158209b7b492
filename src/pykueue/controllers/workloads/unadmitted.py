"""How the status of a Workload without an admission is written: two gates make it finer."""

import msgspec

PENDING_EVALUATION = "PendingEvaluation"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
EVALUATION_TEXT = "Workload is pending evaluation in the scheduling queue"
BYPASSED_TEXT = "Bypassed scheduling evaluation because an equivalent workload recently failed"

SCHEDULER_REASONS = frozenset(
    {
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        PENDING_EVALUATION,
    }
)
"""Reasons of QuotaReserved=False that stay until the scheduler tries the Workload again."""

RETURNING_REASONS = frozenset({"Deactivated", PENDING_EVALUATION, SUSPENDED, "Pending"})
"""Reasons of a Workload that waits for the scheduler, or is about to."""


class UnadmittedStatus(msgspec.Struct, frozen=True, kw_only=True):
    is_granular: bool = False
    """Finer reasons, and Admitted=False beside QuotaReserved=False
    (UnadmittedWorkloadsObservability)."""
    is_explicit: bool = False
    """Both conditions from the start (UnadmittedWorkloadsExplicitStatus)."""

    def reason(self, granular: str, legacy: str) -> str:
        return granular if self.is_granular else legacy


LEGACY = UnadmittedStatus()
