"""The gauges of ClusterQueues and cohorts, read from the engine at each scrape."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import pykueue
from pykueue.controllers.metrics.catalog import BUILD_INFO, LOOP_BLOCKED
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.local_queue_gauges import LocalQueueGauges
from pykueue.controllers.metrics.queue_counts import CountsByQueue
from pykueue.engine import values
from pykueue.engine.reasons import InactiveReason
from pykueue.engine.view import EngineView
from pykueue.kube import loop_watchdog
from pykueue.translate import amounts


class Gauges(Collector):
    """`refresh` reads the engine; `collect` returns the last values and may run in any thread."""

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
        self._counts_by_queue = CountsByQueue(view)
        self._local_queues = local_queues
        self._cohorts = CohortGauges(view, instruments, self._counts_by_queue)
        self._shows_resources = shows_resources
        self._shows_cohorts = shows_cohorts
        self._metrics: list[Metric] = []
        instruments.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def refresh(self) -> None:
        self._counts_by_queue.refresh()
        self._metrics = list(self._read())

    def _read(self) -> Iterator[Metric]:
        yield _build()
        yield _blocked_turns()
        yield from self._workload_counts()
        yield self._status()
        yield self._skips()
        if self._shows_resources:
            yield from self._resources()
            yield from self._shares()
        if self._shows_cohorts:
            yield self._info()
            yield from self._cohorts.read()
        yield from self._cohorts.shares()
        yield from self._local_queues.read(self._counts_by_queue)

    def _workload_counts(self) -> Iterator[Metric]:
        """All pending workloads of an inactive queue count as inadmissible."""
        gauge = self._instruments.gauge
        pending, reserving = gauge("pending_workloads"), gauge("reserving_active_workloads")
        finished = gauge("finished_workloads")
        for state, counts in self._counts_by_queue:
            active = counts.active if state.is_active else 0
            pending.add(state.name, "active", value=active)
            pending.add(state.name, "inadmissible", value=counts.active + counts.inadmissible - active)
            reserving.add(state.name, value=counts.reserving)
            finished.add(state.name, value=self._local_queues.finished_in(state.name))
        yield from (pending.family, reserving.family, finished.family, self._admitted())

    def _admitted(self) -> Metric:
        admitted = self._instruments.gauge("admitted_active_workloads")
        custom = self._instruments.custom
        for state, counts in self._counts_by_queue:
            if not custom.reads_workloads:
                admitted.add(state.name, value=counts.admitted)
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
        for state, _ in self._counts_by_queue:
            is_ending = any(inactivity.reason is InactiveReason.TERMINATING for inactivity in state.inactivity)
            status = "terminating" if is_ending else "active" if state.is_active else "pending"
            for status_label in ("pending", "active", "terminating"):
                gauge.add(state.name, status_label, value=status_label == status)
        return gauge.family

    def _skips(self) -> Metric:
        gauge = self._instruments.gauge("admission_cycle_preemption_skips")
        names = {state.name for state, _ in self._counts_by_queue}
        for name, count in sorted(self._view.skipped_preemptions.items()):
            if name in names:
                gauge.add(name, value=count)
        return gauge.family

    def _info(self) -> Metric:
        gauge = self._instruments.gauge("cluster_queue_info")
        for state, _ in self._counts_by_queue:
            path = state.path
            parent, root = (path[-2], path[0]) if len(path) > 1 else ("", "")
            gauge.add(state.name, parent, root, value=1)
        return gauge.family

    def _resources(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        reserved, used = gauge("cluster_queue_resource_reservation"), gauge("cluster_queue_resource_usage")
        nominal, pending = gauge("cluster_queue_nominal_quota"), gauge("cluster_queue_resource_pending")
        borrowing, lending = gauge("cluster_queue_borrowing_limit"), gauge("cluster_queue_lending_limit")
        for state, counts in self._counts_by_queue:
            for flavor_resource, quota in state.quotas.items():
                flavor, resource = flavor_resource
                key = (state.value.cohort or "", state.name, flavor, resource)
                reserved.add(*key, value=amounts.as_float(resource, state.usage.get(flavor_resource, 0)))
                used.add(*key, value=amounts.as_float(resource, counts.used[flavor_resource]))
                nominal.add(*key, value=amounts.as_float(resource, quota.nominal))
                for limit, amount in ((borrowing, quota.borrowing_limit), (lending, quota.lending_limit)):
                    limit.add(*key, value=math.inf if amount is None else amounts.as_float(resource, amount))
            for resource in sorted({*state.covered_resources, *counts.requested}):
                pending.add(state.name, resource, value=amounts.as_float(resource, counts.requested[resource]))
        yield from (metric.family for metric in (reserved, used, nominal, borrowing, lending, pending))

    def _shares(self) -> Iterator[Metric]:
        """A queue that borrows with a weight of zero has the share NaN."""
        if self._view.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cluster_queue_weighted_share")
        for state, _ in self._counts_by_queue:
            if state.share is not None:
                share = state.share.weighted
                gauge.add(state.name, state.value.cohort or "", value=math.nan if share == math.inf else share)
        yield gauge.family


def _build() -> Metric:
    gauge = GaugeMetricFamily(BUILD_INFO.name, BUILD_INFO.about, labels=BUILD_INFO.labels)
    gauge.add_metric([f"v{pykueue.__version__}", "", "", "", "cpython", ""], 1)
    return gauge


def _blocked_turns() -> Metric:
    return CounterMetricFamily(
        LOOP_BLOCKED.name.removesuffix("_total"), LOOP_BLOCKED.about, value=loop_watchdog.blocked_turns
    )


class CohortGauges:
    def __init__(self, view: EngineView, instruments: Instruments, counts_by_queue: CountsByQueue) -> None:
        self._view = view
        self._instruments = instruments
        self._counts_by_queue = counts_by_queue

    def read(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        info, admitted = gauge("cohort_info"), gauge("cohort_subtree_admitted_active_workloads")
        quotas, reserved = gauge("cohort_subtree_quota"), gauge("cohort_subtree_resource_reservations")
        subtree_counts = self._subtree_counts()
        for cohort in self._view.cohorts():
            parent = cohort.path[-2] if len(cohort.path) > 1 else ""
            info.add(cohort.name, parent, cohort.path[0], value=1)
            below = subtree_counts.get(cohort.name)
            admitted.add(cohort.name, value=below.admitted if below else 0)
            for family, usage in ((quotas, cohort.subtree_quota), (reserved, below.usage if below else {})):
                for (flavor, resource), amount in sorted(usage.items()):
                    if amount > 0:
                        family.add(cohort.name, flavor, resource, value=amounts.as_float(resource, amount))
        yield from (info.family, admitted.family, quotas.family, reserved.family)

    def shares(self) -> Iterator[Metric]:
        if self._view.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cohort_weighted_share")
        for cohort in self._view.cohorts():
            if cohort.share is not None:
                gauge.add(cohort.name, value=cohort.share.weighted)
        yield gauge.family

    def _subtree_counts(self) -> dict[str, "_SubtreeCounts"]:
        by_cohort: dict[str, _SubtreeCounts] = {}
        for state, counts in self._counts_by_queue:
            for cohort in state.path[:-1]:
                below = by_cohort.setdefault(cohort, _SubtreeCounts())
                below.admitted += counts.admitted
                below.usage.update(state.usage)
        return by_cohort


class _SubtreeCounts:
    __slots__ = ("admitted", "usage")

    def __init__(self) -> None:
        self.admitted = 0
        self.usage: Counter[values.FlavorResource] = Counter()
