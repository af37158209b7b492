"""What is now, of cohorts: their place, their share, and the sums over everything below them. Part of `gauges`."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.tally import Tallies
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.world import World
from pykueue.translate import amounts


class CohortGauges:
    def __init__(self, world: World, instruments: Instruments, tallies: Tallies) -> None:
        self._world = world
        self._instruments = instruments
        self._tallies = tallies

    def look(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        places, admitted = gauge("cohort_info"), gauge("cohort_subtree_admitted_active_workloads")
        quotas, reserved = gauge("cohort_subtree_quota"), gauge("cohort_subtree_resource_reservations")
        names = self._world.tree.flavor_resources.names
        sums = self._sums()
        for name, node in sorted(self._world.tree.cohorts.items()):
            parent = node.parent.name if node.parent is not None else ""
            places.add(name, parent, node.root.name, value=1)
            below = sums.get(name)
            admitted.add(name, value=below.admitted if below else 0)
            for family, by_index in ((quotas, node.subtree), (reserved, below.usage if below else {})):
                for index, amount in sorted(by_index.items()):
                    if amount > 0:
                        flavor, resource = names[index].flavor, names[index].resource
                        family.add(name, flavor, resource, value=amounts.as_float(resource, amount))
        yield from (places.family, admitted.family, quotas.family, reserved.family)

    def shares(self) -> Iterator[Metric]:
        if self._world.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cohort_weighted_share")
        for name, node in sorted(self._world.tree.cohorts.items()):
            gauge.add(name, value=fair_sharing.share(self._world.tree, node).weighted)
        yield gauge.family

    def _sums(self) -> dict[str, "_Sum"]:
        sums: dict[str, _Sum] = {}
        for state, tally in self._tallies:
            for ancestor in quota_tree.ancestors(state.node):
                below = sums.setdefault(ancestor.name, _Sum())
                below.admitted += tally.admitted
                below.usage.update(state.node.usage)
        return sums


class _Sum:
    __slots__ = ("admitted", "usage")

    def __init__(self) -> None:
        self.admitted = 0
        self.usage: Counter[quota_tree.Index] = Counter()
