"""Who waits and who holds what in a cluster queue and in its local
queues: counted in one pass, and again only after a change.

Read by the gauges at each scrape, so that a scrape costs what changed since the last one.
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
    """In the heap."""
    parked: int = 0
    reserving: int = 0
    admitted: int = 0
    reserved: Counter[quota_tree.Index] = field(default_factory=Counter)
    used: Counter[quota_tree.Index] = field(default_factory=Counter)
    """Reserved by admitted workloads."""


@dataclass(slots=True, kw_only=True)
class ClusterQueueCounts(QueueCounts):
    version: tuple[int, int]
    wanted: Counter[values.ResourceName] = field(default_factory=Counter)
    """Asked for by those who wait."""
    local_queues: dict[values.LocalQueueKey, QueueCounts] = field(default_factory=lambda: defaultdict(QueueCounts))


class CountsByQueue:
    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[values.ClusterQueueName, ClusterQueueCounts] = {}

    def refresh(self) -> None:
        """Count again where something changed, and forget queues that are gone."""
        queues = self._world.cluster_queues
        self._known = {name: self._current(state) for name, state in sorted(queues.items())}

    def __iter__(self) -> Iterator[tuple[ClusterQueueState, ClusterQueueCounts]]:
        return ((self._world.cluster_queues[name], tally) for name, tally in self._known.items())

    def of(self, name: values.ClusterQueueName) -> ClusterQueueCounts | None:
        return self._known.get(name)

    def _current(self, state: ClusterQueueState) -> ClusterQueueCounts:
        version = (state.pending.version, state.holdings.version)
        known = self._known.get(state.name)
        return known if known is not None and known.version == version else _counted(state, version)


def _counted(state: ClusterQueueState, version: tuple[int, int]) -> ClusterQueueCounts:
    tally = ClusterQueueCounts(version=version)
    for pending in state.pending:
        is_parked = state.pending.is_parked(pending.key)
        for each in (tally, tally.local_queues[pending.workload.local_queue]):
            each.active += not is_parked
            each.parked += is_parked
        for pod_set in pending.workload.pod_sets:
            tally.wanted.update(pod_set.requests)
    for holding in state.holdings:
        for each in (tally, tally.local_queues[holding.workload.local_queue]):
            each.reserving += 1
            each.reserved.update(holding.usage)
            if holding.workload.admitted:
                each.admitted += 1
                each.used.update(holding.usage)
    return tally
