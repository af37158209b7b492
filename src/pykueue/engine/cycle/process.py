"""Step 4 of the cycle: admit, preempt or skip every entry, in order. Each sees the usage of the
entries before it.

The cycle runs this inside a trial of the ledger; `report` charges the usage of what was decided.
"""

import enum
from collections.abc import Iterable

from pykueue.engine import reasons
from pykueue.engine.cycle import nominate, second_pass, variants
from pykueue.engine.cycle.entries import CycleEntry, EntryStatus
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import target_search
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Mode, NoFitReason, RequeueReason
from pykueue.engine.state import EngineState
from pykueue.engine.values import PreemptionPolicy, WorkloadKey


class _Check(enum.Enum):
    OK = enum.auto()
    NO_QUOTA = enum.auto()
    NO_CAPACITY = enum.auto()


class Processing:
    """One pass over the ordered entries."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._released: dict[WorkloadKey, Reservation] = {}
        """The targets of earlier entries, and the slices that these replace."""
        self._replaced: set[WorkloadKey] = set()
        """The keys of these slices."""
        self.skipped_preemptions: dict[str, int] = {}
        self._blocked = state.policy.block_admission and bool(state.not_ready)
        self._is_seen = True
        """Some entry follows that sees what this one charges in the trial."""

    def process(self, entry: CycleEntry, *, is_seen: bool) -> None:
        self._is_seen = is_seen
        if entry.pending.workload.parent_uid and variants.better_admitted(entry.queue, entry.pending.workload):
            self._skip(entry, reasons.BetterVariantAdmitted(), NoFitReason.PENDING_EVALUATION)
        else:
            self._process(entry)

    def _process(self, entry: CycleEntry) -> None:
        if self._released and self._state.policy.recompute_overlapping_targets and self._overlaps(entry):
            self._reassign_after_preemptions(entry)
        else:
            self._reassign_topology(entry)
        assignment = entry.assignment
        assert assignment is not None
        if self._must_evict(entry, assignment):
            entry.status = EntryStatus.EVICTED
        elif assignment.mode is Mode.NO_FIT:
            refuse(entry)
        elif assignment.mode is Mode.PREEMPT and not entry.targets:
            refuse(entry)
            self.reserve(entry)
        elif assignment.mode is Mode.PREEMPT and self._is_gated(entry):
            entry.status = EntryStatus.GATED
            entry.requeue_reason = RequeueReason.PREEMPTION_GATED
            entry.pending.scan = None
            entry.set_pending(reasons.PreemptionGated(), NoFitReason.ADMISSION_GATED)
        elif entry.is_deferred:
            self._defer(entry, assignment)
        elif self._released and self._overlaps(entry):
            self._skip_preemption(entry, reasons.TargetsOverlap())
        elif not self._fits(entry, assignment):
            self._skip_preemption(entry, reasons.NoLongerFits())
        else:
            self._assume(entry, assignment)

    def _overlaps(self, entry: CycleEntry) -> bool:
        """Whether an earlier entry of the cycle preempts a target of this one."""
        return any(reservation.key in self._released for reservation in entry.released())

    def _reassign_after_preemptions(self, entry: CycleEntry) -> None:
        """Assign again as if the targets of earlier entries were gone."""
        state, removed = self._state, list(self._released.values())
        with state.ledger.trial():
            self._release(removed)
            for reservation in removed:
                state.cluster_queues[reservation.cluster_queue].reservations.remove(reservation.key)
            try:
                nominate.assign_again(state, entry)
            finally:
                for reservation in removed:
                    state.cluster_queues[reservation.cluster_queue].reservations.put(reservation)
        assert entry.assignment is not None
        entry.is_deferred = entry.assignment.mode is Mode.FIT

    def _defer(self, entry: CycleEntry, assignment: Assignment) -> None:
        """Wait for the preemptions of other entries, without which the workload does not fit."""
        entry.requeue_reason = RequeueReason.PENDING_PREEMPTION
        entry.pending.scan = None
        entry.set_pending(reasons.FitsAfterPreemptions(), NoFitReason.WAITING_FOR_PREEMPTED_WORKLOADS)
        self._charge(entry, entry.new_usage, assignment)

    def _charge(self, entry: CycleEntry, usage: quota_tree.Usage, assignment: Assignment) -> None:
        if self._is_seen:
            self._state.ledger.charge(entry.queue.node, usage)
            self._state.ledger.charge_topology(assignment.topology_usage)

    def _must_evict(self, entry: CycleEntry, assignment: Assignment) -> bool:
        """Whether to evict a workload with a failed node, because there is no replacement now."""
        if not entry.attempt or assignment.mode is Mode.FIT or not self._state.policy.failed_replacement_evicts:
            return False
        return second_pass.has_failed_node(entry.pending.workload)

    def _is_gated(self, entry: CycleEntry) -> bool:
        return self._state.policy.preemption_gates and entry.pending.workload.closed_preemption_gate

    def reserve(self, entry: CycleEntry) -> None:
        """Reserve quota for an entry without targets, so that later entries do not use it.

        This is not needed if the queue can always reclaim the quota.
        """
        assignment = entry.assignment
        assert assignment is not None
        if not self._is_seen or assignment.mode is not Mode.PREEMPT:
            return
        can_always_reclaim = entry.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.ANY
        keeps_reservation = self._state.policy.prioritize_preemptor_workloads and entry.is_preemptor
        if not can_always_reclaim or keeps_reservation:
            self._charge(entry, {} if entry.attempt else reserved_usage(entry.queue.node, assignment), assignment)

    def _fits(self, entry: CycleEntry, assignment: Assignment) -> bool:
        """Whether the entry fits once its targets and those of earlier entries are evicted."""
        return self._check(entry, assignment) is _Check.OK

    def _reassign_topology(self, entry: CycleEntry) -> None:
        """Assign again if earlier entries use the topology domains of this one."""
        assignment = entry.assignment
        assert assignment is not None
        if not assignment.topology_usage or not self._state.policy.recompute_placement_within_cycle:
            return
        if self._check(entry, assignment) is _Check.NO_CAPACITY:
            nominate.assign_again(self._state, entry)

    def _check(self, entry: CycleEntry, assignment: Assignment) -> "_Check":
        node = entry.queue.node
        if not self._released and not entry.targets and entry.replaced is None:
            return self._available(node, entry.new_usage, assignment)
        released = self._released | {reservation.key: reservation for reservation in entry.released()}
        with self._state.ledger.trial():
            self._release(released.values(), entry.replaced)
            return self._available(node, entry.new_usage, assignment)

    def _release(self, released: Iterable[Reservation], replaced: Reservation | None = None) -> None:
        """Release targets, and of a replaced slice the topology domains only.

        The new slice is charged the quota that it needs beyond that of the replaced one, but all
        of its topology domains.
        """
        for reservation in released:
            if reservation is replaced or reservation.key in self._replaced:
                self._state.ledger.release_topology(reservation.topology_usage)
            else:
                target_search.release(self._state, (reservation,))

    def _available(self, node: quota_tree.QuotaNode, usage: quota_tree.Usage, assignment: Assignment) -> "_Check":
        if not _all_available(node, usage):
            return _Check.NO_QUOTA
        return (
            _Check.OK
            if not assignment.topology_usage or self._state.topology_cache.fits(assignment.topology_usage)
            else _Check.NO_CAPACITY
        )

    def _skip(self, entry: CycleEntry, reason: reasons.PendingReason, no_fit_reason: NoFitReason) -> None:
        entry.status = EntryStatus.SKIPPED
        entry.set_pending(reason, no_fit_reason)
        if not self._state.policy.preserve_scan_progress:
            entry.pending.scan = None

    def _skip_preemption(self, entry: CycleEntry, reason: reasons.PendingReason) -> None:
        assert entry.assignment is not None
        self._skip(entry, reason, NoFitReason.WAITING_FOR_QUOTA)
        if entry.assignment.mode is Mode.PREEMPT:
            name = entry.queue.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1

    def _assume(self, entry: CycleEntry, assignment: Assignment) -> None:
        if entry.targets or entry.replaced is not None:
            self._released |= {reservation.key: reservation for reservation in entry.released()}
            if entry.replaced is not None:
                self._replaced.add(entry.replaced.key)
        self._charge(entry, entry.new_usage, assignment)
        if assignment.mode is Mode.PREEMPT:
            entry.preempts = True
            entry.requeue_reason = RequeueReason.PENDING_PREEMPTION
            entry.pending.scan = None
            entry.set_pending(
                reasons.FlavorsShort(pod_sets=assignment.shortages(), preempting=len(entry.targets)),
                NoFitReason.WAITING_FOR_PREEMPTED_WORKLOADS,
            )
        elif entry.attempt:
            entry.status = EntryStatus.ADMITTED
        elif self._blocked:
            entry.status = EntryStatus.SKIPPED
            entry.set_pending(reasons.PodsNotReady(), NoFitReason.WAITING_FOR_PODS_READY)
        elif entry.pending.workload.parent_uid and self._migrates(entry, assignment):
            return
        else:
            entry.status = EntryStatus.ADMITTED
            self._blocked = self._state.policy.block_admission

    def _migrates(self, entry: CycleEntry, assignment: Assignment) -> bool:
        """Evict the admitted variant with a later flavor first, or refuse; False without one."""
        entry.migrated = variants.worse_admitted(entry.queue, entry.pending.workload)
        if entry.migrated is None:
            return False
        if not variants.may_migrate(entry.queue, entry.pending.workload):
            entry.migrated = None
            entry.set_pending(reasons.MigrationForbidden(), NoFitReason.PENDING_EVALUATION)
            return True
        entry.requeue_reason = RequeueReason.PENDING_MIGRATION
        entry.pending.scan = None
        entry.set_pending(
            reasons.MigrationPending(pod_sets=assignment.shortages()), NoFitReason.WAITING_FOR_PREEMPTED_WORKLOADS
        )
        return True


def may_get_quota(entry: CycleEntry) -> bool:
    """Whether the outcome of a nominated entry depends on the entries before it."""
    assignment = entry.assignment
    assert assignment is not None
    return bool(
        assignment.mode is Mode.FIT
        or entry.targets
        or entry.attempt
        or entry.replaced is not None
        or assignment.topology_usage
        or entry.pending.workload.parent_uid
    )


def refuse_hopeless(nominated: list[CycleEntry]) -> int:
    """Refuse the entries that cannot get quota, whatever the others do; count the others."""
    left = 0
    for entry in nominated:
        if entry.is_hopeless:
            continue
        if may_get_quota(entry):
            left += 1
        else:
            entry.is_hopeless = True
            refuse(entry)
    return left


def refuse(entry: CycleEntry) -> None:
    """Set why an entry waits that does not fit and finds no targets."""
    assert entry.assignment is not None
    entry.requeue_reason, entry.no_fit_reason = entry.assignment.refusal


def _all_available(node: quota_tree.QuotaNode, usage: quota_tree.Usage) -> bool:
    return all(amount <= max(0, quota_tree.available(node, index)) for index, amount in usage.items())


def reserved_usage(node: quota_tree.QuotaNode, assignment: Assignment) -> quota_tree.Usage:
    """The usage that an entry without targets reserves, up to nominal quota or borrowing limit."""
    if assignment.mode is not Mode.PREEMPT:
        return assignment.usage
    reserved: quota_tree.Usage = {}
    for index, amount in assignment.usage.items():
        used = node.usage.get(index, 0)
        nominal = node.nominal.get(index, 0)
        if not assignment.borrowing:
            reserved[index] = max(0, min(amount, sub(nominal, used)))
        elif index in node.borrowing_limit:
            reserved[index] = min(amount, sub(add(nominal, node.borrowing_limit[index]), used))
        else:
            reserved[index] = amount
    return reserved
