"""Step 4 of the cycle: admit, preempt or skip each entry, in order, against what the entries before it took.

Usage taken here is provisional (the cycle runs it in a trial); `report` books what was decided.
"""

import enum

from pykueue.engine import reasons
from pykueue.engine.cycle import nominate, second_pass
from pykueue.engine.cycle.entries import Entry, Fate
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.preemption import search
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import add, sub
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import Mode, NoFitReason, RequeueReason
from pykueue.engine.values import PreemptionPolicy, WorkloadKey
from pykueue.engine.world import World


class _Check(enum.Enum):
    OK = enum.auto()
    NO_QUOTA = enum.auto()
    NO_PLACE = enum.auto()


class Processing:
    """One pass over the ordered entries."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._victims: dict[WorkloadKey, Reservation] = {}
        self.skipped_preemptions: dict[str, int] = {}
        self._blocked = world.policy.block_admission and bool(world.not_ready)

    def process(self, entry: Entry) -> None:
        self._look_again_for_places(entry)
        found = entry.assignment
        assert found is not None
        if self._gives_up(entry, found):
            entry.fate = Fate.EVICTED
        elif found.mode is Mode.NO_FIT:
            entry.requeue_reason = RequeueReason.NO_FIT
            entry.no_fit_reason = found.no_fit_reason
        elif found.mode is Mode.PREEMPT and not entry.targets:
            self._reserve(entry, found)
        elif found.mode is Mode.PREEMPT and self._is_gated(entry):
            entry.fate = Fate.GATED
            entry.requeue_reason = RequeueReason.PREEMPTION_GATED
            entry.pending.scan = None
            entry.set_pending(reasons.PreemptionGated(), NoFitReason.ADMISSION_GATED)
        elif any(holding.key in self._victims for holding in entry.leaving()):
            self._skip(entry, reasons.TargetsOverlap())
        elif not self._fits(entry, found):
            self._skip(entry, reasons.NoLongerFits())
        else:
            self._take(entry, found)

    def _gives_up(self, entry: Entry, found: Assignment) -> bool:
        """Of a workload that lost a node and would have to wait for another."""
        if not entry.attempt or found.mode is Mode.FIT or not self._world.policy.failed_replacement_evicts:
            return False
        return second_pass.has_lost_places(entry.pending.workload)

    def _is_gated(self, entry: Entry) -> bool:
        return self._world.policy.preemption_gates and entry.pending.workload.closed_preemption_gate

    def _reserve(self, entry: Entry, found: Assignment) -> None:
        """Nobody to preempt: keep the place, so that nobody slips in, unless the queue can always reclaim it."""
        entry.requeue_reason = RequeueReason.PREEMPTION_NO_CANDIDATES
        entry.no_fit_reason = NoFitReason.WAITING_FOR_QUOTA
        can_always_reclaim = entry.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.ANY
        keeps_place = self._world.policy.prioritize_preemptor_workloads and entry.is_preemptor
        if not can_always_reclaim or keeps_place:
            self._world.ledger.charge(entry.queue.node, {} if entry.attempt else reservation(entry.queue.node, found))
            self._world.ledger.charge_places(found.taken)

    def _fits(self, entry: Entry, found: Assignment) -> bool:
        """With all victims gone, those of the entries before and its own."""
        return self._check(entry, found) is _Check.OK

    def _look_again_for_places(self, entry: Entry) -> None:
        """Others may have taken the places meanwhile: there may be more."""
        found = entry.assignment
        assert found is not None
        if not found.taken or not self._world.policy.recompute_placement_within_cycle:
            return
        if self._check(entry, found) is _Check.NO_PLACE:
            nominate.assign_again(self._world, entry)

    def _check(self, entry: Entry, found: Assignment) -> "_Check":
        node = entry.queue.node
        victims = self._victims | {holding.key: holding for holding in entry.leaving()}
        if not victims:
            return self._available(node, entry.new_usage, found)
        with self._world.ledger.trial():
            search.release(self._world, victims.values())
            return self._available(node, entry.new_usage, found)

    def _available(self, node: quota_tree.QuotaNode, usage: quota_tree.Usage, found: Assignment) -> "_Check":
        if not _all_available(node, usage):
            return _Check.NO_QUOTA
        return _Check.OK if not found.taken or self._world.places.fits(found.taken) else _Check.NO_PLACE

    def _skip(self, entry: Entry, reason: reasons.PendingReason) -> None:
        assert entry.assignment is not None
        entry.fate = Fate.SKIPPED
        entry.set_pending(reason, NoFitReason.WAITING_FOR_QUOTA)
        if not self._world.policy.preserve_scan_progress:
            entry.pending.scan = None
        if entry.assignment.mode is Mode.PREEMPT:
            name = entry.queue.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1

    def _take(self, entry: Entry, found: Assignment) -> None:
        self._victims |= {holding.key: holding for holding in entry.leaving()}
        self._world.ledger.charge(entry.queue.node, entry.new_usage)
        self._world.ledger.charge_places(found.taken)
        if found.mode is Mode.PREEMPT:
            entry.preempts = True
            entry.requeue_reason = RequeueReason.PENDING_PREEMPTION
            entry.pending.scan = None
            entry.set_pending(
                reasons.FlavorsShort(pod_sets=found.shortages(), preempting=len(entry.targets)),
                NoFitReason.WAITING_FOR_PREEMPTED_WORKLOADS,
            )
        elif entry.attempt:
            entry.fate = Fate.ADMITTED
        elif self._blocked:
            entry.fate = Fate.SKIPPED
            entry.set_pending(reasons.PodsNotReady(), NoFitReason.WAITING_FOR_PODS_READY)
        else:
            entry.fate = Fate.ADMITTED
            self._blocked = self._world.policy.block_admission


def _all_available(node: quota_tree.QuotaNode, usage: quota_tree.Usage) -> bool:
    return all(amount <= max(0, quota_tree.available(node, index)) for index, amount in usage.items())


def reservation(node: quota_tree.QuotaNode, found: Assignment) -> quota_tree.Usage:
    """How much of what it wants an entry may keep others from: up to nominal, or to the borrowing limit."""
    if found.mode is not Mode.PREEMPT:
        return found.usage
    reserved: quota_tree.Usage = {}
    for index, amount in found.usage.items():
        used = node.usage.get(index, 0)
        nominal = node.nominal.get(index, 0)
        if not found.borrowing:
            reserved[index] = max(0, min(amount, sub(nominal, used)))
        elif index in node.borrowing_limit:
            reserved[index] = min(amount, sub(add(nominal, node.borrowing_limit[index]), used))
        else:
            reserved[index] = amount
    return reserved
