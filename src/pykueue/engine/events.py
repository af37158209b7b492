"""What happened, in the past tense: the only way into the engine.

`Engine.handle` takes one at a time. Each carries the time it was seen; the engine never asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.engine import values


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvent:
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueChanged(EngineEvent):
    """Created or updated."""

    cluster_queue: values.ClusterQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueGone(EngineEvent):
    name: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortChanged(EngineEvent):
    cohort: values.Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortGone(EngineEvent):
    name: values.CohortName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorChanged(EngineEvent):
    flavor: values.ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorGone(EngineEvent):
    name: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged(EngineEvent):
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyGone(EngineEvent):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged(EngineEvent):
    """It is ready and takes pods."""

    node: values.Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone(EngineEvent):
    """It is deleted, or takes no pods now."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBound(EngineEvent):
    """A pod that nobody here placed takes room on a node."""

    key: str
    node: str
    requests: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnded(EngineEvent):
    """A pod takes no room any more; one that never did may be named."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueChanged(EngineEvent):
    local_queue: values.LocalQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueGone(EngineEvent):
    key: values.LocalQueueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueUsageSampled(EngineEvent):
    """Admission fair sharing: the decayed usage of a local queue, in nano-units of each resource."""

    key: values.LocalQueueKey
    consumed: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChanged(EngineEvent):
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGone(EngineEvent):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckChanged(EngineEvent):
    check: values.AdmissionCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckGone(EngineEvent):
    name: values.CheckName


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadArrived(EngineEvent):
    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChanged(EngineEvent):
    """Anything about it changed: the engine finds out what by comparing with the value it holds."""

    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFinished(EngineEvent):
    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadGone(EngineEvent):
    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksChanged(EngineEvent):
    key: values.WorkloadKey
    check_states: Mapping[values.CheckName, values.CheckState]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReadyChanged(EngineEvent):
    key: values.WorkloadKey
    pods_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefused(EngineEvent):
    """The write of an `Admit` failed: the quota is given back and the workload queues again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRefused(EngineEvent):
    """The write of an eviction failed: the target still runs and may be chosen again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDue(EngineEvent):
    """Run one scheduling cycle, if any queue has a head."""
