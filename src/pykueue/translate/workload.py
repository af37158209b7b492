"""Workloads as engine values: what they ask for, what they hold, and what state they are in.

Called for every workload event by the scheduler's feed, and by replays. The object should be `requests.adjusted` first when
the namespace has LimitRanges or its pods name a RuntimeClass.
"""

from dataclasses import dataclass, field

from pykueue.api import conditions, errors, limit_range, times
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import devices, nodes, requests, scheduling_hash, selectors

ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
IS_GROUP = "kueue.x-k8s.io/is-group-workload"
REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
JOB_UID = "kueue.x-k8s.io/job-uid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parts of the configuration that decide how a workload is read."""

    rules: requests.Rules = field(default_factory=requests.Rules)
    device_rules: devices.DeviceRules = field(default_factory=devices.DeviceRules)
    hashes_shapes: bool = True
    honours_admission_gates: bool = True
    honours_priority_boost: bool = False
    replaces_slices: bool = True


def key(obj: Object) -> values.WorkloadKey:
    metadata = obj["metadata"]
    return values.WorkloadKey(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


def workload(
    obj: Object,
    options: Options,
    limit_ranges: limit_range.Summary | None = None,
    counted: devices.Counted | devices.Fault = devices.NO_DEVICES,
) -> values.Workload:
    """A workload whose devices cannot be counted is kept out of the queues."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    namespace = metadata.get("namespace", "")
    annotations = metadata.get("annotations") or {}
    boost = _priority_boost(annotations) if options.honours_priority_boost else 0
    priority = int(spec.get("priority") or 0) + boost
    found = conditions.by_type(obj)
    reserved = found.get("QuotaReserved")
    is_reserved = conditions.has_status_true(reserved)
    is_faulty = isinstance(counted, devices.Fault)
    pod_sets = _pod_sets(obj, options, devices.NO_DEVICES if isinstance(counted, devices.Fault) else counted)
    return values.Workload(
        key=key(obj),
        uid=metadata.get("uid", ""),
        namespace=namespace,
        local_queue=values.LocalQueueKey(f"{namespace}/{spec.get('queueName', '')}"),
        created_at_ns=times.to_ns(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else 0,
        pod_sets=pod_sets,
        priority=priority,
        priority_boost=boost,
        generation=int(metadata.get("generation") or 0),
        scheduling_hash=scheduling_hash.of_workload(spec.get("podSets") or (), pod_sets, priority)
        if options.hashes_shapes
        else "",
        job_uid=(metadata.get("labels") or {}).get(JOB_UID, ""),
        active=spec.get("active", True) is not False,
        finished=conditions.has_status_true(found.get("Finished")),
        on_hold=reserved is not None and not is_reserved and reserved.get("reason") == "OnHold",
        admission_gated=is_faulty or (options.honours_admission_gates and bool(annotations.get(ADMISSION_GATED_BY))),
        waiting_for_replacement_pods=conditions.has_status_true(found.get("WaitingForReplacementPods")),
        closed_preemption_gate=has_closed_preemption_gate(obj),
        invalid_requests=invalid_requests(obj, limit_ranges or {}),
        admission=_admission(obj, options) if is_reserved and status.get("admission") else None,
        reserved_at_ns=conditions.transition_ns(reserved) if is_reserved else None,
        admitted=conditions.has_status_true(found.get("Admitted")),
        eviction=_eviction(found.get("Evicted")),
        preemption=_eviction(found.get("Preempted")),
        requeued=_truth(found.get("Requeued")),
        requeue_at_ns=_requeue_at_ns(status),
        check_states={
            values.CheckName(check["name"]): values.CheckState(check.get("state") or "Pending")
            for check in status.get("admissionChecks") or ()
        },
        pods_ready=conditions.has_status_true(found.get("PodsReady")),
        unhealthy_nodes=tuple(node["name"] for node in status.get("unhealthyNodes") or ()),
        replaces=_replaced_slice(annotations) if options.replaces_slices else None,
        keeps_failed_nodes=is_of_one_pod(obj),
    )


def _replaced_slice(annotations: Object) -> values.WorkloadKey | None:
    key = annotations.get(REPLACEMENT_FOR)
    return None if key is None else values.WorkloadKey(key)


def has_closed_preemption_gate(obj: Object) -> bool:
    """A gate that only the spec names counts as closed, so that a workload can be created gated in one step."""
    positions = {gate["name"]: gate["position"] for gate in (obj.get("status") or {}).get("preemptionGates") or ()}
    return any(positions.get(gate["name"], "Closed") == "Closed" for gate in obj["spec"].get("preemptionGates") or ())


def is_of_one_pod(obj: Object) -> bool:
    """Its job is a single plain pod, not a group of them."""
    metadata = obj["metadata"]
    owners = list(metadata.get("ownerReferences") or ())
    if (metadata.get("annotations") or {}).get(IS_GROUP) == "true":
        return False
    return len(owners) == 1 and (owners[0]["apiVersion"], owners[0]["kind"]) == ("v1", "Pod")


def invalid_requests(obj: Object, limit_ranges: limit_range.Summary) -> values.InvalidRequests | None:
    """Why no ClusterQueue may admit these requests; None when they are valid."""
    if faults := limit_range.requests_above_limits(obj["spec"].get("podSets") or ()):
        rule = values.RequestsRule.WITHIN_LIMITS
    elif faults := requests.limit_range_errors(obj, limit_ranges):
        rule = values.RequestsRule.LIMIT_RANGE
    else:
        return None
    return values.InvalidRequests(rule=rule, field_errors=errors.aggregate(faults))


def _ready_updates(obj: Object, pod_set: str) -> list[Object]:
    """What admission checks that are ready add to the pods of a pod set."""
    return [
        update
        for check in (obj.get("status") or {}).get("admissionChecks") or ()
        if check.get("state") == "Ready"
        for update in check.get("podSetUpdates") or ()
        if update["name"] == pod_set
    ]


def _pod_sets(obj: Object, options: Options, device_counts: devices.Counted) -> tuple[values.PodSet, ...]:
    counted = requests.requests_of_pod_sets(obj, options.rules, device_counts)
    return tuple(
        values.PodSet(
            name=values.PodSetName(totals.name),
            count=totals.count,
            spec_count=int(pod_set.get("count", 0)),
            min_count=pod_set.get("minCount"),
            requests={values.ResourceName(name): amount for name, amount in totals.requests.items()},
            tolerations=selectors.tolerations(pod_set["template"]["spec"].get("tolerations")),
            node_selector=dict(pod_set["template"]["spec"].get("nodeSelector") or {}),
            affinity_terms=selectors.affinity_terms(pod_set["template"]["spec"]),
            topology_request=topology_request(pod_set.get("topologyRequest")),
            pod_requests=nodes.pod_requests(pod_set["template"]["spec"]),
            checked_node_selector={
                key: value
                for update in _ready_updates(obj, totals.name)
                for key, value in (update.get("nodeSelector") or {}).items()
            },
            checked_tolerations=selectors.tolerations(
                toleration
                for update in _ready_updates(obj, totals.name)
                for toleration in update.get("tolerations") or ()
            ),
        )
        for pod_set, totals in zip(obj["spec"].get("podSets") or (), counted, strict=True)
    )


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
    """One layer may be told in two fields of its own."""
    layers = list(request.get("podsetSliceRequiredTopologyConstraints") or ())
    if not layers and request.get("podSetSliceRequiredTopology") is not None:
        layers = [{"topology": request["podSetSliceRequiredTopology"], "size": request.get("podSetSliceSize") or 0}]
    return tuple(values.SliceLayer(topology=layer["topology"], size=int(layer["size"])) for layer in layers)


def _admission(obj: Object, options: Options) -> values.Admission:
    delayed = {
        assigned["name"]: values.DelayedTopology(assigned["delayedTopologyRequest"])
        for assigned in obj["status"]["admission"].get("podSetAssignments") or ()
        if assigned.get("delayedTopologyRequest")
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


def _topology(placement: requests.Placement | None) -> values.TopologyAssignment | None:
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
