"""The entries of a cycle: one head each, with the result of every step. The steps pass them on."""

import enum
from collections.abc import Sequence

from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption.target_search import PreemptionTarget
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.queues.pending_queue import PendingWorkload
from pykueue.engine.queues.scan_progress import ScanProgress
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import NoFitReason, PendingReason, RequeueReason


class EntryStatus(enum.Enum):
    PENDING = enum.auto()
    SKIPPED = enum.auto()
    GATED = enum.auto()
    ADMITTED = enum.auto()
    EVICTED = enum.auto()
    """A node of the workload failed, and there is no replacement."""
    DROPPED = enum.auto()
    """The workload has quota already, so it leaves the queue."""


class CycleEntry:
    """Defaults are attributes of the class: most entries change few of them, and a saturated tree
    makes many entries.
    """

    scan_before: ScanProgress | None = None
    """Where its flavor scan started in this cycle."""
    assignment: Assignment | None = None
    """None when the workload cannot be nominated."""
    targets: Sequence[PreemptionTarget] = ()
    replaced: Reservation | None = None
    """The slice of an elastic job that finishes when this one is admitted."""
    migrated: Reservation | None = None
    """The variant of the same parent that is evicted, because this one has an earlier flavor."""
    status: EntryStatus = EntryStatus.PENDING
    requeue_reason: RequeueReason = RequeueReason.GENERIC
    pending_reason: PendingReason | None = None
    no_fit_reason: NoFitReason = NoFitReason.NONE
    is_hopeless: bool = False
    """The workload gets no quota in this cycle, whatever the other entries get."""
    preempts: bool = False
    """The workload preempts its targets in this cycle."""
    is_deferred: bool = False
    """The workload fits when the targets of earlier entries are gone."""
    back_in_heap: bool = False
    position: int = 0
    """Its position in the order of the cycle."""

    def __init__(
        self, pending: PendingWorkload, queue: ClusterQueueState, *, is_preemptor: bool = False, attempt: int = 0
    ) -> None:
        self.pending = pending
        self.queue = queue
        self.is_preemptor = is_preemptor
        """Its targets are being evicted."""
        self.attempt = attempt
        """The number of the attempt of a second pass; 0 for the head of a queue."""

    def released(self) -> list[Reservation]:
        """The reservations that its admission would release: targets and replaced slice."""
        targets = [target.reservation for target in self.targets] if self.targets else []
        return targets if self.replaced is None else [self.replaced, *targets]

    @property
    def new_usage(self) -> quota_tree.Usage:
        """The usage that it adds; nothing in a second pass, which has its quota already."""
        assert self.assignment is not None
        return {} if self.attempt else self.assignment.usage

    def set_pending(self, reason: PendingReason, no_fit_reason: NoFitReason) -> None:
        self.pending_reason = reason
        self.no_fit_reason = no_fit_reason
