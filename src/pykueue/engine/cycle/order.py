"""Step 3 of the cycle: the order in which entries are processed.

Second passes come first. Then, without fair sharing: entries within nominal quota before borrowing
ones, then by priority, then by age. With fair sharing: by a tournament over every cohort tree,
which is run again after every entry, because every admission changes the shares.
"""

from collections.abc import Iterator

from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.quota.fair_sharing import DominantResourceShare
from pykueue.engine.state import EngineState

Age = tuple[int, int, str, str]
"""Timestamp, arrival, uid and key of a workload: its place among workloads of one priority."""


def ordered(state: EngineState, entries: list[CycleEntry]) -> Iterator[CycleEntry]:
    """Yields entries one at a time, because processing one may change the order of the rest."""
    if len(entries) == 1:
        yield entries[0]
        return
    first = [entry for entry in entries if entry.attempt]
    if first:
        first.sort(key=lambda entry: _second_pass_key(state, entry))
        yield from first
        entries = [entry for entry in entries if not entry.attempt]
    if state.policy.fair_sharing is None:
        yield from sorted(entries, key=lambda entry: _classical_key(state, entry))
    else:
        yield from _by_tournament(state, entries)


def _classical_key(state: EngineState, entry: CycleEntry) -> tuple[bool, int, int, Age]:
    assert entry.assignment is not None
    priority = entry.pending.order[0]
    return (
        state.policy.prioritize_preemptor_workloads and not entry.is_preemptor,
        entry.assignment.borrowing,
        priority if state.policy.priority_sorting_within_cohort else 0,
        entry.pending.order[1:],
    )


def _second_pass_key(state: EngineState, entry: CycleEntry) -> tuple[int, int]:
    """Priority, then age.

    The sort is stable, so among equal entries the one that was due first is first.
    """
    priority, timestamp_ns, *_ = entry.pending.order
    return priority if state.policy.priority_sorting_within_cohort else 0, timestamp_ns


def _by_tournament(state: EngineState, entries: list[CycleEntry]) -> Iterator[CycleEntry]:
    waiting = {str(entry.queue.name): entry for entry in sorted(entries, key=lambda entry: entry.queue.name)}
    while waiting:
        first = next(iter(waiting.values()))
        winner = first if first.queue.node.parent is None else _Tournament(state, waiting, first.queue.node.root).winner
        del waiting[winner.queue.name]
        yield winner


class _Tournament:
    """At every cohort the child with the least share wins.

    The shares include the usage of the competing entry.
    """

    def __init__(self, state: EngineState, waiting: dict[str, CycleEntry], root: quota_tree.QuotaNode) -> None:
        self._state = state
        self._waiting = waiting
        self._shares: dict[tuple[int, str], DominantResourceShare] = {}
        for node in quota_tree.subtree_cluster_queues(root):
            entry = waiting.get(node.name)
            if entry is not None:
                self._compute_shares(entry)
        winner = self._best(root)
        assert winner is not None
        self.winner: CycleEntry = winner

    def _compute_shares(self, entry: CycleEntry) -> None:
        assert entry.assignment is not None
        node = entry.queue.node
        with self._state.ledger.trial():
            self._state.ledger.charge(node, entry.assignment.usage)
            for ancestor, share in fair_sharing.shares_to_root(self._state.tree, node):
                self._shares[id(ancestor), node.name] = share

    def _best(self, cohort: quota_tree.QuotaNode) -> CycleEntry | None:
        candidates = []
        for child in cohort.children.values():
            candidate = self._waiting.get(child.name) if child.is_cluster_queue else self._best(child)
            if candidate is not None:
                candidates.append(candidate)
        return min(candidates, key=lambda entry: self._key(cohort, entry), default=None)

    def _key(self, cohort: quota_tree.QuotaNode, entry: CycleEntry) -> tuple[bool, bool, tuple[bool, float], int, Age]:
        assert entry.assignment is not None
        policy = self._state.policy
        share = self._shares[id(cohort), entry.queue.name]
        priority = entry.pending.order[0]
        return (
            policy.prioritize_preemptor_workloads and not entry.is_preemptor,
            policy.fair_sharing_prioritize_non_borrowing and share.is_borrowing_on(entry.assignment.usage),
            share.rank,
            priority if policy.priority_sorting_within_cohort else 0,
            entry.pending.order[1:],
        )
