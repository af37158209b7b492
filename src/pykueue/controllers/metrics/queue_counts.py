"""Counts of the workloads and the usage of each ClusterQueue and its LocalQueues, for the gauges.

A queue is counted again only if its version changed, so that a scrape costs what changed since
the last one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.engine.world import World


@dataclass(slots=True, kw_only=True)
class QueueCounts:
    active: int = 0
    """In the heap, which is Kueue's "active"."""
    inadmissible: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[quota_tree.Index] = field(default_factory=Counter)
    used: Counter[quota_tree.Index] = field(default_factory=Counter)
    """The usage of admitted workloads."""


@dataclass(slots=True, kw_only=True)
class ClusterQueueCounts(QueueCounts):
    version: tuple[int, int]
    requested: Counter[values.ResourceName] = field(default_factory=Counter)
    """The requests of the pending workloads."""
    local_queues: dict[values.LocalQueueKey, QueueCounts] = field(default_factory=lambda: defaultdict(QueueCounts))


class CountsByQueue:
    """The counts of every ClusterQueue."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counts: dict[values.ClusterQueueName, ClusterQueueCounts] = {}

    def refresh(self) -> None:
        """Counts the queues that changed, and drops deleted ones."""
        queues = self._world.cluster_queues
        self._counts = {name: self._current(state) for name, state in sorted(queues.items())}

    def __iter__(self) -> Iterator[tuple[ClusterQueueState, ClusterQueueCounts]]:
        return ((self._world.cluster_queues[name], counts) for name, counts in self._counts.items())

    def of(self, name: values.ClusterQueueName) -> ClusterQueueCounts | None:
        return self._counts.get(name)

    def _current(self, state: ClusterQueueState) -> ClusterQueueCounts:
        version = (state.pending.version, state.holdings.version)
        counted = self._counts.get(state.name)
        return counted if counted is not None and counted.version == version else _counted(state, version)


def _counted(state: ClusterQueueState, version: tuple[int, int]) -> ClusterQueueCounts:
    counts = ClusterQueueCounts(version=version)
    for pending in state.pending:
        is_inadmissible = state.pending.is_parked(pending.key)
        for queue_counts in (counts, counts.local_queues[pending.workload.local_queue]):
            queue_counts.active += not is_inadmissible
            queue_counts.inadmissible += is_inadmissible
        for pod_set in pending.workload.pod_sets:
            counts.requested.update(pod_set.requests)
    for reservation in state.holdings:
        for queue_counts in (counts, counts.local_queues[reservation.workload.local_queue]):
            queue_counts.reserving += 1
            queue_counts.reserved.update(reservation.usage)
            if reservation.workload.admitted:
                queue_counts.admitted += 1
                queue_counts.used.update(reservation.usage)
    return counts
