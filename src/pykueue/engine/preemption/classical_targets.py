"""The classical search for preemption targets: lower priority in the own queue, and borrowers in
the cohort.

If the request fits in the quota of a subtree, its cluster queue has a hierarchical advantage over
the borrowers of that subtree and preempts them regardless of priority. Other borrowers are
preempted only while the preemptor does not borrow, unless `borrowWithinCohort` allows more.
"""

import enum
import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykueue.engine.preemption import flat_search
from pykueue.engine.preemption import target_search as preemption
from pykueue.engine.preemption.shared_candidates import BorrowerCandidates
from pykueue.engine.preemption.target_search import PreemptionSearch, PreemptionTarget
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.quota.amounts import UNLIMITED
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import PreemptionReason
from pykueue.engine.values import ClusterQueueName, PreemptionPolicy


class ReclaimVariant(enum.Enum):
    WITHIN_CLUSTER_QUEUE = enum.auto()
    HIERARCHICAL_RECLAIM = enum.auto()
    RECLAIM_WITHOUT_BORROWING = enum.auto()
    RECLAIM_WHILE_BORROWING = enum.auto()


_REASONS = {
    ReclaimVariant.WITHIN_CLUSTER_QUEUE: PreemptionReason.IN_CLUSTER_QUEUE,
    ReclaimVariant.HIERARCHICAL_RECLAIM: PreemptionReason.IN_COHORT_RECLAMATION,
    ReclaimVariant.RECLAIM_WITHOUT_BORROWING: PreemptionReason.IN_COHORT_RECLAMATION,
    ReclaimVariant.RECLAIM_WHILE_BORROWING: PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING,
}


class ClassicalCandidate(NamedTuple):
    reservation: Reservation
    variant: ReclaimVariant
    common_ancestor: quota_tree.QuotaNode | None


class CandidateSource(NamedTuple):
    """A cluster queue with candidates, and whether there is a hierarchical advantage over it."""

    queue: ClusterQueueState
    common_ancestor: quota_tree.QuotaNode | None = None
    advantage: bool = False


class SharedSource(NamedTuple):
    """All borrowers of the cohort directly above the preemptor, shared with other preemptors."""

    candidates: BorrowerCandidates
    common_ancestor: quota_tree.QuotaNode
    advantage: bool


Sources = list[CandidateSource] | SharedSource

CandidateStream = Iterator[tuple[tuple[bool, int, int, str, str], ClassicalCandidate]]


def find_targets(search: PreemptionSearch) -> list[PreemptionTarget]:
    forbidden = search.queue.value.preemption.borrow_within_cohort is None
    # A preemptor that would borrow, without borrowWithinCohort, needs a hierarchical advantage.
    only_by_hierarchy = forbidden and not _is_under_nominal(search)
    hierarchy, priority = _shared_source(search, only_by_hierarchy=only_by_hierarchy) or _cohort_sources(
        search, only_by_hierarchy=only_by_hierarchy
    )
    candidates = _Candidates(search, hierarchy, priority, _own_source(search))
    by_hierarchy = candidates.exists(candidates.hierarchy)
    from_others = by_hierarchy or candidates.exists(candidates.priority)
    if not from_others and not candidates.exists(candidates.own):
        return []
    if only_by_hierarchy or not from_others:
        attempts: tuple[bool, ...] = (True,)
    elif forbidden and not by_hierarchy:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        targets = _flat_attempt(search, candidates, borrowing=borrowing)
        if targets is None:
            with search.state.ledger.trial():
                targets = _attempt(search, candidates, borrowing=borrowing)
        if targets:
            return targets
    return []


def _is_under_nominal(search: PreemptionSearch) -> bool:
    node = search.queue.node
    return all(node.usage.get(index, 0) < node.nominal.get(index, 0) for index in search.needed)


def _flat_attempt(
    search: PreemptionSearch, candidates: "_Candidates", *, borrowing: bool
) -> list[PreemptionTarget] | None:
    """The targets of an attempt in plain numbers; None if these would not be exact."""
    source = candidates.shared_source(borrowing=borrowing)
    if source is None or not flat_search.is_exact(search):
        return None
    others = None
    if isinstance(source, SharedSource):
        others = flat_search.sequence(search, source.candidates)
        if others is None:
            return None
    attempt = flat_search.FlatAttempt(search, others, borrowing=borrowing)
    own = {
        evicted: (candidate.reservation for candidate in candidates.of(candidates.own, evicted=evicted))
        for evicted in (True, False)
    }
    return [
        PreemptionTarget(
            reservation,
            PreemptionReason.IN_CLUSTER_QUEUE
            if reservation.cluster_queue == search.queue.name
            else PreemptionReason.IN_COHORT_RECLAMATION,
        )
        for reservation in attempt.targets(own)
    ]


