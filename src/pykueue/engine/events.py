"""What happened, in the past tense: the only way into the engine.

`Engine.handle` takes one at a time. Each carries the time it was seen; the engine never asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.engine import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueChanged(Event):
    """Created or updated."""

    cluster_queue: values.ClusterQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueGone(Event):
    name: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortChanged(Event):
    cohort: values.Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortGone(Event):
    name: values.CohortName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorChanged(Event):
    flavor: values.ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorGone(Event):
    name: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged(Event):
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyGone(Event):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged(Event):
    """It is ready and takes pods."""

    node: values.Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone(Event):
    """It is deleted, or takes no pods now."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBound(Event):
    """A pod that nobody here placed takes room on a node."""

    key: str
    node: str
    requests: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnded(Event):
    """A pod takes no room any more; one that never did may be named."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueChanged(Event):
    local_queue: values.LocalQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueGone(Event):
    key: values.LocalQueueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueUsageSampled(Event):
    """Admission fair sharing: the decayed usage of a local queue, in nano-units of each resource."""

    key: values.LocalQueueKey
    consumed: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChanged(Event):
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGone(Event):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckChanged(Event):
    check: values.AdmissionCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckGone(Event):
    name: values.CheckName


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadArrived(Event):
    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChanged(Event):
    """Anything about it changed: the engine finds out what by comparing with the value it holds."""

    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFinished(Event):
    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadGone(Event):
    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksChanged(Event):
    key: values.WorkloadKey
    check_states: Mapping[values.CheckName, values.CheckState]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReadyChanged(Event):
    key: values.WorkloadKey
    pods_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefused(Event):
    """The write of an `Admit` failed: the quota is given back and the workload queues again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRefused(Event):
    """The write of an eviction failed: the target still runs and may be chosen again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDue(Event):
    """Run one scheduling cycle, if any queue has a head."""
