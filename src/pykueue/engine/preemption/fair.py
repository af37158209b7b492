"""The fair preemption search: take from whom has the greatest share, as long as the strategy finds it fair.

From the root the node with the greatest share is descended into until a cluster queue is reached; shares are computed
as if the incoming workload already ran.
"""

from collections.abc import Iterator

from pykueue.engine.policy import FairSharingStrategy
from pykueue.engine.preemption import search as preemption
from pykueue.engine.preemption.search import Search, Target
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.quota.fair_sharing import DominantResourceShare
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import PreemptionReason
from pykueue.engine.values import ClusterQueueName, PreemptionPolicy


def find_targets(search: Search, strategies: tuple[FairSharingStrategy, ...]) -> list[Target]:
    candidates = _candidates(search)
    if not any(candidates.values()):
        return []
    with search.world.ledger.trial():
        search.world.ledger.charge(search.queue.node, search.requests)
        attempt = _Attempt(search, candidates)
        found = attempt.run_first(strategies[0])
        if not found and len(strategies) > 1:
            found = attempt.run_second()
        if not found:
            return []
        search.world.ledger.release(search.queue.node, search.requests)
        return preemption.fill_back(search, attempt.targets, borrowing=True)


def _candidates(search: Search) -> dict[str, list[Reservation]]:
    """Per cluster queue, in candidate order."""
    policies = search.queue.value.preemption
    found: dict[str, list[Reservation]] = {}
    if policies.within_cluster_queue is not PreemptionPolicy.NEVER:
        found[search.queue.name] = list(search.candidates(search.queue, policies.within_cluster_queue))
    if search.queue.node.parent is not None and policies.reclaim_within_cohort is not PreemptionPolicy.NEVER:
        for node in _borrowing_queues(search.queue.node.root, search.needed):
            if node is not search.queue.node and node.participates:
                queue = search.world.cluster_queues[ClusterQueueName(node.name)]
                found[node.name] = list(search.candidates(queue, policies.reclaim_within_cohort))
    if search.world.policy.admission_fair_sharing is not None:
        return {name: search.ordered(holdings) for name, holdings in found.items()}
    return found


def _borrowing_queues(
    cohort: quota_tree.QuotaNode, needed: frozenset[quota_tree.Index]
) -> Iterator[quota_tree.QuotaNode]:
    """Everywhere in the tree: a queue may borrow inside a cohort that does not."""
    for child in quota_tree.borrowing_children(cohort, needed):
        if child.is_cluster_queue:
            yield child
    for child in cohort.cohorts():
        yield from _borrowing_queues(child, needed)


