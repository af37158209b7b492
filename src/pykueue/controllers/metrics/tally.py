"""Who waits and who holds what in a cluster queue and in its local queues: counted in one pass, and again only after a change.

Read by the gauges at each scrape, so that a scrape costs what changed since the last one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykueue.engine import values
from pykueue.engine.view import ClusterQueueView, EngineView


@dataclass(slots=True, kw_only=True)
class Tally:
    active: int = 0
    """In the heap."""
    inadmissible: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[values.FlavorResource] = field(default_factory=Counter)
    used: Counter[values.FlavorResource] = field(default_factory=Counter)
    """Reserved by admitted workloads."""


@dataclass(slots=True, kw_only=True)
class QueueTally(Tally):
    version: tuple[int, int]
    wanted: Counter[values.ResourceName] = field(default_factory=Counter)
    """Asked for by those who wait."""
    local_queues: dict[values.LocalQueueKey, Tally] = field(default_factory=lambda: defaultdict(Tally))


class Tallies:
    def __init__(self, view: EngineView) -> None:
        self._view = view
        self._queues: list[ClusterQueueView] = []
        self._known: dict[values.ClusterQueueName, QueueTally] = {}

    def refresh(self) -> None:
        """Count again where something changed, and forget queues that are gone."""
        self._queues = self._view.cluster_queues()
        self._known = {queue.name: self._current(queue) for queue in self._queues}

    def __iter__(self) -> Iterator[tuple[ClusterQueueView, QueueTally]]:
        return ((queue, self._known[queue.name]) for queue in self._queues)

    def of(self, name: values.ClusterQueueName) -> QueueTally | None:
        return self._known.get(name)

    def _current(self, queue: ClusterQueueView) -> QueueTally:
        known = self._known.get(queue.name)
        return known if known is not None and known.version == queue.version else _counted(self._view, queue)


def _counted(view: EngineView, queue: ClusterQueueView) -> QueueTally:
    tally = QueueTally(version=queue.version)
    for workload, is_inadmissible in view.pending(queue.name):
        for each in (tally, tally.local_queues[workload.local_queue]):
            each.active += not is_inadmissible
            each.inadmissible += is_inadmissible
        for pod_set in workload.pod_sets:
            tally.wanted.update(pod_set.requests)
    for reservation in view.reservations(queue.name):
        for each in (tally, tally.local_queues[reservation.workload.local_queue]):
            each.reserving += 1
            each.reserved.update(reservation.usage)
            if reservation.workload.admitted:
                each.admitted += 1
                each.used.update(reservation.usage)
    return tally