def _attempt(search: PreemptionSearch, candidates: "_Candidates", *, borrowing: bool) -> list[PreemptionTarget]:
    targets: list[PreemptionTarget] = []
    for candidate in candidates.in_order(borrowing=borrowing):
        if not _is_valid(search, candidate, borrowing=borrowing):
            continue
        search.release(candidate.reservation)
        targets.append(PreemptionTarget(candidate.reservation, _REASONS[candidate.variant]))
        if search.fits(borrowing=borrowing):
            return preemption.fill_back(search, targets, borrowing=borrowing)
    return []


def _is_valid(search: PreemptionSearch, candidate: ClassicalCandidate, *, borrowing: bool) -> bool:
    """A candidate of another queue is valid while all nodes below the common cohort borrow."""
    if candidate.variant is ReclaimVariant.WITHIN_CLUSTER_QUEUE:
        return True
    if borrowing and candidate.variant is ReclaimVariant.RECLAIM_WITHOUT_BORROWING:
        return False
    node: quota_tree.QuotaNode | None = search.state.cluster_queues[candidate.reservation.cluster_queue].node
    while node is not None and node is not candidate.common_ancestor:
        if quota_tree.is_within_quota(node, search.needed):
            return False
        node = node.parent
    return True


def _own_source(search: PreemptionSearch) -> list[CandidateSource]:
    never = search.queue.value.preemption.within_cluster_queue is PreemptionPolicy.NEVER
    return [] if never else [CandidateSource(search.queue)]


def _shared_source(search: PreemptionSearch, *, only_by_hierarchy: bool) -> tuple[Sources, Sources] | None:
    """The sources of a queue directly below the root; None unless heads are being nominated."""
    state, cohort = search.state, search.queue.node.parent
    if (
        not state.shared_candidates.is_open
        or cohort is None
        or cohort.parent is not None
        or state.policy.admission_fair_sharing is not None
        or search.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.NEVER
    ):
        return None
    advantage, _ = preemption.fits_in_quota(search.queue.node, search.requests)
    if only_by_hierarchy and not advantage:
        return [], []
    key = (cohort.key, search.needed)
    candidates = state.shared_candidates.by_cohort.get(key)
    if candidates is None:
        borrowers = _borrowing_queues(search, cohort, cohort)
        queues = [state.cluster_queues[ClusterQueueName(borrower.name)] for borrower in borrowers]
        candidates = state.shared_candidates.by_cohort[key] = BorrowerCandidates(queues, search.needed)
    source = SharedSource(candidates, cohort, advantage)
    return (source, []) if advantage else ([], source)


def _cohort_sources(
    search: PreemptionSearch, *, only_by_hierarchy: bool
) -> tuple[list[CandidateSource], list[CandidateSource]]:
    """Queues whose workloads are candidates by hierarchical advantage, and those by priority."""
    by_hierarchy: list[CandidateSource] = []
    by_priority: list[CandidateSource] = []
    node = search.queue.node
    if search.queue.value.preemption.reclaim_within_cohort is PreemptionPolicy.NEVER:
        return by_hierarchy, by_priority
    advantage, rest = preemption.fits_in_quota(node, search.requests)
    below = node
    for ancestor in quota_tree.ancestors(node):
        sources = by_hierarchy if advantage else by_priority
        for borrower in _borrowing_queues(search, ancestor, below) if advantage or not only_by_hierarchy else ():
            queue = search.state.cluster_queues[ClusterQueueName(borrower.name)]
            sources.append(CandidateSource(queue, ancestor, advantage))
        fits, rest = preemption.fits_in_quota(ancestor, rest)
        advantage = advantage or fits
        below = ancestor
    return by_hierarchy, by_priority


def _borrowing_queues(
    search: PreemptionSearch, cohort: quota_tree.QuotaNode, below: quota_tree.QuotaNode
) -> Iterator[quota_tree.QuotaNode]:
    """Borrowing cluster queues of a subtree outside `below`, in cohorts that borrow."""
    for child in quota_tree.borrowing_children(cohort, search.needed):
        if child is below:
            continue
        if not child.is_cluster_queue:
            yield from _borrowing_queues(search, child, below)
        elif child.participates:
            yield child


