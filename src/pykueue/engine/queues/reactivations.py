"""Which cohort trees are to try their inadmissible workloads again, and when.

Kueue collects changes for a second before it tries inadmissible workloads again. The engine tries
them in the next cycle, unless a workload that had just arrived preempted others in the same tree
lately. Then it collects changes as Kueue does: more such workloads may come, and what used the gap
until then would be preempted as soon as it runs. `EngineState` calls this.
"""

from pykueue.engine.quota.quota_tree import NodeKey

ARRIVAL_INTERVALS = 2
"""A workload has just arrived for so many intervals; its creation is known to the second."""
CONTENTION_INTERVALS = 10
"""For how many intervals a preemption is remembered."""


class Reactivations:
    def __init__(self) -> None:
        self._since_ns: dict[NodeKey, int] = {}
        """Roots of the trees to reactivate, and the time of the first change."""
        self._preempted_ns: dict[NodeKey, int] = {}
        """When an arrival last preempted others in a tree."""
        self._at_ns = 0
        """When the last cycle was due; earlier than before if the clock was set back."""
        self._interval_ns = 0

    def begin_cycle(self, at_ns: int, interval_ns: int) -> None:
        self._at_ns, self._interval_ns = at_ns, interval_ns

    def add(self, tree: NodeKey, now_ns: int) -> None:
        self._since_ns.setdefault(tree, now_ns)

    def preempted(self, tree: NodeKey, created_at_ns: int) -> None:
        """A workload that was created at this time preempts others."""
        if self._at_ns - created_at_ns < ARRIVAL_INTERVALS * self._interval_ns:
            self._preempted_ns[tree] = self._at_ns

    def pop_due(self) -> list[NodeKey]:
        """The trees to reactivate in the last cycle that began."""
        due = [tree for tree, since_ns in self._since_ns.items() if not self._waits(tree, since_ns)]
        for tree in due:
            del self._since_ns[tree]
        return due

    def _waits(self, tree: NodeKey, since_ns: int) -> bool:
        preempted_ns = self._preempted_ns.get(tree)
        if preempted_ns is None:
            return False
        if not 0 <= self._at_ns - preempted_ns < CONTENTION_INTERVALS * self._interval_ns:
            del self._preempted_ns[tree]
            return False
        return 0 <= self._at_ns - since_ns < self._interval_ns

    @property
    def next_due_ns(self) -> int | None:
        """When a tree is to be reactivated even if nothing else happens."""
        since_ns = [since_ns for tree, since_ns in self._since_ns.items() if tree in self._preempted_ns]
        return min(since_ns) + self._interval_ns if since_ns else None

    def trees(self) -> tuple[NodeKey, ...]:
        """Trees that are remembered because of a preemption."""
        return tuple(self._preempted_ns)

    def forget(self, tree: NodeKey) -> None:
        """The root has a parent now, or does not exist any more."""
        self._preempted_ns.pop(tree, None)
