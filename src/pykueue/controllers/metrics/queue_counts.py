"""Counts of the workloads and the usage of each ClusterQueue and its LocalQueues, for the gauges.

A queue is counted again only if its version changed, so that a scrape costs what changed since
the last one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.view import ClusterQueueView, EngineView


@dataclass(slots=True, kw_only=True)
class QueueCounts:
    active: int = 0
    """In the heap, which is Kueue's "active"."""
    inadmissible: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[values.FlavorResource] = field(default_factory=Counter)
    used: Counter[values.FlavorResource] = field(default_factory=Counter)
    """The usage of admitted workloads."""


@dataclass(slots=True, kw_only=True)
class ClusterQueueCounts(QueueCounts):
    version: tuple[int, int, int]
    requested: Counter[values.ResourceName] = field(default_factory=Counter)
    """The requests of the pending workloads."""
    local_queues: dict[values.LocalQueueKey, QueueCounts] = field(default_factory=lambda: defaultdict(QueueCounts))


class CountsByQueue:
    """The counts of every ClusterQueue."""

    def __init__(self, view: EngineView) -> None:
        self._view = view
        self._queues: list[ClusterQueueView] = []
        self._counts: dict[values.ClusterQueueName, ClusterQueueCounts] = {}

    def refresh(self) -> None:
        """Counts the queues that changed, and drops deleted ones."""
        self._queues = self._view.cluster_queues()
        self._counts = {queue.name: self._current(queue) for queue in self._queues}

    def __iter__(self) -> Iterator[tuple[ClusterQueueView, ClusterQueueCounts]]:
        return ((queue, self._counts[queue.name]) for queue in self._queues)

    def of(self, name: values.ClusterQueueName) -> ClusterQueueCounts | None:
        return self._counts.get(name)

    def _current(self, queue: ClusterQueueView) -> ClusterQueueCounts:
        counted = self._counts.get(queue.name)
        return counted if counted is not None and counted.version == queue.version else _counted(self._view, queue)


def _counted(view: EngineView, queue: ClusterQueueView) -> ClusterQueueCounts:
    counts = ClusterQueueCounts(version=queue.version)
    for workload, is_inadmissible in view.pending(queue.name):
        for queue_counts in (counts, counts.local_queues[workload.local_queue]):
            queue_counts.active += not is_inadmissible
            queue_counts.inadmissible += is_inadmissible
        for pod_set in workload.pod_sets:
            counts.requested.update(pod_set.requests)
    for reservation in view.reservations(queue.name):
        for queue_counts in (counts, counts.local_queues[reservation.workload.local_queue]):
            queue_counts.reserving += 1
            queue_counts.reserved.update(reservation.usage)
            if reservation.workload.admitted:
                queue_counts.admitted += 1
                queue_counts.used.update(reservation.usage)
    return counts
