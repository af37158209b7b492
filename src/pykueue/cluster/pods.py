"""Facts about one Pod that every controller of the machine room asks for. Pure functions on the object."""

import copy
from datetime import datetime, timedelta
from typing import Any

from pykueue.api import conditions, objects, times
from pykueue.api.scheme import Object

FINAL_PHASES = ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_finished(pod: Object) -> bool:
    return phase(pod) in FINAL_PHASES


def is_active(pod: Object) -> bool:
    return not is_finished(pod) and not objects.is_deleted(pod)


def is_terminating(pod: Object) -> bool:
    return not is_finished(pod) and objects.is_deleted(pod)


def is_ready(pod: Object) -> bool:
    ready = conditions.find(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def node_name(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def restarts(pod: Object) -> int:
    status = pod.get("status", {})
    return sum(
        int(container.get("restartCount", 0))
        for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    )


def finished_at(pod: Object) -> datetime:
    """When the pod ended: the last container's end, else when it became unready, else when deletion began."""
    if (latest := _last_container_end(pod)) is not None:
        return latest
    ready = conditions.find(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if objects.is_deleted(pod):
        return times.parse(metadata["deletionTimestamp"]) - timedelta(
            seconds=metadata.get("deletionGracePeriodSeconds") or 0
        )
    return times.parse(metadata["creationTimestamp"])


def _last_container_end(pod: Object) -> datetime | None:
    status = pod.get("status", {})
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    statuses = list(status.get("containerStatuses") or ())
    statuses += [found for found in status.get("initContainerStatuses") or () if found.get("name") in sidecars]
    ends = [str(((found.get("state") or {}).get("terminated") or {}).get("finishedAt") or "") for found in statuses]
    if not ends or not all(ends):
        return None
    return max(map(times.parse, ends))


def removal_order(pod: Object) -> tuple[Any, ...]:
    """Sort key: the pods that lose least come first (unassigned, pending, unready, restarted, young, by name)."""
    metadata = pod["metadata"]
    return (
        bool(node_name(pod)),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_ready(pod),
        -restarts(pod),
        -times.parse(metadata.get("creationTimestamp") or "1970-01-01T00:00:00Z").timestamp(),
        metadata.get("name", ""),
    )


def from_template(template: Object, owner: Object, *, generate_name: str = "") -> Object:
    """A pod as a controller of Kubernetes makes it from a template, owned by `owner`."""
    metadata = template.get("metadata") or {}
    made: Object = {
        key: copy.deepcopy(metadata[key]) for key in ("labels", "annotations", "finalizers") if metadata.get(key)
    }
    made["namespace"] = objects.namespace(owner)
    made["generateName"] = generate_name or f"{objects.name(owner)}-"
    made["ownerReferences"] = [objects.controller_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": copy.deepcopy(template.get("spec") or {})}
