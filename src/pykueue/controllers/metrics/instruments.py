"""The instruments of the catalog: counters and histograms, and gauges that each scrape fills.

Every sample gets the role of this replica and the custom labels of the object that it measures
(`metrics.customLabels` of the Configuration). Used by `collector` and `gauges`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from pykueue.api import feature_gates, resources
from pykueue.controllers.metrics.catalog import AUDIT_DIFFERENCES, CATALOG, Measure, MetricType
from pykueue.kube.controller.cache import ObjectCache

_UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
_RESOURCES = {
    "ClusterQueue": resources.CLUSTER_QUEUE,
    "Cohort": resources.COHORT,
    "LocalQueue": resources.LOCAL_QUEUE,
    "Workload": resources.WORKLOAD,
}


class CustomLabels:
    def __init__(self, cache: ObjectCache, configuration: Mapping[str, Any]) -> None:
        self._cache = cache
        self._of_kind: dict[str, list[Mapping[str, Any]]] = {}
        if feature_gates.is_enabled(configuration.get("featureGates") or {}, "CustomMetricLabels"):
            for entry in (configuration.get("metrics") or {}).get("customLabels") or ():
                self._of_kind.setdefault(entry.get("sourceKind") or "ClusterQueue", []).append(entry)

    @property
    def has_labels(self) -> bool:
        return bool(self._of_kind)

    @property
    def reads_workloads(self) -> bool:
        return "Workload" in self._of_kind

    def names(self, measure: Measure) -> list[str]:
        return [f"custom_{entry['name']}" for kind in measure.sources for entry in self._of_kind.get(kind, ())]

    def values(self, measure: Measure, labels: Sequence[str]) -> list[str]:
        """The custom labels of the object that the labels name; "" if it does not exist."""
        if not self._of_kind:
            return []
        labels_by_name = dict(zip(measure.labels, labels, strict=True))
        return [value for kind in measure.sources if kind != "Workload" for value in self._values(kind, labels_by_name)]

    def of_workload(self, key: str) -> tuple[str, ...]:
        namespace, _, name = key.partition("/")
        return tuple(self._values("Workload", {"name": name, "namespace": namespace}))

    def _values(self, kind: str, labels: Mapping[str, str]) -> list[str]:
        entries = self._of_kind.get(kind)
        if not entries:
            return []
        metadata = self._metadata(kind, labels)
        return [_value(entry, metadata) for entry in entries]

    def _metadata(self, kind: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
        if kind == "ClusterQueue":
            name, namespace = labels.get("cluster_queue") or labels.get("preempting_cluster_queue", ""), ""
        elif kind == "Cohort":
            name, namespace = labels.get("cohort", ""), ""
        else:
            name, namespace = labels.get("name", ""), labels.get("namespace", "")
        obj = self._cache.get(_RESOURCES[kind], name, namespace)
        return {} if obj is None else obj["metadata"]


def _value(entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    if entry.get("sourceAnnotationKey"):
        value = (metadata.get("annotations") or {}).get(entry["sourceAnnotationKey"], "")
    else:
        value = (metadata.get("labels") or {}).get(entry.get("sourceLabelKey") or entry["name"], "")
    tracked = entry.get("trackedValues")
    return str(value) if not tracked or value in tracked else _UNTRACKED


STANDALONE = "standalone"
LEADER = "leader"

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # as in Kueue


class Instruments:
    def __init__(self, custom: CustomLabels, *, role: str, without: str = "") -> None:
        """Metrics whose names begin with `without` are left out."""
        self.registry = CollectorRegistry()
        self.custom = custom
        self._role = role
        self._metrics = {
            name: measure for name, measure in CATALOG.items() if not (without and name.startswith(f"kueue_{without}"))
        }
        self._instruments: dict[str, Counter | Histogram] = {}
        self._children: dict[tuple[str, ...], Any] = {}
        """Instruments with their labels set. With custom labels, which may change, it is empty."""
        for name, measure in self._metrics.items():
            labels = [*measure.labels, "replica_role", *custom.names(measure)]
            if measure.kind is MetricType.COUNTER:
                self._instruments[name] = Counter(name, measure.about, labels, registry=self.registry)
            elif measure.kind is MetricType.HISTOGRAM:
                self._instruments[name] = Histogram(
                    name, measure.about, labels, registry=self.registry, buckets=measure.buckets
                )

        self._differences = Counter(
            AUDIT_DIFFERENCES.name,
            AUDIT_DIFFERENCES.about,
            [*AUDIT_DIFFERENCES.labels, "replica_role"],
            registry=self.registry,
        )

    def count_difference(self, part: str, kind: str) -> None:
        self._differences.labels(part, kind, self._role).inc()

    def count_dispatch(self, name: str, cluster_queue: str, cluster: str) -> None:
        """Count one of the metrics of MultiKueue, whose names have another prefix."""
        counter, labels = self._instruments[name], (cluster_queue, cluster)
        assert isinstance(counter, Counter)
        counter.labels(*labels, self._role, *self.custom.values(CATALOG[name], labels)).inc()

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        self._child(name, *labels).inc(by)

    def totals(self, name: str) -> dict[str, tuple[float, float]]:
        """The count and the sum of a histogram by ClusterQueue."""
        totals: dict[str, list[float]] = {}
        for metric in self._instruments[f"kueue_{name}"].collect():
            for sample in metric.samples:
                if sample.name.endswith(("_count", "_sum")):
                    pair = totals.setdefault(sample.labels["cluster_queue"], [0.0, 0.0])
                    pair[sample.name.endswith("_sum")] += sample.value
        return {queue: (count, total) for queue, (count, total) in totals.items()}

    def counts(self, name: str) -> dict[str, float]:
        """A counter by ClusterQueue."""
        counts: dict[str, float] = {}
        for metric in self._instruments[f"kueue_{name}"].collect():
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    queue = sample.labels["cluster_queue"]
                    counts[queue] = counts.get(queue, 0.0) + sample.value
        return counts

    def observe(self, name: str, *labels: str, seconds: float) -> None:
        """A negative duration, which two different clocks may give, counts as zero."""
        self._child(name, *labels).observe(max(0.0, seconds))

    def _child(self, *key: str) -> Any:
        """The instrument of this name with these labels; looking it up each time is slow."""
        child = self._children.get(key)
        if child is None:
            name, *labels = key
            child = self._instruments[f"kueue_{name}"].labels(*self.label_values(name, labels))
            if not self.custom.has_labels:
                self._children[key] = child
        return child

    def remove(self, labels: Mapping[str, str]) -> None:
        """Removes the samples of a deleted object, which the labels name."""
        self._children.clear()
        for name, instrument in self._instruments.items():
            if labels.keys() <= set(CATALOG[name].labels):
                instrument.remove_by_labels(dict(labels))

    def gauge(self, name: str) -> "Gauge":
        return Gauge(self, name)

    def family(self, name: str) -> GaugeMetricFamily:
        measure = CATALOG[f"kueue_{name}"]
        labels = [*measure.labels, "replica_role", *self.custom.names(measure)]
        return GaugeMetricFamily(measure.name, measure.about, labels=labels)

    def label_values(self, name: str, labels: Sequence[str]) -> list[str]:
        return [*labels, self._role, *self.custom.values(CATALOG[f"kueue_{name}"], labels)]


class Gauge:
    """The samples of one gauge in one scrape."""

    def __init__(self, instruments: Instruments, name: str) -> None:
        self._instruments = instruments
        self._name = name
        self.family = instruments.family(name)

    def add(self, *labels: str, value: float, of_workload: Sequence[str] = ()) -> None:
        self.family.add_metric([*self._instruments.label_values(self._name, labels), *of_workload], value)
