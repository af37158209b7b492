"""The search for preemption targets under fair sharing: from the queue with the greatest share, if
that is fair.

The search descends from the root into the child with the greatest share until it reaches a cluster
queue. A strategy decides whether preempting a candidate is fair. Shares are computed as if the
preemptor were already admitted.
"""

from collections.abc import Iterator

from pykueue.engine.policy import FairSharingStrategy
from pykueue.engine.preemption import target_search as preemption
from pykueue.engine.preemption.target_search import PreemptionSearch, PreemptionTarget
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.quota.fair_sharing import DominantResourceShare
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import PreemptionReason
from pykueue.engine.values import ClusterQueueName, PreemptionPolicy


def find_targets(search: PreemptionSearch, strategies: tuple[FairSharingStrategy, ...]) -> list[PreemptionTarget]:
    candidates = _candidates(search)
    if not any(candidates.values()):
        return []
    with search.state.ledger.trial():
        search.state.ledger.charge(search.queue.node, search.requests)
        attempt = _Attempt(search, candidates)
        fits = attempt.run_first(strategies[0])
        if not fits and len(strategies) > 1:
            fits = attempt.run_second()
        if not fits:
            return []
        search.state.ledger.release(search.queue.node, search.requests)
        return preemption.fill_back(search, attempt.targets, borrowing=True)


def _candidates(search: PreemptionSearch) -> dict[str, list[Reservation]]:
    """The candidates of each cluster queue in candidate order."""
    policies = search.queue.value.preemption
    candidates: dict[str, list[Reservation]] = {}
    if policies.within_cluster_queue is not PreemptionPolicy.NEVER:
        candidates[search.queue.name] = list(search.candidates(search.queue, policies.within_cluster_queue))
    if search.queue.node.parent is not None and policies.reclaim_within_cohort is not PreemptionPolicy.NEVER:
        for node in _borrowing_queues(search.queue.node.root, search.needed):
            if node is not search.queue.node and node.participates:
                queue = search.state.cluster_queues[ClusterQueueName(node.name)]
                candidates[node.name] = list(search.candidates(queue, policies.reclaim_within_cohort))
    if search.state.policy.admission_fair_sharing is not None:
        return {name: search.ordered(reservations) for name, reservations in candidates.items()}
    return candidates


def _borrowing_queues(
    cohort: quota_tree.QuotaNode, needed: frozenset[quota_tree.Index]
) -> Iterator[quota_tree.QuotaNode]:
    """All borrowing cluster queues of the tree.

    A queue may borrow inside a cohort that does not borrow.
    """
    for child in quota_tree.borrowing_children(cohort, needed):
        if child.is_cluster_queue:
            yield child
    for child in cohort.cohorts():
        yield from _borrowing_queues(child, needed)


class _Attempt:
    def __init__(self, search: PreemptionSearch, candidates: dict[str, list[Reservation]]) -> None:
        self._search = search
        self._target_queues = _TargetQueues(search, candidates)
        self.targets: list[PreemptionTarget] = []
        self._retry: dict[str, list[Reservation]] = {}

    def run_first(self, strategy: FairSharingStrategy) -> bool:
        search, target_queues = self._search, self._target_queues
        within_nominal = search.state.policy.fair_sharing_preempt_within_nominal and quota_tree.is_within_quota(
            search.queue.node, search.needed
        )
        for target in target_queues:
            if target is search.queue or within_nominal:
                own = target is search.queue
                reason = PreemptionReason.IN_CLUSTER_QUEUE if own else PreemptionReason.IN_COHORT_RECLAMATION
                if self._take(target_queues.pop(target), reason):
                    return True
                continue
            preemptor_share, target_share = target_queues.shares(target)
            if preemptor_share.rank[0] and not target_share.rank[0]:
                self._retry.setdefault(target.name, []).extend(target_queues.pop_all(target))
                continue
            while target_queues.has_candidates(target):
                reservation = target_queues.pop(target)
                after = target_queues.share_without(target, reservation)
                if not _is_fair(strategy, preemptor_share, target_share, after):
                    self._retry.setdefault(target.name, []).append(reservation)
                    continue
                if self._take(reservation, PreemptionReason.IN_COHORT_FAIR_SHARING):
                    return True
                break
        return False

    def run_second(self) -> bool:
        """Try the unfair candidates again by the initial shares, at most one per queue."""
        target_queues = self._target_queues = _TargetQueues(self._search, self._retry)
        for target in target_queues:
            preemptor_share, target_share = target_queues.shares(target)
            reservation = target_queues.pop(target)
            fair = preemptor_share.rank < target_share.rank
            if fair and self._take(reservation, PreemptionReason.IN_COHORT_FAIR_SHARING):
                return True
            target_queues.drop(target)
        return False

    def _take(self, reservation: Reservation, reason: PreemptionReason) -> bool:
        """Add a target; returns whether the preemptor fits now.

        Its assumed usage is released for the check.
        """
        search = self._search
        search.release(reservation)
        self._target_queues.usage_changed(reservation)
        self.targets.append(PreemptionTarget(reservation, reason))
        with search.state.ledger.trial():
            search.state.ledger.release(search.queue.node, search.requests)
            return search.fits(borrowing=True)


