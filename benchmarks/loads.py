"""The three loads of Kueue's performance tests, as data: cohorts, queues and classes of Workloads.

Counts, intervals, run times, priorities and requests are those of Kueue v0.19.2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
CLASS = "kueue.x-k8s.io/performance-scheduler-class"
RUNNING_MS = "kueue.x-k8s.io/performance-scheduler-running-ms"
CLEANUP = "kueue.x-k8s.io/performance-scheduler-cleanup"
NOMINAL_CPU = 20
BORROWING_CPU = 100
BLOCK, RACK, HOST = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname"
RACKS, NODES_IN_RACK = 10, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClass:
    """Workloads that are created one after another in every queue, `interval_ms` apart."""

    name: str
    count: int
    interval_ms: int
    running_ms: int
    priority: int
    cpu_milli: int
    """The request of one pod."""
    pods: int = 1
    topology_request: Json | None = None

    @property
    def total_cpu_milli(self) -> int:
        return self.cpu_milli * self.pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    name: str
    cohorts: int
    queues_in_cohort: int
    classes: tuple[WorkloadClass, ...]
    has_topology: bool = False

    @property
    def queues(self) -> int:
        return self.cohorts * self.queues_in_cohort

    @property
    def workloads(self) -> int:
        return self.queues * sum(workload_class.count for workload_class in self.classes)

    @property
    def shortest_seconds(self) -> float:
        """The time that the quota allows at best: all CPU seconds on all nominal quota."""
        milli_ms = sum(item.count * item.total_cpu_milli * item.running_ms for item in self.classes)
        creation = max(item.count * item.interval_ms for item in self.classes)
        return max(milli_ms / (NOMINAL_CPU * 1000), creation) / 1000

    def scaled(self, scale: float, cohorts: int | None = None) -> "Load":
        """The same load with fewer or more Workloads in item queue, and with fewer cohorts."""
        classes = tuple(replace(item, count=max(1, math.ceil(item.count * scale))) for item in self.classes)
        return replace(self, classes=classes, cohorts=cohorts or self.cohorts)


def _three_sizes(
    counts: tuple[int, int, int], intervals: tuple[int, int, int], running: tuple[int, int, int]
) -> tuple[WorkloadClass, ...]:
    sizes = (("small", 50, 1000), ("medium", 100, 5000), ("large", 200, 20000))
    return tuple(
        WorkloadClass(
            name=name, count=count, interval_ms=interval, running_ms=running_ms, priority=priority, cpu_milli=cpu_milli
        )
        for (name, priority, cpu_milli), count, interval, running_ms in zip(
            sizes, counts, intervals, running, strict=True
        )
    )


def _with_topology() -> Iterator[WorkloadClass]:
    """The sizes of the baseline as groups of pods, a third with item kind of topology request."""
    groups = (("small", 2, (120, 120, 110), 1), ("medium", 4, (34, 33, 33), 2), ("large", 8, (17, 17, 16), 4))
    baseline = {item.name: item for item in BASELINE.classes}
    for size, pods, counts, slice_size in groups:
        requests = (
            ("required", {"required": RACK}),
            ("preferred", {"preferred": RACK}),
            ("balanced", {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": slice_size}),
        )
        for (constraint, request), count in zip(requests, counts, strict=True):
            whole = baseline[size]
            yield replace(
                whole,
                name=f"{size}-{constraint}-rack",
                count=count,
                pods=pods,
                cpu_milli=whole.cpu_milli // pods,
                topology_request=request,
            )


BASELINE = Load(
    name="baseline",
    cohorts=5,
    queues_in_cohort=6,
    classes=_three_sizes((350, 100, 50), (100, 500, 1200), (200, 500, 1000)),
)
LARGE_SCALE = Load(
    name="large-scale",
    cohorts=10,
    queues_in_cohort=100,
    classes=_three_sizes((35, 11, 4), (60, 300, 700), (150, 350, 700)),
)
TAS = Load(name="tas", cohorts=5, queues_in_cohort=6, classes=tuple(_with_topology()), has_topology=True)

LOADS = {load.name: load for load in (BASELINE, LARGE_SCALE, TAS)}


def _labelled(name: str) -> Json:
    return {"name": name, "labels": {CLEANUP: "true"}}


def flavor(load: Load) -> Json:
    spec = {"topologyName": "default-topology", "nodeLabels": {"tas-node-group": "tas"}} if load.has_topology else {}
    name = "tas-flavor" if load.has_topology else "rf"
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": _labelled(name), "spec": spec}


def topology() -> Json:
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOST)]
    return {
        "apiVersion": KUEUE,
        "kind": "Topology",
        "metadata": _labelled("default-topology"),
        "spec": {"levels": levels},
    }


def nodes() -> Iterator[Json]:
    capacity = {"cpu": "96", "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Benchmark", "message": ""}
    for rack in range(RACKS):
        for number in range(NODES_IN_RACK):
            name = f"node-b0-r{rack}-n{number}"
            labels = {CLEANUP: "true", "tas-node-group": "tas", BLOCK: "block-0", RACK: f"rack-{rack}", HOST: name}
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
            }


def queue_names(load: Load) -> Iterator[tuple[str, str]]:
    """The name of every ClusterQueue (and of its namespace and LocalQueue) with its cohort."""
    for cohort in range(load.cohorts):
        for number in range(load.queues_in_cohort):
            yield f"cq-0-{number}-cohort-{cohort}", f"cohort-{cohort}"


def cluster_queue(load: Load, name: str, cohort: str) -> Json:
    quota = {"name": "cpu", "nominalQuota": str(NOMINAL_CPU), "borrowingLimit": str(BORROWING_CPU)}
    flavor_name = flavor(load)["metadata"]["name"]
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name, "labels": {CLASS: "cq", CLEANUP: "true"}},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": flavor_name, "resources": [quota]}]}],
        },
    }


def local_queue(name: str) -> Json:
    metadata = {"name": name, "namespace": name}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _labelled(name)}


def workload(workload_class: WorkloadClass, set_number: int, number: int, queue: str) -> Json:
    resources = {"requests": {"cpu": f"{workload_class.cpu_milli}m"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "resources": resources}]}
    pod_set: Json = {"name": "main", "count": workload_class.pods, "template": {"spec": pod}}
    if workload_class.topology_request is not None:
        pod_set["topologyRequest"] = workload_class.topology_request
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {
            "name": f"{workload_class.name}-{set_number}-{number}-0",
            "namespace": queue,
            "labels": {CLASS: workload_class.name, RUNNING_MS: str(workload_class.running_ms)},
        },
        "spec": {"queueName": queue, "priority": workload_class.priority, "podSets": [pod_set]},
    }
