"""A head on its way through one cycle: what `nominate` found, what `process` decided. Passed from step to step."""

import enum
from dataclasses import dataclass, field

from pykueue.engine.assignment import Assignment
from pykueue.engine.cluster_queues import ClusterQueueState
from pykueue.engine.preemption import Target
from pykueue.engine.queues import Pending, ScanMemory
from pykueue.engine.reasons import NoFitReason, PendingReason, RequeueReason


class Fate(enum.Enum):
    PENDING = enum.auto()
    SKIPPED = enum.auto()
    GATED = enum.auto()
    ADMITTED = enum.auto()
    DROPPED = enum.auto()
    """It holds quota already: it has no business in the queue."""


@dataclass(slots=True, kw_only=True)
class Entry:
    pending: Pending
    queue: ClusterQueueState
    is_preemptor: bool
    scan_before: ScanMemory | None = None
    """Where the scan of its flavors began in this cycle."""
    assignment: Assignment | None = None
    """None when it cannot even be nominated."""
    targets: list[Target] = field(default_factory=list)
    fate: Fate = Fate.PENDING
    requeue_reason: RequeueReason = RequeueReason.GENERIC
    pending_reason: PendingReason | None = None
    no_fit_reason: NoFitReason = NoFitReason.NONE
    preempts: bool = False
    """It evicts somebody in this cycle."""
    back_in_heap: bool = False
    position: int = 0
    """Its turn in the order of the cycle."""

    def set_pending(self, reason: PendingReason, no_fit_reason: NoFitReason) -> None:
        self.pending_reason = reason
        self.no_fit_reason = no_fit_reason
