"""Workload: the pods of a job, and the decision of the queue."""

from typing import Annotated, Any, Literal

import msgspec

from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2 import workload_rules
from pykueue.api.kueue.v1beta2.fields import CheckName, Conditions, Name, PodSetName, Tolerations
from pykueue.api.kueue.v1beta2.topology_assignment import TopologyAssignment
from pykueue.api.meta import DNS_SUBDOMAIN, Int32, ObjectMeta, Resources, Time
from pykueue.api.structural import ABSENT, Part, about

Label = Annotated[str, about(max_length=63)]
IndexLabel = Annotated[str, about(max_length=317)]
ClusterName = Annotated[str, about(max_length=256)]
GateName = Annotated[str, about(min_length=1, max_length=63)]


PodTemplate = Annotated[
    dict[str, Any], about(schema=lambda: {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""Passed on unchanged, so that fields of a newer Kubernetes survive."""


class SliceConstraint(Part):
    """A group of pods that must share a domain of a level."""

    topology: Annotated[str, about("Node label of the level.", min_length=1, max_length=63)]
    size: Annotated[Int32, about("Pods in a group.", minimum=1)]


class PodSetTopologyRequest(Part):
    """How close together the pods of a pod set must be."""

    required: Annotated[Label | None, about("All pods in one domain of this level.")] = None
    preferred: Annotated[Label | None, about("All pods in one domain of this level if possible.")] = None
    unconstrained: Annotated[bool | None, about("Anywhere, as long as every pod fits.")] = None
    pod_index_label: Annotated[IndexLabel | None, about("Pod label that holds the pod's index.")] = None
    sub_group_index_label: Annotated[IndexLabel | None, about("Pod label that holds the index of its group.")] = None
    sub_group_count: Annotated[Int32 | None, about("Groups of pods, such as jobs of a JobSet.")] = None
    pod_set_group_name: Annotated[
        str | None, about("Pod sets of the same group are placed together.", max_length=256)
    ] = None
    pod_set_slice_required_topology: Annotated[
        Label | None, about("Each slice of the pod set in one domain of this level.")
    ] = None
    pod_set_slice_size: Annotated[Int32 | None, about("Pods in a slice.")] = None
    slice_required_topology_constraints: Annotated[
        tuple[SliceConstraint, ...], about("Slices inside slices, outermost first.", max_items=3, list_type="atomic")
    ] = msgspec.field(default=(), name="podsetSliceRequiredTopologyConstraints")


class PodSet(Part):
    """Pods with the same template."""

    rules = (
        Rule(
            cel="has(self.minCount) ? self.minCount <= self.count : true",
            message="minCount should be positive and less or equal to count",
            check=lambda own, _: "minCount" not in own or own["minCount"] <= own["count"],
        ),
    )
    template: Annotated[PodTemplate, about("The pods.")]
    name: Annotated[PodSetName, about("Name within the workload.")] = "main"
    count: Annotated[Int32, about("Number of pods.", minimum=0)] = 1
    min_count: Annotated[Int32 | None, about("Fewest pods with which the job can start.", minimum=1)] = None
    topology_request: PodSetTopologyRequest | None = None


class PriorityClassReference(Part):
    """The class that gave the workload its priority."""

    rules = (
        Rule(
            cel="(self.group == 'scheduling.k8s.io') ? self.kind == 'PriorityClass' : true",
            message="only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            check=lambda own, _: own["group"] != "scheduling.k8s.io" or own["kind"] == "PriorityClass",
        ),
        Rule(
            cel="(self.group == 'kueue.x-k8s.io') ? self.kind == 'WorkloadPriorityClass' : true",
            message="only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
            check=lambda own, _: own["group"] != "kueue.x-k8s.io" or own["kind"] == "WorkloadPriorityClass",
        ),
    )
    group: Annotated[Literal["kueue.x-k8s.io", "scheduling.k8s.io"], about("API group of the class.")]
    kind: Annotated[Literal["WorkloadPriorityClass", "PriorityClass"], about("Kind of the class.")]
    name: Annotated[str, about("Name of the class.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]


class PreemptionGate(Part):
    """A gate that must open before this workload may preempt."""

    name: Annotated[GateName, about("Name of the gate.")]


class WorkloadSpec(Part):
    """The pods of the job, its queue and its priority."""

    rules = (
        Rule(
            cel="!has(self.priorityClassRef) || has(self.priority)",
            message="priority should not be nil when priorityClassRef is set",
            check=lambda own, _: "priorityClassRef" not in own or "priority" in own,
        ),
    )
    pod_sets: Annotated[
        tuple[PodSet, ...],
        about("The pods, in sets of alike ones.", min_items=1, max_items=18, list_map_keys=("name",)),
    ] = ()
    queue_name: Annotated[Name | None, about("LocalQueue in which the workload waits.")] = None
    priority_class_ref: PriorityClassReference | None = None
    priority: Annotated[Int32 | None, about("Higher goes first.")] = None
    active: Annotated[bool, about("A workload that is not active is neither admitted nor kept running.")] = True
    maximum_execution_time_seconds: Annotated[
        Int32 | None, about("Longest time as admitted; then the workload is deactivated.", minimum=1)
    ] = None
    preemption_gates: Annotated[
        tuple[PreemptionGate, ...],
        about("Gates that hold preemption back until they open.", max_items=8, list_map_keys=("name",)),
    ] = ()


class PodSetAssignment(Part):
    """The flavors and resources that were assigned to a pod set."""

    name: Annotated[PodSetName, about("Pod set.")] = "main"
    flavors: Annotated[dict[str, Name] | None, about("Flavor for each resource.")] = None
    resource_usage: Annotated[Resources | None, about("Amount of each resource for all its pods.")] = None
    count: Annotated[Int32 | None, about("Pods that were admitted.", minimum=0)] = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Annotated[
        Literal["Pending", "Ready"] | None, about("Whether placing waits for nodes to be provisioned.", max_length=7)
    ] = None


class Admission(Part):
    """The ClusterQueue that admitted the workload, and the assignments of its pod sets."""

    cluster_queue: Annotated[Name | None, about("ClusterQueue whose quota is reserved.")] = None
    pod_set_assignments: Annotated[
        tuple[PodSetAssignment, ...], about("One entry for each pod set.", max_items=18, list_map_keys=("name",))
    ] = ()


class RequeueState(Part):
    """The state of requeuing an evicted workload."""

    count: Annotated[Int32 | None, about("Times it was requeued.", minimum=0)] = None
    requeue_at: Annotated[Time | None, about("When it may be considered again.")] = None


class ReclaimablePod(Part):
    """Pods that no longer need their quota."""

    name: Annotated[PodSetName, about("Pod set.")]
    count: Annotated[Int32, about("Pods that are done.", minimum=0)]


class PodSetUpdate(Part):
    """What an admission check adds to the pods of a pod set."""

    name: Annotated[PodSetName, about("Pod set.")]
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: Tolerations = ()


class AdmissionCheckState(Part):
    """The state of one admission check."""

    name: Annotated[CheckName, about("AdmissionCheck.")]
    state: Annotated[Literal["Pending", "Ready", "Retry", "Rejected"], about("The answer.")]
    last_transition_time: Annotated[Time, about("When the state last changed.")]
    message: Annotated[str, about("The answer in words.", max_length=32768)]
    pod_set_updates: Annotated[
        tuple[PodSetUpdate, ...], about("Changes to the pods.", max_items=18, list_type="atomic")
    ] = ()
    requeue_after_seconds: Annotated[Int32 | None, about("Least wait before a retry.", minimum=0)] = None
    retry_count: Annotated[Int32 | None, about("Times the check asked for a retry.", minimum=0)] = None


class PodSetRequest(Part):
    """The resources that a pending pod set requests, as counted against quota."""

    name: Annotated[PodSetName, about("Pod set.")]
    resources: Annotated[Resources | None, about("Amount of each resource for all its pods.")] = None


class EvictionCount(Part):
    """How often a workload was evicted for one reason."""

    reason: Annotated[str, about("Reason of the eviction.", max_length=316)]
    underlying_cause: Annotated[str, about("What lay behind it; may be empty.", max_length=316)]
    count: Annotated[Int32, about("Times.", minimum=0)]


class SchedulingStats(Part):
    """Statistics of the workload's scheduling."""

    evictions: Annotated[
        tuple[EvictionCount, ...],
        about("Evictions by reason.", max_items=256, list_map_keys=("reason", "underlyingCause")),
    ] = ()


class UnhealthyNode(Part):
    """A failed node on which the workload has pods."""

    name: Annotated[str, about("Node.", max_length=63)]


class PreemptionGateState(Part):
    """The state of a preemption gate."""

    name: Annotated[GateName, about("Name of the gate.")]
    position: Annotated[Literal["Closed", "Open"], about("Open lets the workload preempt.")]
    last_transition_time: Annotated[Time, about("When the gate last moved.")]


class WorkloadStatus(Part):
    """The observed state of the workload."""

    rules = (
        Rule(
            cel="!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
            message="clusterName is immutable once set",
            check=lambda new, old: (
                "clusterName" not in old or "clusterName" not in new or old["clusterName"] == new["clusterName"]
            ),
        ),
        Rule(
            cel=(
                "!has(self.clusterName) || (!has(self.nominatedClusterNames) || "
                "(has(self.nominatedClusterNames) && size(self.nominatedClusterNames) == 0))"
            ),
            message="clusterName and nominatedClusterNames are mutually exclusive",
            check=lambda own, _: "clusterName" not in own or not own.get("nominatedClusterNames"),
        ),
    )
    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[
        tuple[ReclaimablePod, ...], about("Pods whose quota is free again.", max_items=18, list_map_keys=("name",))
    ] = ()
    admission_checks: Annotated[
        tuple[AdmissionCheckState, ...], about("Answers of the admission checks.", max_items=8, list_map_keys=("name",))
    ] = ()
    resource_requests: Annotated[
        tuple[PodSetRequest, ...], about("Requests while waiting.", max_items=18, list_map_keys=("name",))
    ] = ()
    accumulated_past_execution_time_seconds: Annotated[
        Int32, about("Time as admitted before the last eviction.", default=ABSENT)
    ] = 0
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[
        tuple[ClusterName, ...], about("Worker clusters that may take it.", max_items=20, list_type="atomic")
    ] = ()
    cluster_name: Annotated[ClusterName | None, about("Worker cluster that took it.")] = None
    unhealthy_nodes: Annotated[
        tuple[UnhealthyNode, ...], about("Failed nodes with pods of it.", max_items=8, list_map_keys=("name",))
    ] = ()
    preemption_gates: Annotated[
        tuple[PreemptionGateState, ...], about("Positions of its gates.", max_items=8, list_map_keys=("name",))
    ] = ()


class Workload(Part):
    """A unit of admission: all its pods start together, or none."""

    rules = workload_rules.RULES
    metadata: ObjectMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)
