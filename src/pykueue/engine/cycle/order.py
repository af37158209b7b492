"""Step 3 of the cycle: who goes first.

Workloads that hold their quota and look for places come first. Classical: within nominal before borrowing, then priority, then age. With fair sharing a tournament over each cohort
tree, run anew after every entry, for each admission changes the shares.
"""

from collections.abc import Iterator

from pykueue.engine.cycle.entries import Entry
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.quota.fair_sharing import DominantResourceShare
from pykueue.engine.world import World


def ordered(world: World, entries: list[Entry]) -> Iterator[Entry]:
    """Yields entries one at a time; what happens to one may change who comes next."""
    first = [entry for entry in entries if entry.attempt]
    if first:
        first.sort(key=lambda entry: _second_pass_key(world, entry))
        yield from first
        entries = [entry for entry in entries if not entry.attempt]
    if world.policy.fair_sharing is None:
        yield from sorted(entries, key=lambda entry: _classical_key(world, entry))
    else:
        yield from _by_tournament(world, entries)


def _classical_key(world: World, entry: Entry) -> tuple[bool, int, int, tuple[int, str, str]]:
    assert entry.assignment is not None
    priority, timestamp_ns, uid, key = entry.pending.order
    return (
        world.policy.prioritize_preemptor_workloads and not entry.is_preemptor,
        entry.assignment.borrowing,
        priority if world.policy.priority_sorting_within_cohort else 0,
        (timestamp_ns, uid, key),
    )


def _second_pass_key(world: World, entry: Entry) -> tuple[int, int]:
    """Of those alike the one whose turn came first is first, as they were taken."""
    priority, timestamp_ns, _, _ = entry.pending.order
    return priority if world.policy.priority_sorting_within_cohort else 0, timestamp_ns


def _by_tournament(world: World, entries: list[Entry]) -> Iterator[Entry]:
    waiting = {str(entry.queue.name): entry for entry in sorted(entries, key=lambda entry: entry.queue.name)}
    while waiting:
        first = next(iter(waiting.values()))
        winner = first if first.queue.node.parent is None else _Tournament(world, waiting, first.queue.node.root).winner
        del waiting[winner.queue.name]
        yield winner


class _Tournament:
    """At each cohort the child with the least share wins, counting the workload that it sends."""

    def __init__(self, world: World, waiting: dict[str, Entry], root: quota_tree.QuotaNode) -> None:
        self._world = world
        self._waiting = waiting
        self._shares: dict[tuple[int, str], DominantResourceShare] = {}
        for node in quota_tree.subtree_cluster_queues(root):
            entry = waiting.get(node.name)
            if entry is not None:
                self._compute_shares(entry)
        winner = self._best(root)
        assert winner is not None
        self.winner: Entry = winner

    def _compute_shares(self, entry: Entry) -> None:
        assert entry.assignment is not None
        node = entry.queue.node
        with self._world.ledger.trial():
            self._world.ledger.charge(node, entry.assignment.usage)
            for ancestor, found in fair_sharing.shares_to_root(self._world.tree, node):
                self._shares[id(ancestor), node.name] = found

    def _best(self, cohort: quota_tree.QuotaNode) -> Entry | None:
        candidates = []
        for child in cohort.children.values():
            found = self._waiting.get(child.name) if child.is_cluster_queue else self._best(child)
            if found is not None:
                candidates.append(found)
        return min(candidates, key=lambda entry: self._key(cohort, entry), default=None)

    def _key(
        self, cohort: quota_tree.QuotaNode, entry: Entry
    ) -> tuple[bool, bool, tuple[bool, float], int, tuple[int, str, str]]:
        assert entry.assignment is not None
        policy = self._world.policy
        found = self._shares[id(cohort), entry.queue.name]
        priority, timestamp_ns, uid, key = entry.pending.order
        return (
            policy.prioritize_preemptor_workloads and not entry.is_preemptor,
            policy.fair_sharing_prioritize_non_borrowing and found.is_borrowing_on(entry.assignment.usage),
            found.rank,
            priority if policy.priority_sorting_within_cohort else 0,
            (timestamp_ns, uid, key),
        )
