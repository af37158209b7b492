"""A head on its way through one cycle: what `nominate` found, what `process` decided. Passed from step to step."""

import enum
from dataclasses import dataclass, field

from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption.search import Target
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.pending_queue import Pending, ScanMemory
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import NoFitReason, PendingReason, RequeueReason


class Fate(enum.Enum):
    PENDING = enum.auto()
    SKIPPED = enum.auto()
    GATED = enum.auto()
    ADMITTED = enum.auto()
    EVICTED = enum.auto()
    """It lost a node and there is no other."""
    DROPPED = enum.auto()
    """It holds quota already: it has no business in the queue."""


@dataclass(slots=True, kw_only=True)
class Entry:
    pending: Pending
    queue: ClusterQueueState
    is_preemptor: bool
    attempt: int = 0
    """Of its second pass: it holds its quota and looks for places. 0 for a head of a queue."""
    scan_before: ScanMemory | None = None
    """Where the scan of its flavors began in this cycle."""
    assignment: Assignment | None = None
    """None when it cannot even be nominated."""
    targets: list[Target] = field(default_factory=list)
    replaced: Reservation | None = None
    """The slice of an elastic job that ends when this one is admitted."""
    fate: Fate = Fate.PENDING
    requeue_reason: RequeueReason = RequeueReason.GENERIC
    pending_reason: PendingReason | None = None
    no_fit_reason: NoFitReason = NoFitReason.NONE
    preempts: bool = False
    """It evicts somebody in this cycle."""
    back_in_heap: bool = False
    position: int = 0
    """Its turn in the order of the cycle."""

    def leaving(self) -> list[Reservation]:
        """Those who would be gone if it came in."""
        gone = [target.holding for target in self.targets] if self.targets else []
        return gone if self.replaced is None else [self.replaced, *gone]

    @property
    def new_usage(self) -> quota_tree.Usage:
        """What it needs of the quota; in its second pass it holds that already."""
        assert self.assignment is not None
        return {} if self.attempt else self.assignment.usage

    def set_pending(self, reason: PendingReason, no_fit_reason: NoFitReason) -> None:
        self.pending_reason = reason
        self.no_fit_reason = no_fit_reason
