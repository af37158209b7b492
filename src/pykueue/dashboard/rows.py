"""Short rows of the objects that the page and `pykueue top` show, instead of whole objects.

The rows are a small part of the objects that they are made of. Amounts are numbers in base units
(CPUs, bytes, devices), times are seconds since the epoch. The order of a workload's fields is that
of `WORKLOAD_FIELDS`, which `static/store.js` repeats.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykueue.api import conditions, labels, objects, quantity, resource_lists, resources, times
from pykueue.api.scheme import Object, Resource

Row = list[Any]

QUOTA_FIELDS = (
    "flavor",
    "resource",
    "nominal",
    "borrowingLimit",
    "lendingLimit",
    "reserved",
    "reservedBorrowed",
    "used",
    "usedBorrowed",
)
"""The fields of a row in `quota` of a ClusterQueue."""
WORKLOAD_FIELDS = (
    "uid",
    "namespace",
    "name",
    "queue",
    "clusterQueue",
    "state",
    "priority",
    "priorityClass",
    "jobKind",
    "job",
    "user",
    "created",
    "reserved",
    "admitted",
    "finished",
    "requests",
    "pods",
    "message",
    "evictions",
    "cluster",
)
STATES = ("pending", "reserved", "starting", "running", "stopping", "stopped", "finished", "failed")
"""Of a workload: `reserved` waits for admission checks, `stopped` is inactive."""

_USER_LABELS = ("pykueue.dev/user", "user", "app.kubernetes.io/created-by")
_LONGEST_MESSAGE = 160
PREEMPTOR = re.compile(r"\(UID: ([^,()]{1,64})[^()]{0,512}\)(?: due to ([^;]{1,512}))?")
_ENDED = ("Succeeded", "Failed")


def workload(obj: Object) -> Row:
    spec, status = objects.spec(obj), objects.status(obj)
    by_type = conditions.by_type(obj)
    state = workload_state(obj, by_type)
    owner = next(iter(objects.owner_references(obj)), {})
    pod_sets = spec.get("podSets") or ()
    return [
        objects.uid(obj),
        objects.namespace(obj),
        objects.name(obj),
        spec.get("queueName", ""),
        objects.nested(status, "admission").get("clusterQueue", ""),
        state,
        spec.get("priority", 0),
        objects.nested(spec, "priorityClassRef").get("name", ""),
        owner.get("kind", ""),
        owner.get("name", ""),
        _user(obj),
        seconds(obj["metadata"].get("creationTimestamp")),
        _since(by_type, "QuotaReserved"),
        _since(by_type, "Admitted"),
        _since(by_type, "Finished"),
        _requests(pod_sets),
        sum(int(pod_set.get("count", 1)) for pod_set in pod_sets),
        _message(state, by_type),
        sum(int(entry.get("count", 0)) for entry in objects.nested_list(status, "schedulingStats", "evictions")),
        str(status.get("clusterName") or ""),
    ]


def workload_state(obj: Object, by_type: Mapping[str, Object]) -> str:
    true = {name for name, condition in by_type.items() if conditions.has_status_true(condition)}
    if "Finished" in true:
        return "failed" if by_type["Finished"].get("reason") == "Failed" else "finished"
    if "Evicted" in true and "QuotaReserved" in true:
        return "stopping"
    if objects.spec(obj).get("active") is False:
        return "stopped"
    if "Admitted" in true:
        is_starting = "PodsReady" in by_type and "PodsReady" not in true
        return "starting" if is_starting else "running"
    return "reserved" if "QuotaReserved" in true else "pending"


def preemption(obj: Object) -> dict[str, Any] | None:
    """Who preempted this workload, why, and how long it had run; None if nobody did."""
    by_type = conditions.by_type(obj)
    condition = by_type.get("Preempted")
    if condition is None or not conditions.has_status_true(condition):
        return None
    match = PREEMPTOR.search(condition.get("message", "")[:2000])
    preempted_at = seconds(condition.get("lastTransitionTime"))
    admitted_at = _since(by_type, "Admitted")
    return {
        "namespace": objects.namespace(obj),
        "name": objects.name(obj),
        "job": next(iter(objects.owner_references(obj)), {}).get("name", ""),
        "at": preempted_at,
        "by": match.group(1) if match else "",
        "reason": condition.get("reason", ""),
        "why": (match.group(2) or "") if match else condition.get("message", "")[:_LONGEST_MESSAGE],
        "ran": max(0, preempted_at - admitted_at) if admitted_at else None,
        "requests": _requests(objects.spec(obj).get("podSets") or ()),
        "clusterQueue": objects.nested(obj, "status", "admission").get("clusterQueue", ""),
    }


def cluster_queue(obj: Object) -> dict[str, Any]:
    spec, status = objects.spec(obj), objects.status(obj)
    active = conditions.find(obj, "Active") or {}
    reserved = _usage(status.get("flavorsReservation"))
    used = _usage(status.get("flavorsUsage"))
    return {
        "name": objects.name(obj),
        "cohort": spec.get("cohortName", ""),
        "stop": _stop_policy(spec),
        "strategy": spec.get("queueingStrategy", ""),
        "active": active.get("status") == "True",
        "reason": "" if active.get("status") == "True" else active.get("message", ""),
        "pending": status.get("pendingWorkloads", 0),
        "admitted": status.get("admittedWorkloads", 0),
        "reserving": status.get("reservingWorkloads", 0),
        "share": objects.nested(status, "fairSharing").get("weightedShare"),
        "quota": [[*entry, *_of(reserved, entry), *_of(used, entry)] for entry in _quotas(spec)],
    }


def local_queue(obj: Object) -> dict[str, Any]:
    spec, status = objects.spec(obj), objects.status(obj)
    active = conditions.find(obj, "Active") or {}
    return {
        "namespace": objects.namespace(obj),
        "name": objects.name(obj),
        "clusterQueue": spec.get("clusterQueue", ""),
        "stop": _stop_policy(spec),
        "active": active.get("status") == "True",
        "reason": "" if active.get("status") == "True" else active.get("message", ""),
        "pending": status.get("pendingWorkloads", 0),
        "admitted": status.get("admittedWorkloads", 0),
        "reserving": status.get("reservingWorkloads", 0),
        "usage": [[*key, *amounts] for key, amounts in _usage(status.get("flavorsReservation")).items()],
    }


def cohort(obj: Object) -> dict[str, Any]:
    spec = objects.spec(obj)
    return {"name": objects.name(obj), "parent": spec.get("parentName", ""), "quota": list(_quotas(spec))}


def resource_flavor(obj: Object) -> dict[str, Any]:
    spec = objects.spec(obj)
    return {
        "name": objects.name(obj),
        "labels": spec.get("nodeLabels") or {},
        "topology": spec.get("topologyName", ""),
    }


def topology(obj: Object) -> dict[str, Any]:
    levels = [level.get("nodeLabel", "") for level in objects.spec(obj).get("levels") or ()]
    return {"name": objects.name(obj), "levels": levels}


def node(obj: Object) -> dict[str, Any]:
    status = objects.status(obj)
    return {
        "name": objects.name(obj),
        "labels": objects.labels(obj),
        "ready": conditions.is_true(obj, "Ready"),
        "cordoned": bool(objects.spec(obj).get("unschedulable")),
        "taints": [taint.get("key", "") for taint in objects.spec(obj).get("taints") or ()],
        "amounts": _amounts(status.get("allocatable") or {}),
        "created": seconds(obj["metadata"].get("creationTimestamp")),
    }


def pod(obj: Object) -> dict[str, Any] | None:
    """None for a pod that is on no node, or has ended."""
    spec, phase = objects.spec(obj), objects.status(obj).get("phase", "")
    if not spec.get("nodeName") or phase in _ENDED:
        return None
    owner = objects.controller_of(obj) or {}
    pod_requests = resource_lists.pod_requests(spec)
    return {
        "namespace": objects.namespace(obj),
        "name": objects.name(obj),
        "node": spec["nodeName"],
        "phase": phase,
        "job": owner.get("name", ""),
        "workload": objects.annotations(obj).get(labels.WORKLOAD_ANNOTATION, ""),
        "amounts": {name: value.nano / quantity.NANO_PER_UNIT for name, value in pod_requests.items()},
    }


MakeRow = Callable[[Object], Any]

KINDS: tuple[tuple[Resource, MakeRow], ...] = (
    (resources.CLUSTER_QUEUE, cluster_queue),
    (resources.LOCAL_QUEUE, local_queue),
    (resources.COHORT, cohort),
    (resources.RESOURCE_FLAVOR, resource_flavor),
    (resources.TOPOLOGY, topology),
    (resources.NODE, node),
    (resources.WORKLOAD, workload),
    (resources.POD, pod),
)
"""The kinds of the page, in the order in which a page receives them."""


def _user(obj: Object) -> str:
    own = objects.labels(obj)
    return next((own[name] for name in _USER_LABELS if own.get(name)), "")


def _message(state: str, by_type: Mapping[str, Object]) -> str:
    """What the workload waits for, or how it ended."""
    name = {"pending": "QuotaReserved", "reserved": "Admitted", "stopping": "Evicted", "failed": "Finished"}.get(state)
    message = str(by_type.get(name or "", {}).get("message", ""))
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"


def _since(by_type: Mapping[str, Object], name: str) -> int:
    """When a condition became true; 0 if it is not."""
    condition = by_type.get(name)
    is_true = condition is not None and conditions.has_status_true(condition)
    return seconds(condition.get("lastTransitionTime")) if condition is not None and is_true else 0


def seconds(text: str | None) -> int:
    return times.to_ns(text) // times.SECOND_NS if text else 0


def _requests(pod_sets: Iterable[Object]) -> dict[str, float]:
    """What all pods of the pod sets request together."""
    total: dict[str, float] = {}
    for pod_set in pod_sets:
        template = objects.nested(pod_set, "template", "spec")
        for name, value in resource_lists.pod_requests(template).items():
            amount = value.nano / quantity.NANO_PER_UNIT * int(pod_set.get("count", 1))
            total[name] = total.get(name, 0) + amount
    return total


def _amounts(texts: Mapping[str, Any]) -> dict[str, float]:
    return {name: amount_of(text) for name, text in texts.items()}


def amount_of(text: Any) -> float:
    return quantity.parse(str(text)).nano / quantity.NANO_PER_UNIT


def _optional_amount(text: Any) -> float | None:
    return None if text is None else amount_of(text)


def _quotas(spec: Object) -> Iterable[Row]:
    """Rows of flavor, resource, nominal quota, borrowing limit and lending limit."""
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                yield [
                    flavor["name"],
                    resource["name"],
                    amount_of(resource.get("nominalQuota", "0")),
                    _optional_amount(resource.get("borrowingLimit")),
                    _optional_amount(resource.get("lendingLimit")),
                ]


def _usage(flavors: Iterable[Object] | None) -> dict[tuple[str, str], tuple[float, float]]:
    """Total and borrowed amount by flavor and resource."""
    return {
        (flavor["name"], resource["name"]): (
            amount_of(resource.get("total", "0")),
            amount_of(resource.get("borrowed", "0")),
        )
        for flavor in flavors or ()
        for resource in flavor.get("resources") or ()
    }


def _of(usage: Mapping[tuple[str, str], tuple[float, float]], entry: Row) -> tuple[float, float]:
    return usage.get((entry[0], entry[1]), (0.0, 0.0))


def _stop_policy(spec: Object) -> str:
    policy = str(spec.get("stopPolicy") or "None")
    return "" if policy == "None" else policy
