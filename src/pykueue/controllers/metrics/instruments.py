"""The catalog made real: counters and histograms that
keep their values, and gauges filled at each scrape.

Every sample gets the role of this replica and the custom labels of what it measures. Used by
`happened` and `gauges`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from pykueue.api import feature_gates, resources
from pykueue.controllers.metrics.catalog import CATALOG, Measure, MetricType
from pykueue.kube.controller.cache import ObjectCache

_UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
_RESOURCES = {
    "ClusterQueue": resources.CLUSTER_QUEUE,
    "Cohort": resources.COHORT,
    "LocalQueue": resources.LOCAL_QUEUE,
    "Workload": resources.WORKLOAD,
}


class CustomLabels:
    def __init__(self, mirror: ObjectCache, configuration: Mapping[str, Any]) -> None:
        self._mirror = mirror
        self._of_kind: dict[str, list[Mapping[str, Any]]] = {}
        if feature_gates.is_enabled(configuration.get("featureGates") or {}, "CustomMetricLabels"):
            for entry in (configuration.get("metrics") or {}).get("customLabels") or ():
                self._of_kind.setdefault(entry.get("sourceKind") or "ClusterQueue", []).append(entry)

    @property
    def reads_workloads(self) -> bool:
        return "Workload" in self._of_kind

    def names(self, measure: Measure) -> list[str]:
        return [f"custom_{entry['name']}" for kind in measure.sources for entry in self._of_kind.get(kind, ())]

    def values(self, measure: Measure, labels: Sequence[str]) -> list[str]:
        """Of the object that the labels name; empty where there is none."""
        if not self._of_kind:
            return []
        named = dict(zip(measure.labels, labels, strict=True))
        return [value for kind in measure.sources if kind != "Workload" for value in self._values(kind, named)]

    def of_workload(self, key: str) -> tuple[str, ...]:
        namespace, _, name = key.partition("/")
        return tuple(self._values("Workload", {"name": name, "namespace": namespace}))

    def _values(self, kind: str, named: Mapping[str, str]) -> list[str]:
        entries = self._of_kind.get(kind)
        if not entries:
            return []
        metadata = self._metadata(kind, named)
        return [_value(entry, metadata) for entry in entries]

    def _metadata(self, kind: str, named: Mapping[str, str]) -> Mapping[str, Any]:
        if kind == "ClusterQueue":
            name, namespace = named.get("cluster_queue") or named.get("preempting_cluster_queue", ""), ""
        elif kind == "Cohort":
            name, namespace = named.get("cohort", ""), ""
        else:
            name, namespace = named.get("name", ""), named.get("namespace", "")
        found = self._mirror.get(_RESOURCES[kind], name, namespace)
        return {} if found is None else found["metadata"]


def _value(entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    if entry.get("sourceAnnotationKey"):
        value = (metadata.get("annotations") or {}).get(entry["sourceAnnotationKey"], "")
    else:
        value = (metadata.get("labels") or {}).get(entry.get("sourceLabelKey") or entry["name"], "")
    tracked = entry.get("trackedValues")
    return str(value) if not tracked or value in tracked else _UNTRACKED


STANDALONE = "standalone"
LEADER = "leader"

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # Kueue shows no times of creation


class Instruments:
    def __init__(self, custom: CustomLabels, *, role: str, without: str = "") -> None:
        """`without`: metrics whose names begin so are not shown at all."""
        self.registry = CollectorRegistry()
        self.custom = custom
        self._role = role
        self._shown = {
            name: measure for name, measure in CATALOG.items() if not (without and name.startswith(f"kueue_{without}"))
        }
        self._kept: dict[str, Counter | Histogram] = {}
        for name, measure in self._shown.items():
            labels = [*measure.labels, "replica_role", *custom.names(measure)]
            if measure.kind is MetricType.COUNTER:
                self._kept[name] = Counter(name, measure.about, labels, registry=self.registry)
            elif measure.kind is MetricType.HISTOGRAM:
                self._kept[name] = Histogram(
                    name, measure.about, labels, registry=self.registry, buckets=measure.buckets
                )

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        counter = self._kept[f"kueue_{name}"]
        assert isinstance(counter, Counter)
        counter.labels(*self.completed(name, labels)).inc(by)

    def observe(self, name: str, *labels: str, seconds: float) -> None:
        """Clocks differ: what seems to end before it began took no time."""
        histogram = self._kept[f"kueue_{name}"]
        assert isinstance(histogram, Histogram)
        histogram.labels(*self.completed(name, labels)).observe(max(0.0, seconds))

    def forget(self, named: Mapping[str, str]) -> None:
        """What was counted for something that is gone."""
        for name, kept in self._kept.items():
            if named.keys() <= set(CATALOG[name].labels):
                kept.remove_by_labels(dict(named))

    def gauge(self, name: str) -> "Gauge":
        return Gauge(self, name)

    def family(self, name: str) -> GaugeMetricFamily:
        measure = CATALOG[f"kueue_{name}"]
        labels = [*measure.labels, "replica_role", *self.custom.names(measure)]
        return GaugeMetricFamily(measure.name, measure.about, labels=labels)

    def completed(self, name: str, labels: Sequence[str]) -> list[str]:
        return [*labels, self._role, *self.custom.values(CATALOG[f"kueue_{name}"], labels)]


class Gauge:
    """The samples of one gauge at one moment."""

    def __init__(self, instruments: Instruments, name: str) -> None:
        self._instruments = instruments
        self._name = name
        self.family = instruments.family(name)

    def add(self, *labels: str, value: float, of_workload: Sequence[str] = ()) -> None:
        self.family.add_metric([*self._instruments.completed(self._name, labels), *of_workload], value)