class _Attempt:
    def __init__(self, search: Search, candidates: dict[str, list[Reservation]]) -> None:
        self._search = search
        self._ordering = _TargetQueues(search, candidates)
        self.targets: list[Target] = []
        self._retry: dict[str, list[Reservation]] = {}

    def run_first(self, strategy: FairSharingStrategy) -> bool:
        search, ordering = self._search, self._ordering
        within_nominal = search.world.policy.fair_sharing_preempt_within_nominal and quota_tree.is_within_quota(
            search.queue.node, search.needed
        )
        for target in ordering:
            if target is search.queue or within_nominal:
                own = target is search.queue
                reason = PreemptionReason.IN_CLUSTER_QUEUE if own else PreemptionReason.IN_COHORT_RECLAMATION
                if self._take(ordering.pop(target), reason):
                    return True
                continue
            preemptor_share, target_share = ordering.shares(target)
            if preemptor_share.rank[0] and not target_share.rank[0]:
                self._retry.setdefault(target.name, []).extend(ordering.pop_all(target))
                continue
            while ordering.has_candidates(target):
                holding = ordering.pop(target)
                after = ordering.share_without(target, holding)
                if not _is_fair(strategy, preemptor_share, target_share, after):
                    self._retry.setdefault(target.name, []).append(holding)
                    continue
                if self._take(holding, PreemptionReason.IN_COHORT_FAIR_SHARING):
                    return True
                break
        return False

    def run_second(self) -> bool:
        """What was unfair at first, once more by the initial shares, at most one a queue."""
        ordering = self._ordering = _TargetQueues(self._search, self._retry)
        for target in ordering:
            preemptor_share, target_share = ordering.shares(target)
            holding = ordering.pop(target)
            fair = preemptor_share.rank < target_share.rank
            if fair and self._take(holding, PreemptionReason.IN_COHORT_FAIR_SHARING):
                return True
            ordering.drop(target)
        return False

    def _take(self, holding: Reservation, reason: PreemptionReason) -> bool:
        """Evict it; answer whether the workload now fits (without counting itself twice)."""
        search = self._search
        search.release(holding)
        self._ordering.usage_changed(holding)
        self.targets.append(Target(holding, reason))
        with search.world.ledger.trial():
            search.world.ledger.release(search.queue.node, search.requests)
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
    """Yields, again and again, the cluster queue to take from next, until there is none."""

    def __init__(self, search: Search, candidates: dict[str, list[Reservation]]) -> None:
        self._world = search.world
        self._preemptor = search.queue
        self._path = {id(node) for node in quota_tree.ancestors(search.queue.node)}
        self._order = search.order
        self._pruned: set[int] = set()
        self._candidates = {name: list(reversed(holdings)) for name, holdings in candidates.items()}
        self._shares: dict[int, DominantResourceShare] = {}
        """Known shares; those above a queue are forgotten when its usage changes."""

    def __iter__(self) -> Iterator[ClusterQueueState]:
        own = self._preemptor.node
        root = own.root
        while id(root) not in self._pruned:
            if root is own:
                if not self.has_candidates(self._preemptor):
                    return
                yield self._preemptor
                continue
            found = self._next(root)
            if found is not None:
                yield self._world.cluster_queues[ClusterQueueName(found.name)]

    def has_candidates(self, queue: ClusterQueueState) -> bool:
        return bool(self._candidates.get(queue.name))

    def pop(self, queue: ClusterQueueState) -> Reservation:
        return self._candidates[queue.name].pop()

    def pop_all(self, queue: ClusterQueueState) -> list[Reservation]:
        return list(reversed(self._candidates.pop(queue.name)))

    def drop(self, queue: ClusterQueueState) -> None:
        self._pruned.add(id(queue.node))

    def shares(self, target: ClusterQueueState) -> tuple[DominantResourceShare, DominantResourceShare]:
        """Of preemptor and target, just below the cohort that they have in common."""
        preemptor_node, target_node = self._below_common_ancestor(target)
        return self._share(preemptor_node), self._share(target_node)

    def share_without(self, target: ClusterQueueState, holding: Reservation) -> DominantResourceShare:
        with self._world.ledger.trial():
            self._world.ledger.release(target.node, holding.usage)
            return fair_sharing.share(self._world.tree, self._below_common_ancestor(target)[1])

    def usage_changed(self, holding: Reservation) -> None:
        node = self._world.cluster_queues[holding.cluster_queue].node
        for each in (node, *quota_tree.ancestors(node)):
            self._shares.pop(id(each), None)

    def _share(self, node: quota_tree.QuotaNode) -> DominantResourceShare:
        found = self._shares.get(id(node))
        if found is None:
            found = self._shares[id(node)] = fair_sharing.share(self._world.tree, node)
        return found

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
        """Descend to the greatest share; prune what has nothing to give. None if this round only pruned."""
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
            found = self._share(node)
            candidates = self._candidates.get(node.name)
            if not candidates or not (found.is_borrowing or node is self._preemptor.node):
                self._pruned.add(id(node))
            elif best is None or found.rank > best_share.rank:
                best, best_share = node, found
            elif found.rank == best_share.rank and self._order(candidates[-1]) < self._order(
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
            found = self._share(node)
            if not found.is_borrowing and id(node) not in self._path:
                self._pruned.add(id(node))
            elif best is None or found.rank >= best_share.rank:
                best, best_share = node, found
        return best, best_share