def _is_fair(
    strategy: FairSharingStrategy,
    preemptor: DominantResourceShare,
    target_before: DominantResourceShare,
    target_after: DominantResourceShare,
) -> bool:
    if strategy is FairSharingStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE:
        return preemptor.rank <= target_after.rank
    return preemptor.rank < target_before.rank


class _TargetQueues:
    """Yields the cluster queue of the next target until no queue has candidates."""

    def __init__(self, search: PreemptionSearch, candidates: dict[str, list[Reservation]]) -> None:
        self._state = search.state
        self._preemptor = search.queue
        self._path = {id(node) for node in quota_tree.ancestors(search.queue.node)}
        self._order = search.order
        self._pruned: set[int] = set()
        self._candidates = {name: list(reversed(reservations)) for name, reservations in candidates.items()}
        self._shares: dict[int, DominantResourceShare] = {}
        """Cached shares; those of a queue and its ancestors are dropped when its usage changes."""

    def __iter__(self) -> Iterator[ClusterQueueState]:
        own = self._preemptor.node
        root = own.root
        while id(root) not in self._pruned:
            if root is own:
                if not self.has_candidates(self._preemptor):
                    return
                yield self._preemptor
                continue
            node = self._next(root)
            if node is not None:
                yield self._state.cluster_queues[ClusterQueueName(node.name)]

    def has_candidates(self, queue: ClusterQueueState) -> bool:
        return bool(self._candidates.get(queue.name))

    def pop(self, queue: ClusterQueueState) -> Reservation:
        return self._candidates[queue.name].pop()

    def pop_all(self, queue: ClusterQueueState) -> list[Reservation]:
        return list(reversed(self._candidates.pop(queue.name)))

    def drop(self, queue: ClusterQueueState) -> None:
        self._pruned.add(id(queue.node))

    def shares(self, target: ClusterQueueState) -> tuple[DominantResourceShare, DominantResourceShare]:
        """The shares of preemptor and target at the children of their lowest common cohort."""
        preemptor_node, target_node = self._below_common_ancestor(target)
        return self._share(preemptor_node), self._share(target_node)

    def share_without(self, target: ClusterQueueState, reservation: Reservation) -> DominantResourceShare:
        with self._state.ledger.trial():
            self._state.ledger.release(target.node, reservation.usage)
            return fair_sharing.share(self._state.tree, self._below_common_ancestor(target)[1])

    def usage_changed(self, reservation: Reservation) -> None:
        node = self._state.cluster_queues[reservation.cluster_queue].node
        self._shares.pop(id(node), None)
        for ancestor in quota_tree.ancestors(node):
            self._shares.pop(id(ancestor), None)

    def _share(self, node: quota_tree.QuotaNode) -> DominantResourceShare:
        share = self._shares.get(id(node))
        if share is None:
            share = self._shares[id(node)] = fair_sharing.share(self._state.tree, node)
        return share

    def _below_common_ancestor(self, target: ClusterQueueState) -> tuple[quota_tree.QuotaNode, quota_tree.QuotaNode]:
        target_node = target.node
        while target_node.parent is not None and id(target_node.parent) not in self._path:
            target_node = target_node.parent
        preemptor_node = self._preemptor.node
        while preemptor_node.parent is not target_node.parent:
            assert preemptor_node.parent is not None
            preemptor_node = preemptor_node.parent
        return preemptor_node, target_node

    def _next(self, cohort: quota_tree.QuotaNode) -> quota_tree.QuotaNode | None:
        """Descend to the greatest share and prune nodes without candidates.

        None if it only pruned.
        """
        queue, queue_share = self._greatest_queue(cohort)
        child, child_share = self._greatest_cohort(cohort)
        if queue is None and child is None:
            self._pruned.add(id(cohort))
            return None
        if child is not None and child_share.rank >= queue_share.rank:
            return self._next(child)
        return queue

    def _greatest_queue(
        self, cohort: quota_tree.QuotaNode
    ) -> tuple[quota_tree.QuotaNode | None, DominantResourceShare]:
        best: quota_tree.QuotaNode | None = None
        best_share = fair_sharing.NEGATIVE
        for node in cohort.cluster_queues():
            if id(node) in self._pruned:
                continue
            share = self._share(node)
            candidates = self._candidates.get(node.name)
            if not candidates or not (share.is_borrowing or node is self._preemptor.node):
                self._pruned.add(id(node))
            elif best is None or share.rank > best_share.rank:
                best, best_share = node, share
            elif share.rank == best_share.rank and self._order(candidates[-1]) < self._order(
                self._candidates[best.name][-1]
            ):
                best = node
        return best, best_share

    def _greatest_cohort(
        self, cohort: quota_tree.QuotaNode
    ) -> tuple[quota_tree.QuotaNode | None, DominantResourceShare]:
        best: quota_tree.QuotaNode | None = None
        best_share = fair_sharing.NEGATIVE
        for node in cohort.cohorts():
            if id(node) in self._pruned:
                continue
            share = self._share(node)
            if not share.is_borrowing and id(node) not in self._path:
                self._pruned.add(id(node))
            elif best is None or share.rank >= best_share.rank:
                best, best_share = node, share
        return best, best_share
