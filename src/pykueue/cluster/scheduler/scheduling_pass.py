"""One pass over the pods that wait for a node, as a generator of writes. Called by the shell whenever something changed."""

import json
from collections.abc import Iterable
from datetime import datetime

from pykueue.api import conditions, objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import choice, preemption
from pykueue.cluster.scheduler.choice import Unfit
from pykueue.cluster.scheduler.fleet import Fleet
from pykueue.kube.controller import writes

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
    chosen: list[tuple[Object, str]] = []
    telling: list[writes.Write] = []
    refused_shapes: dict[str, Unfit] = {}
    for pod in sorted(waiting, key=queue_order):
        shape = _shape(pod)
        choice_made = refused_shapes.get(shape) or choice.choose(pod, fleet)
        if isinstance(choice_made, Unfit):
            refused_shapes[shape] = choice_made
            telling += _leave(pod, choice_made, fleet, now)
        else:
            fleet.assume(pod, choice_made)
            chosen.append((pod, choice_made))
    errors = yield from _bind(chosen, fleet, now)
    results = (yield telling) if telling else []
    return writes.Done(errors=(*errors, *writes.refusals(results)))


def _shape(pod: Object) -> str:
    """Pods of one shape meet the same fate in one pass: what is full now stays full until it ends."""
    spec = pod["spec"]
    wanted = [spec.get(key) for key in ("nodeSelector", "affinity", "tolerations", "resources", "overhead", "priority")]
    containers = [found.get("resources") for key in ("containers", "initContainers") for found in spec.get(key) or ()]
    labels = objects.labels(pod) if spec.get("affinity") else None
    return json.dumps([objects.namespace(pod), wanted, containers, labels], sort_keys=True)


def _bind(chosen: list[tuple[Object, str]], fleet: Fleet, now: datetime) -> writes.Step:
    if not chosen:
        return ()
    results = yield [
        writes.Patch(resource=resources.POD, object=pod, patch={"spec": {"nodeName": name}}, guarded=False)
        for pod, name in chosen
    ]
    telling: list[writes.Write] = []
    for (pod, name), result in zip(chosen, results, strict=True):
        if isinstance(result, writes.Refused):
            fleet.remove_pod(objects.uid(pod))
            continue
        if _was_left_waiting(result):
            scheduled = {"type": "PodScheduled", "status": "True", "reason": None, "message": None}
            telling.append(_tell(pod, scheduled, now, nominated=None))
        message = f"Successfully assigned {objects.namespace(pod)}/{objects.name(pod)} to {name}"
        telling.append(writes.Event(about=pod, type="Normal", reason="Scheduled", message=message))
    told = yield telling
    return (*writes.refusals(results), *writes.refusals(told))


def _was_left_waiting(pod: Object) -> bool:
    """Its status tells so, and must tell otherwise now; of other pods the agent's first status says that they have a node."""
    return conditions.find(pod, "PodScheduled") is not None or "nominatedNodeName" in pod.get("status", {})


def _tell(pod: Object, condition: Object, now: datetime, nominated: str | None) -> writes.Patch:
    stamped = condition | {"lastTransitionTime": times.to_text(now)}
    return writes.Patch(
        resource=resources.POD,
        object=pod,
        patch={"status": {"conditions": [stamped], "nominatedNodeName": nominated}},
        subresource="status",
        guarded=False,
        by_key=True,
    )


def _leave(pod: Object, unfit: Unfit, fleet: Fleet, now: datetime) -> list[writes.Write]:
    """Says why the pod waits, once a reason; removes pods of lower priority if that helps."""
    batch: list[writes.Write] = []
    nominated = pod.get("status", {}).get("nominatedNodeName")
    eviction = None if _is_nominated(pod, fleet) else preemption.find(pod, unfit, fleet)
    if eviction is not None:
        batch += _evict(pod, eviction, now)
        nominated = eviction.node_name
    message = unfit.message()
    told = conditions.find(pod, "PodScheduled")
    is_news = told is None or told.get("message") != message
    if is_news or eviction is not None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        batch.append(_tell(pod, condition, now, nominated))
    if is_news:
        batch.append(writes.Event(about=pod, type="Warning", reason="FailedScheduling", message=message))
    return batch


def _is_nominated(pod: Object, fleet: Fleet) -> bool:
    """Victims of an earlier pass are still leaving the node chosen for this pod."""
    state = fleet.nodes.get(pod.get("status", {}).get("nominatedNodeName") or "")
    return state is not None and any(objects.is_deleted(found) for found in state.pods.values())


def _evict(pod: Object, eviction: preemption.Eviction, now: datetime) -> list[writes.Write]:
    batch: list[writes.Write] = []
    for victim in eviction.victims:
        if objects.is_deleted(victim):
            continue
        told = {
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
                patch={"status": {"conditions": [told]}},
                subresource="status",
                guarded=False,
                by_key=True,
            ),
            writes.Delete(resource=resources.POD, object=victim),
            writes.Event(
                about=victim,
                type="Normal",
                reason="Preempted",
                message=f"Preempted by pod {objects.uid(pod)} on node {eviction.node_name}",
            ),
        ]
    return batch
