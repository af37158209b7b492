"""Labels that the Configuration adds to metrics (`metrics.customLabels`), read from the objects that are measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykueue.api import feature_gates, resources
from pykueue.controllers.metrics.catalog import Measure
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
