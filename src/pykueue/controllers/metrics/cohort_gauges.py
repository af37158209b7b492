"""What is now, of cohorts: their place, their share, and the sums over everything below them. Part of `gauges`."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.tally import Tallies
from pykueue.engine import values
from pykueue.engine.view import EngineView
from pykueue.translate import amounts


class CohortGauges:
    def __init__(self, view: EngineView, instruments: Instruments, tallies: Tallies) -> None:
        self._view = view
        self._instruments = instruments
        self._tallies = tallies

    def look(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        places, admitted = gauge("cohort_info"), gauge("cohort_subtree_admitted_active_workloads")
        quotas, reserved = gauge("cohort_subtree_quota"), gauge("cohort_subtree_resource_reservations")
        sums = self._sums()
        for cohort in self._view.cohorts():
            parent = cohort.path[-2] if len(cohort.path) > 1 else ""
            places.add(cohort.name, parent, cohort.path[0], value=1)
            below = sums.get(cohort.name)
            admitted.add(cohort.name, value=below.admitted if below else 0)
            for family, usage in ((quotas, cohort.subtree_quota), (reserved, below.usage if below else {})):
                for (flavor, resource), amount in sorted(usage.items()):
                    if amount > 0:
                        family.add(cohort.name, flavor, resource, value=amounts.as_float(resource, amount))
        yield from (places.family, admitted.family, quotas.family, reserved.family)

    def shares(self) -> Iterator[Metric]:
        if self._view.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cohort_weighted_share")
        for cohort in self._view.cohorts():
            if cohort.share is not None:
                gauge.add(cohort.name, value=cohort.share.weighted)
        yield gauge.family

    def _sums(self) -> dict[str, "_Sum"]:
        sums: dict[str, _Sum] = {}
        for queue, tally in self._tallies:
            for cohort in queue.path[:-1]:
                below = sums.setdefault(cohort, _Sum())
                below.admitted += tally.admitted
                below.usage.update(queue.usage)
        return sums


class _Sum:
    __slots__ = ("admitted", "usage")

    def __init__(self) -> None:
        self.admitted = 0
        self.usage: Counter[values.FlavorResource] = Counter()
