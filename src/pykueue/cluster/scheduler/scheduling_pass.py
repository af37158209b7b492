"""One pass over the pods that wait for a node, as a generator of writes.

Called by `scheduler.controller`.
"""

import json
from collections.abc import Iterable
from datetime import datetime

from pykueue.api import conditions, objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import device_allocation, extended_resources, node_selection, preemption
from pykueue.cluster.scheduler.device_allocation import DevicePass, Unallocatable
from pykueue.cluster.scheduler.fleet import Fleet, NodeState
from pykueue.cluster.scheduler.node_selection import Unschedulable
from pykueue.kube.controller import writes

SCHEDULERS = ("", "default-scheduler")
_PREEMPTING = "default-scheduler: preempting to accommodate a higher priority pod"


def is_waiting(pod: Object) -> bool:
    """Whether the pod waits for this scheduler: active, not bound, without scheduling gates."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and pods.is_active(pod)
        and spec.get("schedulerName", "") in SCHEDULERS
    )


def queue_order(pod: Object) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return -preemption.priority(pod), metadata.get("creationTimestamp", ""), metadata["uid"]


def schedule(waiting: Iterable[Object], fleet: Fleet, now: datetime, devices: DevicePass | None = None) -> writes.Sync:
    """Bind the pods that fit, highest priority first; set PodScheduled=False on the others.

    The fleet counts each chosen pod at once, before its binding is written, and so do `devices`.
    """
    chosen: list[tuple[Object, str]] = []
    claims: dict[str, list[Object]] = {}
    status_writes: list[writes.Action] = []
    unschedulable_by_key: dict[str, Unschedulable] = {}
    for pod in sorted(waiting, key=queue_order):
        has_devices = devices is not None and device_allocation.may_need_devices(pod)
        has_claim = devices is not None and devices.has_extended_claim(pod)
        key = objects.uid(pod) if has_claim else _scheduling_key(pod)
        choice = unschedulable_by_key.get(key) or node_selection.choose(pod, fleet, devices if has_devices else None)
        if isinstance(choice, Unschedulable):
            unschedulable_by_key[key] = choice
            status_writes += _mark_unschedulable(pod, choice, fleet, now)
        else:
            fleet.assume(pod, choice)
            chosen.append((pod, choice))
            if has_devices and devices is not None:
                claims[objects.uid(pod)] = _reserve(pod, fleet.nodes[choice], devices)
    errors = yield from _create_claims(chosen, claims, fleet)
    errors += yield from _write_claims(chosen, claims, fleet)
    errors += yield from _bind(chosen, fleet, now)
    results = (yield status_writes) if status_writes else []
    return writes.Done(errors=(*errors, *writes.refusals(results)))


def _reserve(pod: Object, state: NodeState, devices: DevicePass) -> list[Object]:
    """The claims of a pod with devices of the chosen node, which are counted from now on."""
    claims = devices.claims(pod, state)
    assert not isinstance(claims, Unallocatable), "a node was chosen for the pod"
    allocated = devices.allocate(pod, claims, state.node)
    assert not isinstance(allocated, Unallocatable), "a node was chosen for the pod"
    devices.count(new for old, new in zip(claims, allocated, strict=True) if not objects.status(old).get("allocation"))
    return allocated


def _create_claims(chosen: list[tuple[Object, str]], claims: dict[str, list[Object]], fleet: Fleet) -> writes.Step:
    """Create the claims for extended resources, and name them in the statuses of their pods."""
    entries = [
        (pod, claim)
        for pod, _ in chosen
        for claim in claims.get(objects.uid(pod), ())
        if "uid" not in claim["metadata"]
    ]
    results = (yield [_creation(claim) for _, claim in entries]) if entries else []
    refused: set[str] = set()
    for (pod, claim), result in zip(entries, results, strict=True):
        own = claims[objects.uid(pod)]
        own.remove(claim)
        if isinstance(result, writes.Refused):
            refused.add(objects.uid(pod))
        else:
            own.append({**result, "status": claim["status"]})
    _drop(chosen, refused, fleet)
    batch = [
        _extended_claim_patch(pod, claim)
        for pod, _ in chosen
        for claim in claims.get(objects.uid(pod), ())
        if extended_resources.is_unnamed(pod, claim)
    ]
    status_results = (yield batch) if batch else []
    return (*writes.refusals(results), *writes.refusals(status_results))


def _creation(claim: Object) -> writes.Create:
    content = {name: claim[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    return writes.Create(resource=resources.RESOURCE_CLAIM, object=content)


def _extended_claim_patch(pod: Object, claim: Object) -> writes.Patch:
    return writes.Patch(
        resource=resources.POD,
        object=pod,
        patch={"status": {"extendedResourceClaimStatus": extended_resources.status_of(pod, claim)}},
        subresource="status",
        guarded=False,
    )


def _drop(chosen: list[tuple[Object, str]], refused: set[str], fleet: Fleet) -> None:
    """Bind no pod whose claims are refused; the next pass tries it again."""
    for uid in refused:
        fleet.remove_pod(uid)
    chosen[:] = [(pod, name) for pod, name in chosen if objects.uid(pod) not in refused]


def _write_claims(chosen: list[tuple[Object, str]], claims: dict[str, list[Object]], fleet: Fleet) -> writes.Step:
    """Write the allocations before the bindings; a pod whose claim is refused is not bound."""
    entries = [(pod, claim) for pod, _ in chosen for claim in claims.get(objects.uid(pod), ())]
    if not entries:
        return ()
    results = yield [
        writes.Patch(
            resource=resources.RESOURCE_CLAIM,
            object=claim,
            patch={"status": {name: claim["status"][name] for name in ("allocation", "reservedFor")}},
            subresource="status",
        )
        for _, claim in entries
    ]
    refused = {
        objects.uid(pod)
        for (pod, _), result in zip(entries, results, strict=True)
        if isinstance(result, writes.Refused)
    }
    _drop(chosen, refused, fleet)
    return writes.refusals(results)


def _scheduling_key(pod: Object) -> str:
    """What the filters read. Within one pass, all pods with a failed key fail."""
    spec = pod["spec"]
    if spec.get("resourceClaims"):
        return objects.uid(pod)
    constraints = [
        spec.get(key) for key in ("nodeSelector", "affinity", "tolerations", "resources", "overhead", "priority")
    ]
    containers = [
        container.get("resources") for key in ("containers", "initContainers") for container in spec.get(key) or ()
    ]
    labels = objects.labels(pod) if spec.get("affinity") else None
    return json.dumps([objects.namespace(pod), constraints, containers, labels], sort_keys=True)


def _bind(chosen: list[tuple[Object, str]], fleet: Fleet, now: datetime) -> writes.Step:
    if not chosen:
        return ()
    results = yield [
        writes.Patch(
            resource=resources.POD,
            object=pod,
            patch={"metadata": {"uid": objects.uid(pod)}, "spec": {"nodeName": name}},
            subresource="binding",
            guarded=False,
        )
        for pod, name in chosen
    ]
    status_writes: list[writes.Action] = []
    for (pod, name), result in zip(chosen, results, strict=True):
        if isinstance(result, writes.Refused):
            fleet.remove_pod(objects.uid(pod))
            continue
        if _has_stale_status(result):
            scheduled = {"type": "PodScheduled", "status": "True", "reason": None, "message": None}
            status_writes.append(_condition_patch(pod, scheduled, now, nominated=None))
        message = f"Successfully assigned {objects.namespace(pod)}/{objects.name(pod)} to {name}"
        status_writes.append(writes.Event(about=pod, type="Normal", reason="Scheduled", message=message))
    status_results = yield status_writes
    return (*writes.refusals(results), *writes.refusals(status_results))


def _has_stale_status(pod: Object) -> bool:
    """Whether an earlier pass set PodScheduled=False or nominated a node.

    For all other pods the kubelet's first status sets PodScheduled=True.
    """
    return conditions.find(pod, "PodScheduled") is not None or "nominatedNodeName" in objects.status(pod)


def _condition_patch(pod: Object, condition: Object, now: datetime, nominated: str | None) -> writes.Patch:
    stamped = condition | {"lastTransitionTime": times.to_text(now)}
    return writes.Patch(
        resource=resources.POD,
        object=pod,
        patch={"status": {"conditions": [stamped], "nominatedNodeName": nominated}},
        subresource="status",
        guarded=False,
        by_key=True,
    )


def _mark_unschedulable(pod: Object, unschedulable: Unschedulable, fleet: Fleet, now: datetime) -> list[writes.Action]:
    """Set PodScheduled=False if the message is new; preempt pods if that helps."""
    batch: list[writes.Action] = []
    nominated = objects.status(pod).get("nominatedNodeName")
    candidate = None if _awaits_victims(pod, fleet) else preemption.find(pod, unschedulable, fleet)
    if candidate is not None:
        batch += _evict(pod, candidate, now)
        nominated = candidate.node_name
    message = unschedulable.message()
    condition = conditions.find(pod, "PodScheduled")
    is_new = condition is None or condition.get("message") != message
    if is_new or candidate is not None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        batch.append(_condition_patch(pod, condition, now, nominated))
    if is_new:
        batch.append(writes.Event(about=pod, type="Warning", reason="FailedScheduling", message=message))
    return batch


def _awaits_victims(pod: Object, fleet: Fleet) -> bool:
    """Whether victims of an earlier pass still terminate on the pod's nominated node."""
    state = fleet.nodes.get(objects.status(pod).get("nominatedNodeName") or "")
    return state is not None and any(objects.is_deleted(other) for other in state.pods.values())


def _evict(pod: Object, candidate: preemption.PreemptionCandidate, now: datetime) -> list[writes.Action]:
    batch: list[writes.Action] = []
    for victim in candidate.victims:
        if objects.is_deleted(victim):
            continue
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": _PREEMPTING,
            "lastTransitionTime": times.to_text(now),
        }
        batch += [
            writes.Patch(
                resource=resources.POD,
                object=victim,
                patch={"status": {"conditions": [condition]}},
                subresource="status",
                guarded=False,
                by_key=True,
            ),
            writes.Delete(resource=resources.POD, object=victim),
            writes.Event(
                about=victim,
                type="Normal",
                reason="Preempted",
                message=f"Preempted by pod {objects.uid(pod)} on node {candidate.node_name}",
            ),
        ]
    return batch
