"""Events: what happened, in the past tense. They are the only way to change the engine's state.

`Engine.handle` handles one at a time. Every event carries its time, because the engine has no
clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pykueue.engine import values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueChanged(_Event):
    """Created or updated."""

    cluster_queue: values.ClusterQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueueGone(_Event):
    name: values.ClusterQueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortChanged(_Event):
    cohort: values.Cohort


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortGone(_Event):
    name: values.CohortName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorChanged(_Event):
    flavor: values.ResourceFlavor


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorGone(_Event):
    name: values.FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged(_Event):
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyGone(_Event):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged(_Event):
    """A node was added or changed; it is ready and schedulable."""

    node: values.Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone(_Event):
    """A node was deleted, or is not ready or not schedulable now."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBound(_Event):
    """A pod that has no topology assignment from Kueue uses a node."""

    key: str
    node: str
    requests: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnded(_Event):
    """A pod uses its node no longer. The event may name a pod that no `PodBound` named."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueChanged(_Event):
    local_queue: values.LocalQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueGone(_Event):
    key: values.LocalQueueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueUsageSampled(_Event):
    """Admission fair sharing: the decayed usage of a local queue, in nano-units per resource."""

    key: values.LocalQueueKey
    consumed: Mapping[values.ResourceName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChanged(_Event):
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGone(_Event):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckChanged(_Event):
    check: values.AdmissionCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckGone(_Event):
    name: values.CheckName


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadArrived(_Event):
    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChanged(_Event):
    """A workload changed in any way, also finished. The engine compares it with its last value."""

    workload: values.Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadGone(_Event):
    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefused(_Event):
    """The write of an `Admit` failed: release the quota and queue the workload again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRefused(_Event):
    """The write of an eviction failed: the workload may be preempted again."""

    key: values.WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDue(_Event):
    """Run one scheduling cycle, if any queue has a head."""


EngineEvent = (
    ClusterQueueChanged
    | ClusterQueueGone
    | CohortChanged
    | CohortGone
    | FlavorChanged
    | FlavorGone
    | TopologyChanged
    | TopologyGone
    | NodeChanged
    | NodeGone
    | PodBound
    | PodEnded
    | LocalQueueChanged
    | LocalQueueGone
    | LocalQueueUsageSampled
    | NamespaceChanged
    | NamespaceGone
    | AdmissionCheckChanged
    | AdmissionCheckGone
    | WorkloadArrived
    | WorkloadChanged
    | WorkloadGone
    | AdmissionRefused
    | EvictionRefused
    | CycleDue
)
