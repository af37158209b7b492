"""The classical preemption search: lower priority in the own queue, reclaim from borrowers in the cohort.

Candidates of a subtree in which the request fits by quota are taken with the right of the owner (hierarchical
advantage); the others only while not borrowing, unless `borrowWithinCohort` allows more.
"""

import enum
import heapq
from collections.abc import Iterator
from typing import NamedTuple

from pykueue.engine.preemption import search as preemption
from pykueue.engine.preemption.search import Search, Target
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.reservations import Reservation
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
    holding: Reservation
    variant: Variant
    common_ancestor: quota_tree.QuotaNode | None


class Source(NamedTuple):
    """One cluster queue to take from, and with what right."""

    queue: ClusterQueueState
    common_ancestor: quota_tree.QuotaNode | None = None
    advantage: bool = False


Stream = Iterator[tuple[tuple[bool, int, int, str, str], Candidate]]


def find_targets(search: Search) -> list[Target]:
    forbidden = search.queue.value.preemption.borrow_within_cohort is None
    # It would borrow and may not preempt for that: then only hierarchical advantage gives a claim on others.
    only_by_right = forbidden and not _is_under_nominal(search)
    hierarchy, priority = _cohort_sources(search, by_right=only_by_right)
    walk = _Walk(search, hierarchy, priority, _own_source(search))
    by_hierarchy = walk.exists(walk.hierarchy)
    from_others = by_hierarchy or walk.exists(walk.priority)
    if not from_others and not walk.exists(walk.own):
        return []
    if only_by_right or not from_others:
        attempts: tuple[bool, ...] = (True,)
    elif forbidden and not by_hierarchy:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        with search.world.ledger.trial():
            targets = _attempt(search, walk, borrowing=borrowing)
        if targets:
            return targets
    return []


def _is_under_nominal(search: Search) -> bool:
    node = search.queue.node
    return all(node.usage.get(index, 0) < node.nominal.get(index, 0) for index in search.needed)


def _attempt(search: Search, walk: "_Walk", *, borrowing: bool) -> list[Target]:
    targets: list[Target] = []
    for candidate in walk.candidates(borrowing=borrowing):
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
    node: quota_tree.QuotaNode | None = search.world.cluster_queues[candidate.holding.cluster_queue].node
    while node is not None and node is not candidate.common_ancestor:
        if quota_tree.is_within_quota(node, search.needed):
            return False
        node = node.parent
    return True


def _own_source(search: Search) -> list[Source]:
    never = search.queue.value.preemption.within_cluster_queue is PreemptionPolicy.NEVER
    return [] if never else [Source(search.queue)]


def _cohort_sources(search: Search, *, by_right: bool) -> tuple[list[Source], list[Source]]:
    """Queues taken from with hierarchical advantage, and those taken from by priority (unless only `by_right`)."""
    by_hierarchy: list[Source] = []
    by_priority: list[Source] = []
    node = search.queue.node
    if search.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.NEVER:
        return by_hierarchy, by_priority
    advantage, rest = preemption.fits_in_quota(node, search.requests)
    below = node
    for ancestor in quota_tree.ancestors(node):
        found = by_hierarchy if advantage else by_priority
        for borrower in _borrowing_queues(search, ancestor, below) if advantage or not by_right else ():
            queue = search.world.cluster_queues[ClusterQueueName(borrower.name)]
            found.append(Source(queue, ancestor, advantage))
        fits, rest = preemption.fits_in_quota(ancestor, rest)
        advantage = advantage or fits
        below = ancestor
    return by_hierarchy, by_priority


def _borrowing_queues(
    search: Search, cohort: quota_tree.QuotaNode, below: quota_tree.QuotaNode
) -> Iterator[quota_tree.QuotaNode]:
    """In the subtree, not where we come from, nor in cohorts that use no more than their own quota."""
    for child in quota_tree.borrowing_children(cohort, search.needed):
        if child is below:
            continue
        if not child.is_cluster_queue:
            yield from _borrowing_queues(search, child, below)
        elif child.participates:
            yield child


class _Walk:
    """Candidates in the order in which they are taken: over all lists those already evicted come first.

    Each cluster queue keeps its holdings in order, so the lists are merged lazily; only admission fair sharing, which
    orders by the usage of local queues, needs to sort.
    """

    def __init__(self, search: Search, hierarchy: list[Source], priority: list[Source], own: list[Source]) -> None:
        self._search = search
        self.hierarchy = hierarchy
        self.priority = priority
        self.own = own
        self._sorts = search.world.policy.admission_fair_sharing is not None

    def candidates(self, *, borrowing: bool) -> Iterator[Candidate]:
        """Without `borrowWithinCohort`, a borrower cannot take by priority: those are not even looked at."""
        takes_by_priority = not borrowing or self._search.queue.value.preemption.borrow_within_cohort is not None
        lists = (self.hierarchy, self.priority, self.own) if takes_by_priority else (self.hierarchy, self.own)
        for evicted in (True, False):
            for sources in lists:
                if self._sorts:
                    yield from self._sorted(sources, evicted=evicted)
                elif len(sources) == 1:
                    yield from (candidate for _, candidate in self._stream(sources[0], evicted=evicted))
                else:
                    streams = [self._stream(source, evicted=evicted) for source in sources]
                    yield from (candidate for _, candidate in heapq.merge(*streams))

    def exists(self, sources: list[Source]) -> bool:
        return any(
            next(self._stream(source, evicted=evicted), None) is not None
            for source in sources
            for evicted in (True, False)
        )

    def _stream(self, source: Source, *, evicted: bool) -> Stream:
        search = self._search
        policies = search.queue.value.preemption
        own = source.queue is search.queue
        policy = policies.within_cluster_queue if own else policies.reclaim_within_cohort
        choose = search.evicted_candidates if evicted else search.staying_candidates
        for holding in choose(source.queue, policy):
            yield holding.order, Candidate(holding, self._variant(source, holding), source.common_ancestor)

    def _sorted(self, sources: list[Source], *, evicted: bool) -> list[Candidate]:
        found = {
            candidate.holding.key: candidate
            for source in sources
            for _, candidate in self._stream(source, evicted=evicted)
        }
        return [found[holding.key] for holding in self._search.ordered(each.holding for each in found.values())]

    def _variant(self, source: Source, holding: Reservation) -> Variant:
        search = self._search
        if source.queue is search.queue:
            return Variant.WITHIN_CLUSTER_QUEUE
        if source.advantage:
            return Variant.HIERARCHICAL_RECLAIM
        borrow_within_cohort = search.queue.value.preemption.borrow_within_cohort
        if borrow_within_cohort is None:
            return Variant.RECLAIM_WITHOUT_BORROWING
        priority = holding.workload.priority
        threshold = borrow_within_cohort.max_priority_threshold
        if priority >= search.workload.priority or (threshold is not None and priority > threshold):
            return Variant.RECLAIM_WITHOUT_BORROWING
        return Variant.RECLAIM_WHILE_BORROWING