class _Candidates:
    """Candidates in the order in which they are tried: evicted workloads of all queues first.

    The reservations of every cluster queue are sorted, so they are merged lazily. Only admission
    fair sharing, which orders by the usage of local queues, sorts them again.
    """

    def __init__(
        self,
        search: PreemptionSearch,
        hierarchy: Sources,
        priority: Sources,
        own: Sources,
    ) -> None:
        self._search = search
        self.hierarchy = hierarchy
        self.priority = priority
        self.own = own
        self._sorts = search.state.policy.admission_fair_sharing is not None

    def in_order(self, *, borrowing: bool) -> Iterator[ClassicalCandidate]:
        """Without `borrowWithinCohort`, a borrowing preemptor skips the candidates by priority."""
        takes_by_priority = not borrowing or self._search.queue.value.preemption.borrow_within_cohort is not None
        lists = (self.hierarchy, self.priority, self.own) if takes_by_priority else (self.hierarchy, self.own)
        for evicted in (True, False):
            for sources in lists:
                yield from self.of(sources, evicted=evicted)

    def of(self, sources: Sources, *, evicted: bool) -> Iterable[ClassicalCandidate]:
        """The candidates of some sources in order."""
        if isinstance(sources, SharedSource):
            return self._shared(sources, evicted=evicted)
        if self._sorts:
            return self._sorted(sources, evicted=evicted)
        if len(sources) == 1:
            return (candidate for _, candidate in self._stream(sources[0], evicted=evicted))
        streams = [self._stream(source, evicted=evicted) for source in sources]
        return (candidate for _, candidate in heapq.merge(*streams))

    def shared_source(self, *, borrowing: bool) -> "SharedSource | tuple[()] | None":
        """The source of all candidates of other queues, () without candidates of other queues.

        None if there are several sources, or if the candidates of one are not preempted alike.
        """
        if isinstance(self.hierarchy, SharedSource):
            return self.hierarchy if not self.priority else None
        if self.hierarchy or self._search.queue.value.preemption.borrow_within_cohort is not None:
            return None
        if borrowing or not self.priority:
            return ()
        return self.priority if isinstance(self.priority, SharedSource) else None

    def exists(self, sources: Sources) -> bool:
        if isinstance(sources, SharedSource):
            return any(next(self._shared(sources, evicted=evicted), None) is not None for evicted in (True, False))
        return any(
            next(self._stream(source, evicted=evicted), None) is not None
            for source in sources
            for evicted in (True, False)
        )

    def _stream(self, source: CandidateSource, *, evicted: bool) -> CandidateStream:
        search = self._search
        policies = search.queue.value.preemption
        own = source.queue is search.queue
        policy = policies.within_cluster_queue if own else policies.reclaim_within_cohort
        choose = search.evicted_candidates if evicted else search.staying_candidates
        for reservation in choose(source.queue, policy):
            yield (
                reservation.order,
                ClassicalCandidate(
                    reservation,
                    self._variant(reservation, own=own, advantage=source.advantage),
                    source.common_ancestor,
                ),
            )

    def _shared(self, source: SharedSource, *, evicted: bool) -> Iterator[ClassicalCandidate]:
        """The candidates of other queues that the policy allows."""
        search = self._search
        policy = search.queue.value.preemption.reclaim_within_cohort
        limit = UNLIMITED if evicted or policy is PreemptionPolicy.ANY else search.workload.priority
        for reservation in source.candidates.reservations(evicted=evicted):
            if reservation.workload.priority > limit:
                return
            if reservation.cluster_queue != search.queue.name and search.may_preempt(reservation.workload, policy):
                variant = self._variant(reservation, own=False, advantage=source.advantage)
                yield ClassicalCandidate(reservation, variant, source.common_ancestor)

    def _sorted(self, sources: list[CandidateSource], *, evicted: bool) -> list[ClassicalCandidate]:
        by_key = {
            candidate.reservation.key: candidate
            for source in sources
            for _, candidate in self._stream(source, evicted=evicted)
        }
        ordered = self._search.ordered(candidate.reservation for candidate in by_key.values())
        return [by_key[reservation.key] for reservation in ordered]

    def _variant(self, reservation: Reservation, *, own: bool, advantage: bool) -> ReclaimVariant:
        search = self._search
        if own:
            return ReclaimVariant.WITHIN_CLUSTER_QUEUE
        if advantage:
            return ReclaimVariant.HIERARCHICAL_RECLAIM
        borrow_within_cohort = search.queue.value.preemption.borrow_within_cohort
        if borrow_within_cohort is None:
            return ReclaimVariant.RECLAIM_WITHOUT_BORROWING
        priority = reservation.workload.priority
        threshold = borrow_within_cohort.max_priority_threshold
        if priority >= search.workload.priority or (threshold is not None and priority > threshold):
            return ReclaimVariant.RECLAIM_WITHOUT_BORROWING
        return ReclaimVariant.RECLAIM_WHILE_BORROWING
