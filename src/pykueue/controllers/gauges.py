"""What is now: gauges of queues and cohorts, read from the engine at each scrape. Part of `metrics`."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import pykueue
from pykueue.engine import fair_sharing, values
from pykueue.engine.cluster_queues import ClusterQueueState, InactiveReason
from pykueue.engine.world import World

ROLE = "standalone"


class Gauges(Collector):
    """`look` reads the engine; `collect` shows what was seen, to any thread."""

    def __init__(self, world: World, *, shows_resources: bool) -> None:
        self._world = world
        self._shows_resources = shows_resources
        self._seen: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        return self._seen

    def look(self) -> None:
        self._seen = list(self._look())

    def _look(self) -> Iterator[Metric]:
        queues = sorted(self._world.cluster_queues.values(), key=lambda queue: queue.name)
        yield self._pending(queues)
        yield self._active(queues, "reserving", is_admitted=False)
        yield self._active(queues, "admitted", is_admitted=True)
        yield self._status(queues)
        yield from self._local_queues()
        yield from self._places(queues)
        yield self._skips()
        yield from self._shares(queues)
        yield _build()
        if self._shows_resources:
            yield from self._resources(queues)

    @staticmethod
    def _pending(queues: list[ClusterQueueState]) -> Metric:
        gauge = _gauge("pending_workloads", "Workloads that wait.", "cluster_queue", "status")
        for queue in queues:
            active = queue.pending.active_count if queue.is_active else 0
            gauge.add_metric([queue.name, "active", ROLE], active)
            gauge.add_metric([queue.name, "inadmissible", ROLE], len(queue.pending) - active)
        return gauge

    @staticmethod
    def _active(queues: list[ClusterQueueState], word: str, *, is_admitted: bool) -> Metric:
        gauge = _gauge(f"{word}_active_workloads", f"Workloads {word} now.", "cluster_queue")
        for queue in queues:
            count = sum(holding.workload.admitted or not is_admitted for holding in queue.holdings)
            gauge.add_metric([queue.name, ROLE], count)
        return gauge

    @staticmethod
    def _status(queues: list[ClusterQueueState]) -> Metric:
        gauge = _gauge("cluster_queue_status", "1 for the status that a queue has.", "cluster_queue", "status")
        for queue in queues:
            is_ending = any(found.reason is InactiveReason.TERMINATING for found in queue.inactivity)
            status = "terminating" if is_ending else "active" if queue.is_active else "pending"
            for each in ("pending", "active", "terminating"):
                gauge.add_metric([queue.name, each, ROLE], each == status)
        return gauge

    def _local_queues(self) -> Iterator[Metric]:
        labels = ("name", "namespace")
        pending = _gauge("local_queue_pending_workloads", "Workloads that wait.", *labels, "status")
        reserving = _gauge("local_queue_reserving_active_workloads", "Workloads with quota now.", *labels)
        admitted = _gauge("local_queue_admitted_active_workloads", "Workloads admitted now.", *labels)
        status = _gauge("local_queue_status", "1 for the status that a queue has.", *labels, "active")
        for key, queue in sorted(self._world.local_queues.items()):
            namespace, _, name = key.partition("/")
            state = self._world.cluster_queues.get(queue.cluster_queue)
            is_active = state is not None and state.is_active and queue.stop_policy is values.StopPolicy.NONE
            waiting = {"active": 0, "inadmissible": 0}
            held = []
            if state is not None:
                for word, items in (("active", state.pending.in_heap()), ("inadmissible", state.pending.parked())):
                    waiting[word] = sum(item.workload.local_queue == key for item in items)
                held = [holding for holding in state.holdings if holding.workload.local_queue == key]
            for word, count in waiting.items():
                pending.add_metric([name, namespace, word, ROLE], count)
            reserving.add_metric([name, namespace, ROLE], len(held))
            admitted.add_metric([name, namespace, ROLE], sum(holding.workload.admitted for holding in held))
            for word in ("True", "False"):
                status.add_metric([name, namespace, word, ROLE], (word == "True") is is_active)
        yield from (pending, reserving, admitted, status)

    def _places(self, queues: list[ClusterQueueState]) -> Iterator[Metric]:
        """Where queues and cohorts stand in their trees."""
        of_queues = _gauge(
            "cluster_queue_info", "The cohorts of a queue.", "cluster_queue", "parent_cohort", "root_cohort"
        )
        for queue in queues:
            path = queue.node.path
            parent, root = (path[-2], path[0]) if len(path) > 1 else ("", "")
            of_queues.add_metric([queue.name, parent, root, ROLE], 1)
        of_cohorts = _gauge("cohort_info", "The cohorts above a cohort.", "cohort", "parent_cohort", "root_cohort")
        for name, node in sorted(self._world.tree.cohorts.items()):
            parent = node.parent.name if node.parent is not None else ""
            of_cohorts.add_metric([name, parent, node.root.name, ROLE], 1)
        yield from (of_queues, of_cohorts)

    def _skips(self) -> Metric:
        gauge = _gauge("admission_cycle_preemption_skips", "Preemptors put off in the last cycle.", "cluster_queue")
        for name, count in sorted(self._world.skipped_preemptions.items()):
            gauge.add_metric([name, ROLE], count)
        return gauge

    def _shares(self, queues: list[ClusterQueueState]) -> Iterator[Metric]:
        if self._world.policy.fair_sharing is None:
            return
        self._world.tree.refresh()
        of_queues = _gauge("cluster_queue_weighted_share", "Share of borrowed quota.", "cluster_queue", "cohort")
        for queue in queues:
            share = fair_sharing.share(self._world.tree, queue.node).rounded
            of_queues.add_metric([queue.name, queue.value.cohort or "", ROLE], share)
        of_cohorts = _gauge("cohort_weighted_share", "Share of borrowed quota.", "cohort")
        for name, node in sorted(self._world.tree.cohorts.items()):
            of_cohorts.add_metric([name, ROLE], fair_sharing.share(self._world.tree, node).rounded)
        yield from (of_queues, of_cohorts)

    def _resources(self, queues: list[ClusterQueueState]) -> Iterator[Metric]:
        names = self._world.tree.flavor_resources.names
        labels = ("cohort", "cluster_queue", "flavor", "resource")
        reserved = _gauge("cluster_queue_resource_reservation", "Quota reserved.", *labels)
        nominal = _gauge("cluster_queue_nominal_quota", "Nominal quota.", *labels)
        borrowing = _gauge("cluster_queue_borrowing_limit", "Most that may be borrowed.", *labels)
        lending = _gauge("cluster_queue_lending_limit", "Most that may be lent.", *labels)
        for queue in queues:
            node = queue.node
            for index, quota in node.nominal.items():
                name = names[index]
                key = [queue.value.cohort or "", queue.name, name.flavor, name.resource, ROLE]
                unit = 1000 if name.resource == "cpu" else 1
                reserved.add_metric(key, node.usage.get(index, 0) / unit)
                nominal.add_metric(key, quota / unit)
                for gauge, limits in ((borrowing, node.borrowing_limit), (lending, node.lending_limit)):
                    gauge.add_metric(key, limits[index] / unit if index in limits else float("inf"))
        yield from (reserved, nominal, borrowing, lending)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kueue_{name}", text, labels=[*labels, "replica_role"])


def _build() -> Metric:
    labels = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")
    gauge = GaugeMetricFamily("kueue_build_info", "What is running here.", labels=labels)
    gauge.add_metric([f"v{pykueue.__version__}", "", "", "", "cpython", ""], 1)
    return gauge
