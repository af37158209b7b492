"""The catalog made real: counters and histograms that keep their values, and gauges filled at each scrape.

Every sample gets the role of this replica and the custom labels of what it measures. Used by `happened` and `gauges`.
"""

from collections.abc import Mapping, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from pykueue.controllers.metrics.catalog import CATALOG, Kind
from pykueue.controllers.metrics.custom_labels import CustomLabels

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
            if measure.kind is Kind.COUNTER:
                self._kept[name] = Counter(name, measure.about, labels, registry=self.registry)
            elif measure.kind is Kind.HISTOGRAM:
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
