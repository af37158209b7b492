"""The classical preemption search: lower priority in the own queue, reclaim from borrowers in the cohort.

Candidates of a subtree in which the request fits by quota are taken with the right of the owner (hierarchical
advantage); the others only while not borrowing, unless `borrowWithinCohort` allows more.
"""

import enum
from typing import NamedTuple

from pykueue.engine import preemption, quota
from pykueue.engine.holdings import Holding
from pykueue.engine.preemption import Search, Target
from pykueue.engine.reasons import PreemptionReason
from pykueue.engine.values import ClusterQueueName, PreemptionPolicy


class Variant(enum.Enum):
    WITHIN_CLUSTER_QUEUE = enum.auto()
    HIERARCHICAL_RECLAIM = enum.auto()
    RECLAIM_WITHOUT_BORROWING = enum.auto()
    RECLAIM_WHILE_BORROWING = enum.auto()


_REASONS = {
    Variant.WITHIN_CLUSTER_QUEUE: PreemptionReason.IN_CLUSTER_QUEUE,
    Variant.HIERARCHICAL_RECLAIM: PreemptionReason.IN_COHORT_RECLAMATION,
    Variant.RECLAIM_WITHOUT_BORROWING: PreemptionReason.IN_COHORT_RECLAMATION,
    Variant.RECLAIM_WHILE_BORROWING: PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING,
}


class Candidate(NamedTuple):
    holding: Holding
    variant: Variant
    common_ancestor: quota.Node | None


def find_targets(search: Search) -> list[Target]:
    same_queue = _same_queue_candidates(search)
    hierarchy, priority = _cohort_candidates(search)
    ordered = _sequence(hierarchy, priority, same_queue)
    if not ordered:
        return []
    for borrowing in _attempts(search, from_others=bool(hierarchy or priority), by_hierarchy=bool(hierarchy)):
        with search.world.ledger.trial():
            targets = _attempt(search, ordered, borrowing=borrowing)
        if targets:
            return targets
    return []


def _attempts(search: Search, *, from_others: bool, by_hierarchy: bool) -> tuple[bool, ...]:
    """Whether to try with borrowing, without, or both and in which order."""
    forbidden = search.queue.value.preemption.borrow_within_cohort is None
    if not from_others or (forbidden and not _is_under_nominal(search)):
        return (True,)
    if forbidden and not by_hierarchy:
        return (False, True)
    return (True, False)


def _is_under_nominal(search: Search) -> bool:
    node = search.queue.node
    return all(node.usage.get(index, 0) < node.nominal.get(index, 0) for index in search.needed)


def _attempt(search: Search, candidates: list[Candidate], *, borrowing: bool) -> list[Target]:
    targets: list[Target] = []
    for candidate in candidates:
        if not _is_valid(search, candidate, borrowing=borrowing):
            continue
        search.release(candidate.holding)
        targets.append(Target(candidate.holding, _REASONS[candidate.variant]))
        if search.fits(borrowing=borrowing):
            return preemption.fill_back(search, targets, borrowing=borrowing)
    return []


def _is_valid(search: Search, candidate: Candidate, *, borrowing: bool) -> bool:
    """Another queue's workload helps only while its queue, and every cohort below the common one, still borrows."""
    if candidate.variant is Variant.WITHIN_CLUSTER_QUEUE:
        return True
    if borrowing and candidate.variant is Variant.RECLAIM_WITHOUT_BORROWING:
        return False
    node: quota.Node | None = search.world.cluster_queues[candidate.holding.cluster_queue].node
    while node is not None and node is not candidate.common_ancestor:
        if quota.is_within_quota(node, search.needed):
            return False
        node = node.parent
    return True


def _same_queue_candidates(search: Search) -> list[Candidate]:
    policy = search.queue.value.preemption.within_cluster_queue
    if policy is PreemptionPolicy.NEVER:
        return []
    found = [
        Candidate(holding, Variant.WITHIN_CLUSTER_QUEUE, None) for holding in search.candidates(search.queue, policy)
    ]
    return _ordered(search, found)


def _cohort_candidates(search: Search) -> tuple[list[Candidate], list[Candidate]]:
    """Those taken with hierarchical advantage, and those taken by priority."""
    by_hierarchy: list[Candidate] = []
    by_priority: list[Candidate] = []
    node = search.queue.node
    if search.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.NEVER:
        return by_hierarchy, by_priority
    advantage, rest = preemption.fits_in_quota(node, search.requests)
    below: quota.Node | None = None
    for ancestor in quota.ancestors(node):
        collector = _Collector(search, ancestor, below, advantage=advantage)
        collector.collect(ancestor, by_hierarchy if advantage else by_priority)
        fits, rest = preemption.fits_in_quota(ancestor, rest)
        advantage = advantage or fits
        below = ancestor
    return _ordered(search, by_hierarchy), _ordered(search, by_priority)


class _Collector:
    """Candidates in the subtree of one ancestor, outside the subtree visited before."""

    __slots__ = ("_advantage", "_ancestor", "_search", "_skip")

    def __init__(self, search: Search, ancestor: quota.Node, skip: quota.Node | None, *, advantage: bool) -> None:
        self._search = search
        self._ancestor = ancestor
        self._skip = skip
        self._advantage = advantage

    def collect(self, cohort: quota.Node, found: list[Candidate]) -> None:
        search = self._search
        for child in quota.borrowing_children(cohort, search.needed):
            if child is self._skip or child is search.queue.node:
                continue
            if not child.is_cluster_queue:
                self.collect(child, found)
            elif child.participates:
                self._collect_queue(ClusterQueueName(child.name), found)

    def _collect_queue(self, name: ClusterQueueName, found: list[Candidate]) -> None:
        queue = self._search.world.cluster_queues[name]
        policy = self._search.queue.value.preemption.reclaim_within_cohort
        found += [
            Candidate(holding, self._variant(holding), self._ancestor)
            for holding in self._search.candidates(queue, policy)
        ]

    def _variant(self, holding: Holding) -> Variant:
        if self._advantage:
            return Variant.HIERARCHICAL_RECLAIM
        borrow_within_cohort = self._search.queue.value.preemption.borrow_within_cohort
        if borrow_within_cohort is None:
            return Variant.RECLAIM_WITHOUT_BORROWING
        priority = holding.workload.priority
        threshold = borrow_within_cohort.max_priority_threshold
        if priority >= self._search.workload.priority or (threshold is not None and priority > threshold):
            return Variant.RECLAIM_WITHOUT_BORROWING
        return Variant.RECLAIM_WHILE_BORROWING


def _ordered(search: Search, found: list[Candidate]) -> list[Candidate]:
    if len(found) <= 1:
        return found
    by_key = {candidate.holding.key: candidate for candidate in found}
    return [by_key[holding.key] for holding in search.ordered(candidate.holding for candidate in found)]


def _sequence(*lists: list[Candidate]) -> list[Candidate]:
    """Those already evicted first, over all lists."""
    return [
        candidate
        for evicted in (True, False)
        for candidates in lists
        for candidate in candidates
        if candidate.holding.evicted is evicted
    ]
