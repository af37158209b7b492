"""Converts Workloads to engine values: requests, admission and conditions.

Called by the scheduler for every change of a Workload, and by replays. If the namespace has
LimitRanges or the pods name a RuntimeClass, the caller applies `requests.adjusted` to the object
first.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from pykueue.api import conditions, errors, limit_range, objects, times
from pykueue.api.labels import (
    ADMISSION_GATED_BY,
    ELASTIC_JOB,
    IS_GROUP_WORKLOAD,
    JOB_UID,
    PRIORITY_BOOST,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from pykueue.api.rules.jobs import pod
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import devices, nodes, requests, selectors, variants

MOST_SHARED = 2048
LARGEST_SHARED_BYTES = 8192


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that change how a Workload is read."""

    rules: requests.RequestRules = msgspec.field(default_factory=requests.RequestRules)
    device_rules: devices.DeviceRules = msgspec.field(default_factory=devices.DeviceRules)
    computes_hash: bool = True
    honors_admission_gates: bool = True
    honors_priority_boost: bool = False
    replaces_slices: bool = True
    respects_preferred_affinity: bool = False
    """Whether pods are placed by preferred node affinity (TASRespectNodeAffinityPreferred)."""
    admits_concurrently: bool = False
    """Whether Workloads may have variants. Set by the gate ConcurrentAdmission."""
    refuses_levels_of_elastic_jobs: bool = False
    """Whether elastic jobs may not request topology levels.

    Set by the gate ElasticJobsViaWorkloadSlicesWithTAS.
    """
    keeps_nodes_of_single_pods: bool = True
    """Whether a single pod keeps its topology assignment.

    Set by the gate SkipReassignmentForPodOwnedWorkloads.
    """


