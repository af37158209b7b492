"""One pass over the pods that wait for a node, as a generator of writes. Called by the shell whenever something changed."""

import json
from collections.abc import Iterable
from datetime import datetime

from pykueue.api.scheme import Object
from pykueue.node import kinds, pods, statuses, times, writes
from pykueue.node.placement import choice, preemption
from pykueue.node.placement.choice import Unfit
from pykueue.node.placement.fleet import Fleet

SCHEDULERS = ("", "default-scheduler")
_PREEMPTING = "default-scheduler: preempting to accommodate a higher priority pod"


def is_waiting(pod: Object) -> bool:
    """Whether placement should look at it: unbound, ungated, alive, and ours."""
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


def place(waiting: Iterable[Object], fleet: Fleet, now: datetime) -> writes.Sync:
    """Binds what fits, in order of priority; tells the rest why not. The fleet is booked as the pass goes on."""
    errors: list[Exception] = []
    refused_shapes: dict[str, Unfit] = {}
    for pod in sorted(waiting, key=queue_order):
        shape = _shape(pod)
        unfit = refused_shapes.get(shape)
        chosen = unfit if unfit is not None else choice.choose(pod, fleet)
        if isinstance(chosen, Unfit):
            refused_shapes[shape] = chosen
            errors += yield from _leave(pod, chosen, fleet, now)
            continue
        errors += yield from _bind(pod, chosen, fleet, now)
    return writes.Done(errors=tuple(errors))


def _shape(pod: Object) -> str:
    """Pods of one shape meet the same fate in one pass: what is full now stays full until it ends."""
    spec = pod["spec"]
    wanted = [spec.get(key) for key in ("nodeSelector", "affinity", "tolerations", "resources", "overhead", "priority")]
    containers = [found.get("resources") for key in ("containers", "initContainers") for found in spec.get(key) or ()]
    labels = pods.labels(pod) if spec.get("affinity") else None
    return json.dumps([pods.namespace(pod), wanted, containers, labels], sort_keys=True)


def _bind(pod: Object, node_name: str, fleet: Fleet, now: datetime) -> writes.Step:
    fleet.assume(pod, node_name)
    scheduled = {"type": "PodScheduled", "status": "True"}
    conditions = statuses.with_condition(pod.get("status", {}).get("conditions") or (), scheduled, now)
    results = yield [
        writes.Patch(resource=kinds.POD, object=pod, patch={"spec": {"nodeName": node_name}}, guarded=False)
    ]
    if writes.refusals(results):
        fleet.remove_pod(pods.uid(pod))
        return writes.refusals(results)
    message = f"Successfully assigned {pods.namespace(pod)}/{pods.name(pod)} to {node_name}"
    results = yield [
        writes.Patch(
            resource=kinds.POD,
            object=pod,
            patch={"status": {"conditions": conditions, "nominatedNodeName": None}},
            subresource="status",
            guarded=False,
        ),
        writes.Record(about=pod, type="Normal", reason="Scheduled", message=message),
    ]
    return writes.refusals(results)


def _leave(pod: Object, unfit: Unfit, fleet: Fleet, now: datetime) -> writes.Step:
    """Says why the pod waits, once a reason; removes pods of lower priority if that helps."""
    batch: list[writes.Write] = []
    eviction = None if _is_nominated(pod, fleet) else preemption.find(pod, unfit, fleet)
    if eviction is not None:
        batch += _evict(pod, eviction, now)
    message = unfit.message()
    told = pods.condition(pod, "PodScheduled")
    status: Object = {}
    if told is None or told.get("message") != message:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status["conditions"] = statuses.with_condition(pod.get("status", {}).get("conditions") or (), condition, now)
        batch.append(writes.Record(about=pod, type="Warning", reason="FailedScheduling", message=message))
    if eviction is not None:
        status["nominatedNodeName"] = eviction.node_name
    if status:
        batch.append(
            writes.Patch(resource=kinds.POD, object=pod, patch={"status": status}, subresource="status", guarded=False)
        )
    results = (yield batch) if batch else []
    return writes.refusals(results)


def _is_nominated(pod: Object, fleet: Fleet) -> bool:
    """Victims of an earlier pass are still leaving the node chosen for this pod."""
    state = fleet.nodes.get(pod.get("status", {}).get("nominatedNodeName") or "")
    return state is not None and any(pods.is_deleted(found) for found in state.pods.values())


def _evict(pod: Object, eviction: preemption.Eviction, now: datetime) -> list[writes.Write]:
    batch: list[writes.Write] = []
    for victim in eviction.victims:
        if pods.is_deleted(victim):
            continue
        told = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": _PREEMPTING,
            "lastTransitionTime": times.text(now),
        }
        conditions = [*(victim.get("status", {}).get("conditions") or ()), told]
        batch += [
            writes.Patch(
                resource=kinds.POD,
                object=victim,
                patch={"status": {"conditions": conditions}},
                subresource="status",
                guarded=False,
            ),
            writes.Delete(resource=kinds.POD, object=victim),
            writes.Record(
                about=victim,
                type="Normal",
                reason="Preempted",
                message=f"Preempted by pod {pods.uid(pod)} on node {eviction.node_name}",
            ),
        ]
    return batch
