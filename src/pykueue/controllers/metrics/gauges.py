"""What is now, of cluster queues: gauges read from the engine at each scrape. The others are in the modules beside this one."""

import math
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import pykueue
from pykueue.controllers.metrics.catalog import BUILD_INFO
from pykueue.controllers.metrics.cohort_gauges import CohortGauges
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.local_queue_gauges import LocalQueueGauges
from pykueue.controllers.metrics.tally import Tallies
from pykueue.engine.reasons import InactiveReason
from pykueue.engine.view import EngineView
from pykueue.translate import amounts


class Gauges(Collector):
    """`look` reads the engine; `collect` shows what was seen, to any thread."""

    def __init__(
        self,
        view: EngineView,
        instruments: Instruments,
        *,
        local_queues: LocalQueueGauges,
        shows_resources: bool,
        shows_cohorts: bool,
    ) -> None:
        self._view = view
        self._instruments = instruments
        self._tallies = Tallies(view)
        self._local_queues = local_queues
        self._cohorts = CohortGauges(view, instruments, self._tallies)
        self._shows_resources = shows_resources
        self._shows_cohorts = shows_cohorts
        self._seen: list[Metric] = []
        instruments.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return self._seen

    def look(self) -> None:
        self._tallies.refresh()
        self._seen = list(self._look())

    def _look(self) -> Iterator[Metric]:
        yield _build()
        yield from self._counts()
        yield self._status()
        yield self._skips()
        if self._shows_resources:
            yield from self._resources()
            yield from self._shares()
        if self._shows_cohorts:
            yield self._places()
            yield from self._cohorts.look()
        yield from self._cohorts.shares()
        yield from self._local_queues.look(self._tallies)

    def _counts(self) -> Iterator[Metric]:
        """All of an inactive queue count as inadmissible."""
        gauge = self._instruments.gauge
        pending, reserving = gauge("pending_workloads"), gauge("reserving_active_workloads")
        finished = gauge("finished_workloads")
        for state, tally in self._tallies:
            active = tally.active if state.is_active else 0
            pending.add(state.name, "active", value=active)
            pending.add(state.name, "inadmissible", value=tally.active + tally.inadmissible - active)
            reserving.add(state.name, value=tally.reserving)
            finished.add(state.name, value=self._local_queues.finished_in(state.name))
        yield from (pending.family, reserving.family, finished.family, self._admitted())

    def _admitted(self) -> Metric:
        admitted = self._instruments.gauge("admitted_active_workloads")
        custom = self._instruments.custom
        for state, tally in self._tallies:
            if not custom.reads_workloads:
                admitted.add(state.name, value=tally.admitted)
                continue
            by_labels: dict[tuple[str, ...], int] = {}
            for reservation in self._view.reservations(state.name):
                if reservation.workload.admitted:
                    labels = custom.of_workload(reservation.workload.key)
                    by_labels[labels] = by_labels.get(labels, 0) + 1
            for labels, count in sorted(by_labels.items()):
                admitted.add(state.name, value=count, of_workload=labels)
        return admitted.family

    def _status(self) -> Metric:
        gauge = self._instruments.gauge("cluster_queue_status")
        for state, _ in self._tallies:
            is_ending = any(found.reason is InactiveReason.TERMINATING for found in state.inactivity)
            status = "terminating" if is_ending else "active" if state.is_active else "pending"
            for each in ("pending", "active", "terminating"):
                gauge.add(state.name, each, value=each == status)
        return gauge.family

    def _skips(self) -> Metric:
        gauge = self._instruments.gauge("admission_cycle_preemption_skips")
        names = {state.name for state, _ in self._tallies}
        for name, count in sorted(self._view.skipped_preemptions.items()):
            if name in names:
                gauge.add(name, value=count)
        return gauge.family

    def _places(self) -> Metric:
        gauge = self._instruments.gauge("cluster_queue_info")
        for state, _ in self._tallies:
            path = state.path
            parent, root = (path[-2], path[0]) if len(path) > 1 else ("", "")
            gauge.add(state.name, parent, root, value=1)
        return gauge.family

    def _resources(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        reserved, used = gauge("cluster_queue_resource_reservation"), gauge("cluster_queue_resource_usage")
        nominal, pending = gauge("cluster_queue_nominal_quota"), gauge("cluster_queue_resource_pending")
        borrowing, lending = gauge("cluster_queue_borrowing_limit"), gauge("cluster_queue_lending_limit")
        for state, tally in self._tallies:
            for flavor_resource, quota in state.quotas.items():
                flavor, resource = flavor_resource
                key = (state.value.cohort or "", state.name, flavor, resource)
                reserved.add(*key, value=amounts.as_float(resource, state.usage.get(flavor_resource, 0)))
                used.add(*key, value=amounts.as_float(resource, tally.used[flavor_resource]))
                nominal.add(*key, value=amounts.as_float(resource, quota.nominal))
                for limit, amount in ((borrowing, quota.borrowing_limit), (lending, quota.lending_limit)):
                    limit.add(*key, value=math.inf if amount is None else amounts.as_float(resource, amount))
            for resource in sorted({*state.covered_resources, *tally.wanted}):
                pending.add(state.name, resource, value=amounts.as_float(resource, tally.wanted[resource]))
        yield from (each.family for each in (reserved, used, nominal, borrowing, lending, pending))

    def _shares(self) -> Iterator[Metric]:
        """Who borrows with a weight of zero has a share that is no number."""
        if self._view.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cluster_queue_weighted_share")
        for state, _ in self._tallies:
            if state.share is not None:
                share = state.share.weighted
                gauge.add(state.name, state.value.cohort or "", value=math.nan if share == math.inf else share)
        yield gauge.family


def _build() -> Metric:
    gauge = GaugeMetricFamily(BUILD_INFO.name, BUILD_INFO.about, labels=BUILD_INFO.labels)
    gauge.add_metric([f"v{pykueue.__version__}", "", "", "", "cpython", ""], 1)
    return gauge
