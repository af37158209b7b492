"""The input and the result of `decide.decide`: policies, related objects, and the plan."""

import msgspec

from pykueue.api.scheme import Object
from pykueue.controllers.workloads.unadmitted import LEGACY, UnadmittedStatus
from pykueue.kube.controller.writes import Event
from pykueue.translate.devices import DeviceFault


class PodsReadyPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The section `waitForPodsReady`: timeouts of pods and backoff of evicted Workloads."""

    timeout_ns: int
    recovery_timeout_ns: int | None = None
    block_admission: bool = False
    backoff_limit_count: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600


class LifecyclePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that the workload controller uses."""

    pods_ready: PodsReadyPolicy | None = None
    retain_finished_ns: int | None = None
    retain_deactivated_ns: int | None = None
    finish_orphans: bool = True
    admission_gates: bool = True
    concurrent_admission: bool = False
    unadmitted: UnadmittedStatus = LEGACY
    syncs_preemption_gates: bool = False
    """Whether the status shows the position of every preemption gate."""


class WorkloadContext(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a decision about a Workload depends on."""

    local_queue: Object | None = None
    cluster_queue_name: str = ""
    """The name of the ClusterQueue in the LocalQueue; "" if there is no LocalQueue."""
    cluster_queue: Object | None = None
    is_cluster_queue_active: bool = False
    admits_concurrently: bool = False
    """Whether the ClusterQueue has a `concurrentAdmissionPolicy` that is in effect."""
    inadmissibility: str = ""
    """Why no ClusterQueue may admit the Workload; empty if one may, or if nobody asks."""
    bypassed_reason: str = ""
    """The reason of an equivalent Workload that was tried instead of this one."""
    device_fault: DeviceFault | None = None
    """Why the devices that the Workload claims cannot be counted."""


class WorkloadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changed Workload and its events; `delete` means that the Workload is deleted."""

    workload: Object
    events: tuple[Event, ...] = ()
    delete: bool = False
    requeue_after_ns: int = 0