def key(obj: Object) -> values.WorkloadKey:
    metadata = obj["metadata"]
    return values.WorkloadKey(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


class PodSetValues(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod sets and the priority of a Workload decide. Equal Workloads may share it."""

    pod_sets: tuple[values.PodSet, ...]
    scheduling_hash: str
    invalid_requests: values.InvalidRequests | None
    may_claim_devices: bool


class WorkloadTranslator:
    """Translates Workloads; those with equal pod sets share the engine values of the pod sets.

    A status changes often and pod sets hardly ever, and the Workloads of a queue look alike.
    """

    def __init__(self, options: WorkloadOptions) -> None:
        self._options = options
        self._pod_sets: dict[bytes, PodSetValues] = {}
        self._admissions: dict[bytes, values.Admission] = {}

    def workload(
        self,
        obj: Object,
        *,
        limit_ranges: Sequence[Object] = (),
        runtime_classes: Mapping[str, Object],
        count_devices: Callable[[Object], devices.DeviceCounts | devices.DeviceFault],
        arrival: int = 0,
    ) -> values.Workload:
        """The Workload after the LimitRanges and RuntimeClasses are applied to its pods."""
        shared = None if limit_ranges or runtime_classes else self._shared_pod_sets(obj)
        if shared is None or shared.may_claim_devices:
            adjusted = requests.adjusted(obj, runtime_classes=runtime_classes, limit_ranges=limit_ranges)
            counted = count_devices(adjusted)
            if shared is None or counted != devices.NO_DEVICES:
                summary = limit_range.summarize(limit_ranges)
                return workload(adjusted, self._options, summary, counted, arrival=arrival)
        return _workload(
            obj,
            self._options,
            pod_set_values=shared,
            admission=self._shared_admission(obj) if _has_admission(obj) else None,
            arrival=arrival,
        )

    def _shared_pod_sets(self, obj: Object) -> PodSetValues:
        status = objects.status(obj)
        inputs = (
            obj["spec"].get("podSets"),
            _priority(obj, self._options),
            status.get("reclaimablePods"),
            status.get("admissionChecks"),
        )
        encoded = msgspec.json.encode(inputs)
        shared = self._pod_sets.get(encoded)
        if shared is None:
            adjusted = requests.adjusted(obj, runtime_classes={}, limit_ranges=())
            shared = _pod_set_values(adjusted, self._options, {}, devices.NO_DEVICES)
            _remember(self._pod_sets, encoded, shared)
        return shared

    def _shared_admission(self, obj: Object) -> values.Admission:
        status = obj["status"]
        inputs = (obj["spec"].get("podSets"), status["admission"], status.get("reclaimablePods"))
        encoded = msgspec.json.encode(inputs)
        shared = self._admissions.get(encoded)
        if shared is None:
            adjusted = requests.adjusted(obj, runtime_classes={}, limit_ranges=())
            shared = _admission(adjusted, self._options)
            _remember(self._admissions, encoded, shared)
        return shared


def _remember(shared: dict[bytes, Any], encoded: bytes, value: Any) -> None:
    if len(encoded) > LARGEST_SHARED_BYTES:
        return
    if len(shared) >= MOST_SHARED:
        del shared[next(iter(shared))]
    shared[encoded] = value


def workload(
    obj: Object,
    options: WorkloadOptions,
    limit_ranges: limit_range.Summary | None = None,
    counted: devices.DeviceCounts | devices.DeviceFault = devices.NO_DEVICES,
    *,
    arrival: int = 0,
) -> values.Workload:
    """A Workload whose devices cannot be counted is admission-gated, so it is not queued."""
    is_faulty = isinstance(counted, devices.DeviceFault)
    device_counts = devices.NO_DEVICES if isinstance(counted, devices.DeviceFault) else counted
    return _workload(
        obj,
        options,
        pod_set_values=_pod_set_values(obj, options, limit_ranges or {}, device_counts),
        admission=_admission(obj, options) if _has_admission(obj) else None,
        arrival=arrival,
        is_faulty=is_faulty,
    )


def _pod_set_values(
    obj: Object, options: WorkloadOptions, limit_ranges: limit_range.Summary, device_counts: devices.DeviceCounts
) -> PodSetValues:
    pod_sets = _pod_sets(obj, options, device_counts)
    templates, priority = obj["spec"].get("podSets") or (), _priority(obj, options)
    return PodSetValues(
        pod_sets=pod_sets,
        scheduling_hash=scheduling_hash(templates, pod_sets, priority) if options.computes_hash else "",
        invalid_requests=invalid_requests(obj, limit_ranges),
        may_claim_devices=devices.may_claim(obj),
    )


def _priority(obj: Object, options: WorkloadOptions) -> int:
    return int(obj["spec"].get("priority") or 0) + _boost(obj, options)


def _boost(obj: Object, options: WorkloadOptions) -> int:
    return _priority_boost(objects.annotations(obj)) if options.honors_priority_boost else 0


def _has_admission(obj: Object) -> bool:
    return bool(objects.status(obj).get("admission")) and conditions.is_true(obj, "QuotaReserved")


def _workload(
    obj: Object,
    options: WorkloadOptions,
    *,
    pod_set_values: PodSetValues,
    admission: values.Admission | None,
    arrival: int,
    is_faulty: bool = False,
) -> values.Workload:
    metadata, spec, status = obj["metadata"], obj["spec"], objects.status(obj)
    namespace = objects.namespace(obj)
    annotations = objects.annotations(obj)
    by_type = conditions.by_type(obj)
    reserved = by_type.get("QuotaReserved")
    is_reserved = conditions.has_status_true(reserved)
    flavors = _allowed_flavors(obj) if options.admits_concurrently else None
    return values.Workload(
        key=key(obj),
        uid=metadata.get("uid", ""),
        namespace=namespace,
        local_queue=values.LocalQueueKey(f"{namespace}/{spec.get('queueName', '')}"),
        created_at_ns=times.to_ns(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else 0,
        pod_sets=pod_set_values.pod_sets,
        arrival=arrival,
        priority=_priority(obj, options),
        priority_boost=_boost(obj, options),
        generation=int(metadata.get("generation") or 0),
        scheduling_hash=_hash_with_flavors(pod_set_values.scheduling_hash, flavors),
        job_uid=objects.labels(obj).get(JOB_UID, ""),
        active=spec.get("active", True) is not False,
        finished=conditions.has_status_true(by_type.get("Finished")),
        on_hold=reserved is not None and not is_reserved and reserved.get("reason") == "OnHold",
        admission_gated=is_faulty or (options.honors_admission_gates and bool(annotations.get(ADMISSION_GATED_BY))),
        waiting_for_replacement_pods=conditions.has_status_true(by_type.get("WaitingForReplacementPods")),
        closed_preemption_gate=has_closed_preemption_gate(obj),
        parent_uid=variants.parent_uid(obj) if options.admits_concurrently else "",
        allowed_flavors=flavors,
        invalid_requests=pod_set_values.invalid_requests,
        admission=admission,
        reserved_at_ns=conditions.transition_ns(reserved) if is_reserved else None,
        admitted=conditions.has_status_true(by_type.get("Admitted")),
        eviction=_eviction(by_type.get("Evicted")),
        preemption=_eviction(by_type.get("Preempted")),
        requeued=_truth(by_type.get("Requeued")),
        requeue_at_ns=_requeue_at_ns(status),
        check_states={
            values.CheckName(check["name"]): values.CheckState(check.get("state") or "Pending")
            for check in status.get("admissionChecks") or ()
        },
        pods_ready=conditions.has_status_true(by_type.get("PodsReady")),
        unhealthy_nodes=tuple(node["name"] for node in status.get("unhealthyNodes") or ()),
        replaces=_replaced_slice(annotations) if options.replaces_slices else None,
        refuses_levels=options.refuses_levels_of_elastic_jobs and annotations.get(ELASTIC_JOB) == "true",
        keeps_failed_nodes=options.keeps_nodes_of_single_pods and is_of_one_pod(obj),
    )


def with_variants(value: values.Workload) -> values.Workload:
    """A parent of variants: it neither queues nor uses quota."""
    return structs.replace(value, has_variants=True, admission=None, reserved_at_ns=None)


def _allowed_flavors(obj: Object) -> tuple[values.FlavorName, ...] | None:
    names = variants.allowed_flavors(obj)
    return None if names is None else tuple(values.FlavorName(name) for name in names)


def _hash_with_flavors(scheduling_hash: str, flavors: tuple[values.FlavorName, ...] | None) -> str:
    """Variants of different flavors are not scheduled alike."""
    return scheduling_hash if not scheduling_hash or flavors is None else f"{scheduling_hash}:{','.join(flavors)}"


def _replaced_slice(annotations: Object) -> values.WorkloadKey | None:
    key = annotations.get(WORKLOAD_SLICE_REPLACEMENT_FOR)
    return None if key is None else values.WorkloadKey(key)


def has_closed_preemption_gate(obj: Object) -> bool:
    """A gate without an entry in the status is closed, so it can be closed at creation."""
    gates = obj["spec"].get("preemptionGates")
    if not gates:
        return False
    positions = {gate["name"]: gate["position"] for gate in objects.nested_list(obj, "status", "preemptionGates")}
    return any(positions.get(gate["name"], "Closed") == "Closed" for gate in gates)


def is_of_one_pod(obj: Object) -> bool:
    """Whether the job of the Workload is a single pod, not a pod group."""
    owners = objects.owner_references(obj)
    if objects.annotations(obj).get(IS_GROUP_WORKLOAD) == "true":
        return False
    return len(owners) == 1 and (owners[0]["apiVersion"], owners[0]["kind"]) == ("v1", "Pod")


def invalid_requests(obj: Object, limit_ranges: limit_range.Summary) -> values.InvalidRequests | None:
    """Why no ClusterQueue may admit these requests; None if they are valid."""
    pod_sets = obj["spec"].get("podSets") or ()
    if faults := [*limit_range.requests_above_limits(pod_sets), *requests.understated_requests(pod_sets)]:
        rule = values.RequestsRule.WITHIN_LIMITS
    elif faults := requests.limit_range_errors(obj, limit_ranges):
        rule = values.RequestsRule.LIMIT_RANGE
    else:
        return None
    return values.InvalidRequests(rule=rule, field_errors=errors.aggregate(faults))


def _pod_sets(obj: Object, options: WorkloadOptions, device_counts: devices.DeviceCounts) -> tuple[values.PodSet, ...]:
    pod_sets = obj["spec"].get("podSets") or ()
    counted = requests.requests_of_pod_sets(obj, options.rules, device_counts)
    return tuple(_pod_set(obj, pod_set, totals, options) for pod_set, totals in zip(pod_sets, counted, strict=True))


def _pod_set(obj: Object, pod_set: Object, totals: requests.PodSetRequests, options: WorkloadOptions) -> values.PodSet:
    pod_spec = objects.nested(pod_set, "template", "spec")
    updates = _ready_updates(obj, totals.name)
    return values.PodSet(
        name=values.PodSetName(totals.name),
        count=totals.count,
        spec_count=int(pod_set.get("count", 0)),
        min_count=pod_set.get("minCount"),
        requests={values.ResourceName(name): amount for name, amount in totals.requests.items()},
        tolerations=selectors.tolerations(pod_spec.get("tolerations")),
        node_selector=dict(pod_spec.get("nodeSelector") or {}),
        affinity_terms=selectors.affinity_terms(pod_spec),
        preferred_terms=selectors.preferred_terms(pod_spec) if options.respects_preferred_affinity else (),
        topology_request=topology_request(pod_set.get("topologyRequest")),
        pod_requests=nodes.pod_requests(pod_spec),
        checked_node_selector={
            key: value for update in updates for key, value in (update.get("nodeSelector") or {}).items()
        },
        checked_tolerations=selectors.tolerations(
            toleration for update in updates for toleration in update.get("tolerations") or ()
        ),
    )


def _ready_updates(obj: Object, pod_set: str) -> list[Object]:
    """The pod set updates of the admission checks that are ready."""
    return [
        update
        for check in objects.status(obj).get("admissionChecks") or ()
        if check.get("state") == "Ready"
        for update in check.get("podSetUpdates") or ()
        if update["name"] == pod_set
    ]


def topology_request(request: Object | None) -> values.TopologyRequest | None:
    if request is None:
        return None
    return values.TopologyRequest(
        group=request.get("podSetGroupName"),
        required=request.get("required"),
        preferred=request.get("preferred"),
        unconstrained=request.get("unconstrained"),
        slices=_slices(request),
    )


def _slices(request: Object) -> tuple[values.SliceLayer, ...]:
    """The slice layers; a single layer may be given by two fields instead of the list."""
    layers = list(request.get("podsetSliceRequiredTopologyConstraints") or ())
    if not layers and request.get("podSetSliceRequiredTopology") is not None:
        layers = [{"topology": request["podSetSliceRequiredTopology"], "size": request.get("podSetSliceSize") or 0}]
    return tuple(values.SliceLayer(topology=layer["topology"], size=int(layer["size"])) for layer in layers)


def _admission(obj: Object, options: WorkloadOptions) -> values.Admission:
    delayed = {
        assignment["name"]: values.DelayedTopology(assignment["delayedTopologyRequest"])
        for assignment in obj["status"]["admission"].get("podSetAssignments") or ()
        if assignment.get("delayedTopologyRequest")
    }
    return values.Admission(
        cluster_queue=values.ClusterQueueName(obj["status"]["admission"].get("clusterQueue", "")),
        pod_sets=tuple(
            values.PodSetAdmission(
                name=values.PodSetName(totals.name),
                flavors={
                    values.ResourceName(name): values.FlavorName(flavor) for name, flavor in totals.flavors.items()
                },
                usage={values.ResourceName(name): amount for name, amount in totals.requests.items()},
                count=totals.count,
                topology=_topology(totals.placement),
                delayed_topology=delayed.get(totals.name),
            )
            for totals in requests.total_requests(obj, options.rules)
        ),
    )


def _topology(placement: requests.PodSetPlacement | None) -> values.TopologyAssignment | None:
    if placement is None:
        return None
    return values.TopologyAssignment(
        levels=placement.levels,
        domains=tuple(values.TopologyDomain(domain.values, domain.count) for domain in placement.domains),
    )


def _eviction(condition: Object | None) -> values.EvictionCondition | None:
    if condition is None or not conditions.has_status_true(condition):
        return None
    return values.EvictionCondition(reason=condition.get("reason", ""), at_ns=conditions.transition_ns(condition) or 0)


def _truth(condition: Object | None) -> bool | None:
    return None if condition is None else conditions.has_status_true(condition)


def _requeue_at_ns(status: Object) -> int | None:
    requeue_at = (status.get("requeueState") or {}).get("requeueAt")
    return times.to_ns(requeue_at) if requeue_at else None


def _priority_boost(annotations: Object) -> int:
    try:
        return int(annotations.get(PRIORITY_BOOST, "0"))
    except ValueError:
        return 0


_ENCODER = msgspec.json.Encoder(order="deterministic")


def scheduling_hash(templates: Sequence[Object], pod_sets: Sequence[values.PodSet], effective_priority: int) -> str:
    """A hash that is equal for workloads which the scheduler cannot distinguish.

    If one of them does not fit, the others in the same queue need not be tried. `templates` are
    the pod sets of the object, `pod_sets` are the engine values made from them.
    """
    fields = {
        "priority": effective_priority,
        "podSets": [
            {
                "name": pod_set.name,
                "spec": scheduling_fields(objects.nested(template, "template", "spec")),
                "count": pod_set.count,
                "requests": pod_set.requests,
                "minCount": pod_set.min_count,
                "topologyRequest": template.get("topologyRequest"),
            }
            for template, pod_set in zip(templates, pod_sets, strict=True)
        ],
    }
    return hashlib.sha256(_ENCODER.encode(fields)).hexdigest()[:16]


def scheduling_fields(pod_spec: Object) -> Mapping[str, Any]:
    """The fields of a pod spec that decide on which nodes it may run."""
    fields = {name: pod_spec.get(name) for name in pod.ROLE_FIELDS}
    for name in ("initContainers", "containers"):
        fields[name] = [
            {"requests": (container.get("resources") or {}).get("requests"), "ports": container.get("ports")}
            for container in pod_spec.get(name) or ()
        ]
    if pod_spec.get("resources") is not None:
        fields["resources"] = pod_spec["resources"].get("requests")
    return fields
