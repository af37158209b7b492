"""Which cohort trees are to try their inadmissible workloads again, and when.

Kueue collects changes for a second before it tries inadmissible workloads again. The engine tries
them in the next cycle, unless an arrival preempted others in the same tree lately. Then workloads
like the preempted ones wait as in Kueue: the quota that has become free may be for the next
arrival, which would preempt them as soon as they run. Workloads of higher priority are tried at
once, because they are not in this danger. `EngineState` calls this.
"""

from typing import NamedTuple

from pykueue.engine.quota.quota_tree import NodeKey

ARRIVAL_INTERVALS = 10
"""For how many intervals a workload counts as an arrival. To preempt may take several cycles."""
CONTENTION_INTERVALS = 10
"""For how many intervals a preemption is remembered."""


class Reactivation(NamedTuple):
    tree: NodeKey
    above: int | None
    """Only workloads of higher priority than this are tried again; None means all."""


class _Preemption(NamedTuple):
    at_ns: int
    priority: int
    """The highest priority of the preempted workloads."""


class Reactivations:
    def __init__(self) -> None:
        self._since_ns: dict[NodeKey, int] = {}
        """Roots of the trees to reactivate, and the time of the first change."""
        self._changed: dict[NodeKey, None] = {}
        """Those that changed since the last cycle."""
        self._preemptions: dict[NodeKey, _Preemption] = {}
        """The last preemption by an arrival in each tree."""
        self._at_ns = 0
        """When the last cycle was due; earlier than before if the clock was set back."""
        self._interval_ns = 0

    def begin_cycle(self, at_ns: int, interval_ns: int) -> None:
        self._at_ns, self._interval_ns = at_ns, interval_ns

    def add(self, tree: NodeKey, now_ns: int) -> None:
        self._since_ns.setdefault(tree, now_ns)
        self._changed[tree] = None

    def preempted(self, tree: NodeKey, *, preemptor_created_ns: int, priority: int) -> None:
        """A workload of this priority is preempted."""
        if self._at_ns - preemptor_created_ns < ARRIVAL_INTERVALS * self._interval_ns:
            before = self._preemptions.get(tree)
            highest = priority if before is None else max(priority, before.priority)
            self._preemptions[tree] = _Preemption(self._at_ns, highest)

    def pop_due(self) -> list[Reactivation]:
        """The trees to reactivate in the cycle that begins."""
        due = []
        for tree, since_ns in list(self._since_ns.items()):
            above = self._limit(tree, since_ns)
            if above is None:
                del self._since_ns[tree]
            if above is None or tree in self._changed:
                due.append(Reactivation(tree, above))
        self._changed = {}
        return due

    def _limit(self, tree: NodeKey, since_ns: int) -> int | None:
        """The priority up to which workloads wait for more changes; None if none of them waits."""
        last = self._preemptions.get(tree)
        if last is None:
            return None
        if not 0 <= self._at_ns - last.at_ns < CONTENTION_INTERVALS * self._interval_ns:
            del self._preemptions[tree]
            return None
        return last.priority if 0 <= self._at_ns - since_ns < self._interval_ns else None

    @property
    def next_due_ns(self) -> int | None:
        """When a tree is to be reactivated even if nothing else happens."""
        since_ns = [since_ns for tree, since_ns in self._since_ns.items() if tree in self._preemptions]
        return min(since_ns) + self._interval_ns if since_ns else None

    def trees(self) -> tuple[NodeKey, ...]:
        """Trees that are remembered because of a preemption."""
        return tuple(self._preemptions)

    def forget(self, tree: NodeKey) -> None:
        """The root has a parent now, or does not exist any more."""
        self._preemptions.pop(tree, None)
