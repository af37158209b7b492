"""The gauges of ClusterQueues and cohorts, read from the engine at each scrape."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import pykueue
from pykueue.controllers.metrics.catalog import BUILD_INFO
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.metrics.local_queue_gauges import LocalQueueGauges
from pykueue.controllers.metrics.queue_counts import CountsByQueue
from pykueue.engine.queues.cluster_queue import InactiveReason
from pykueue.engine.quota import fair_sharing, quota_tree
from pykueue.engine.world import World
from pykueue.translate import amounts


class Gauges(Collector):
    """`refresh` reads the engine; `collect` returns the last values and may run in any thread."""

    def __init__(
        self,
        world: World,
        instruments: Instruments,
        *,
        local_queues: LocalQueueGauges,
        shows_resources: bool,
        shows_cohorts: bool,
    ) -> None:
        self._world = world
        self._instruments = instruments
        self._counts_by_queue = CountsByQueue(world)
        self._local_queues = local_queues
        self._cohorts = CohortGauges(world, instruments, self._counts_by_queue)
        self._shows_resources = shows_resources
        self._shows_cohorts = shows_cohorts
        self._metrics: list[Metric] = []
        instruments.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return self._metrics

    def refresh(self) -> None:
        self._world.tree.refresh()
        self._counts_by_queue.refresh()
        self._metrics = list(self._read())

    def _read(self) -> Iterator[Metric]:
        yield _build()
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
            for reservation in state.holdings:
                if reservation.workload.admitted:
                    labels = custom.of_workload(reservation.key)
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
        for name, count in sorted(self._world.skipped_preemptions.items()):
            if name in self._world.cluster_queues:
                gauge.add(name, value=count)
        return gauge.family

    def _info(self) -> Metric:
        gauge = self._instruments.gauge("cluster_queue_info")
        for state, _ in self._counts_by_queue:
            path = state.node.path
            parent, root = (path[-2], path[0]) if len(path) > 1 else ("", "")
            gauge.add(state.name, parent, root, value=1)
        return gauge.family

    def _resources(self) -> Iterator[Metric]:
        names = self._world.tree.flavor_resources.names
        gauge = self._instruments.gauge
        reserved, used = gauge("cluster_queue_resource_reservation"), gauge("cluster_queue_resource_usage")
        nominal, pending = gauge("cluster_queue_nominal_quota"), gauge("cluster_queue_resource_pending")
        borrowing, lending = gauge("cluster_queue_borrowing_limit"), gauge("cluster_queue_lending_limit")
        for state, counts in self._counts_by_queue:
            node = state.node
            for index, quota in node.nominal.items():
                flavor, resource = names[index].flavor, names[index].resource
                key = (state.value.cohort or "", state.name, flavor, resource)
                reserved.add(*key, value=amounts.as_float(resource, node.usage.get(index, 0)))
                used.add(*key, value=amounts.as_float(resource, counts.used[index]))
                nominal.add(*key, value=amounts.as_float(resource, quota))
                for limit, limits in ((borrowing, node.borrowing_limit), (lending, node.lending_limit)):
                    value = amounts.as_float(resource, limits[index]) if index in limits else math.inf
                    limit.add(*key, value=value)
            for resource in sorted({*state.group_of, *counts.requested}):
                pending.add(state.name, resource, value=amounts.as_float(resource, counts.requested[resource]))
        yield from (metric.family for metric in (reserved, used, nominal, borrowing, lending, pending))

    def _shares(self) -> Iterator[Metric]:
        """A queue that borrows with a weight of zero has the share NaN."""
        if self._world.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cluster_queue_weighted_share")
        for state, _ in self._counts_by_queue:
            share = fair_sharing.share(self._world.tree, state.node).weighted
            gauge.add(state.name, state.value.cohort or "", value=math.nan if share == math.inf else share)
        yield gauge.family


def _build() -> Metric:
    gauge = GaugeMetricFamily(BUILD_INFO.name, BUILD_INFO.about, labels=BUILD_INFO.labels)
    gauge.add_metric([f"v{pykueue.__version__}", "", "", "", "cpython", ""], 1)
    return gauge


class CohortGauges:
    def __init__(self, world: World, instruments: Instruments, counts_by_queue: CountsByQueue) -> None:
        self._world = world
        self._instruments = instruments
        self._counts_by_queue = counts_by_queue

    def read(self) -> Iterator[Metric]:
        gauge = self._instruments.gauge
        info, admitted = gauge("cohort_info"), gauge("cohort_subtree_admitted_active_workloads")
        quotas, reserved = gauge("cohort_subtree_quota"), gauge("cohort_subtree_resource_reservations")
        names = self._world.tree.flavor_resources.names
        subtree_counts = self._subtree_counts()
        for name, node in sorted(self._world.tree.cohorts.items()):
            parent = node.parent.name if node.parent is not None else ""
            info.add(name, parent, node.root.name, value=1)
            below = subtree_counts.get(name)
            admitted.add(name, value=below.admitted if below else 0)
            for family, by_index in ((quotas, node.subtree), (reserved, below.usage if below else {})):
                for index, amount in sorted(by_index.items()):
                    if amount > 0:
                        flavor, resource = names[index].flavor, names[index].resource
                        family.add(name, flavor, resource, value=amounts.as_float(resource, amount))
        yield from (info.family, admitted.family, quotas.family, reserved.family)

    def shares(self) -> Iterator[Metric]:
        if self._world.policy.fair_sharing is None:
            return
        gauge = self._instruments.gauge("cohort_weighted_share")
        for name, node in sorted(self._world.tree.cohorts.items()):
            gauge.add(name, value=fair_sharing.share(self._world.tree, node).weighted)
        yield gauge.family

    def _subtree_counts(self) -> dict[str, "_SubtreeCounts"]:
        by_cohort: dict[str, _SubtreeCounts] = {}
        for state, counts in self._counts_by_queue:
            for ancestor in quota_tree.ancestors(state.node):
                below = by_cohort.setdefault(ancestor.name, _SubtreeCounts())
                below.admitted += counts.admitted
                below.usage.update(state.node.usage)
        return by_cohort


class _SubtreeCounts:
    __slots__ = ("admitted", "usage")

    def __init__(self) -> None:
        self.admitted = 0
        self.usage: Counter[quota_tree.Index] = Counter()
