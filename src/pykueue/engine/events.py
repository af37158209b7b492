"""Events: what happened, in the past tense. They are the only way to change the engine's state.

`Engine.handle` handles one at a time. Every event carries its time, because the engine has no
clock.
"""

from collections.abc import Mapping

import msgspec

from pykueue.engine import values


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    at_ns: int = 0


class ClusterQueueChanged(_Event, frozen=True, kw_only=True):
    """Created or updated."""

    cluster_queue: values.ClusterQueue


class ClusterQueueGone(_Event, frozen=True, kw_only=True):
    name: values.ClusterQueueName


class CohortChanged(_Event, frozen=True, kw_only=True):
    cohort: values.Cohort


class CohortGone(_Event, frozen=True, kw_only=True):
    name: values.CohortName


class FlavorChanged(_Event, frozen=True, kw_only=True):
    flavor: values.ResourceFlavor


class FlavorGone(_Event, frozen=True, kw_only=True):
    name: values.FlavorName


class TopologyChanged(_Event, frozen=True, kw_only=True):
    name: str
    levels: tuple[str, ...]


class TopologyGone(_Event, frozen=True, kw_only=True):
    name: str


class NodeChanged(_Event, frozen=True, kw_only=True):
    """A node was added or changed; it is ready and schedulable."""

    node: values.Node


class NodeGone(_Event, frozen=True, kw_only=True):
    """A node was deleted, or is not ready or not schedulable now."""

    name: str


class PodBound(_Event, frozen=True, kw_only=True):
    """A pod that has no topology assignment from Kueue uses a node."""

    key: str
    node: str
    requests: Mapping[values.ResourceName, int]


class PodEnded(_Event, frozen=True, kw_only=True):
    """A pod uses its node no longer. The event may name a pod that no `PodBound` named."""

    key: str


class LocalQueueChanged(_Event, frozen=True, kw_only=True):
    local_queue: values.LocalQueue


class LocalQueueGone(_Event, frozen=True, kw_only=True):
    key: values.LocalQueueKey


class LocalQueueUsageSampled(_Event, frozen=True, kw_only=True):
    """Admission fair sharing: the decayed usage of a local queue, in nano-units per resource."""

    key: values.LocalQueueKey
    consumed: Mapping[values.ResourceName, int]


class NamespaceChanged(_Event, frozen=True, kw_only=True):
    name: str
    labels: Mapping[str, str]


class NamespaceGone(_Event, frozen=True, kw_only=True):
    name: str


class AdmissionCheckChanged(_Event, frozen=True, kw_only=True):
    check: values.AdmissionCheck


class AdmissionCheckGone(_Event, frozen=True, kw_only=True):
    name: values.CheckName


class WorkloadArrived(_Event, frozen=True, kw_only=True):
    workload: values.Workload


class WorkloadChanged(_Event, frozen=True, kw_only=True):
    """A workload changed in any way, also finished. The engine compares it with its last value."""

    workload: values.Workload


class WorkloadGone(_Event, frozen=True, kw_only=True):
    key: values.WorkloadKey


class AdmissionRefused(_Event, frozen=True, kw_only=True):
    """The write of an `Admit` failed: release the quota and queue the workload again."""

    key: values.WorkloadKey


class EvictionRefused(_Event, frozen=True, kw_only=True):
    """The write of an eviction failed: the workload may be preempted again."""

    key: values.WorkloadKey


class CycleDue(_Event, frozen=True, kw_only=True):
    """Run one scheduling cycle, if any queue has a head."""

    requeue_interval_ns: int = 0
    """How long changes are collected that may let inadmissible workloads in, in a tree in which
    arrivals preempt others.
    """


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
