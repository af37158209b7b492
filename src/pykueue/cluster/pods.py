"""Facts about one Pod, and pods from templates, for every controller of the cluster.

Functions without I/O.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pykueue.api import conditions, objects, times
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object

FINAL_PHASES = ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    return str(objects.status(pod).get("phase", "Pending"))


def is_finished(pod: Object) -> bool:
    return phase(pod) in FINAL_PHASES


def is_active(pod: Object) -> bool:
    return not is_finished(pod) and not objects.is_deleted(pod)


def is_terminating(pod: Object) -> bool:
    return not is_finished(pod) and objects.is_deleted(pod)


def is_ready(pod: Object) -> bool:
    return conditions.is_true(pod, "Ready")


def node_name(pod: Object) -> str:
    return str(objects.spec(pod).get("nodeName") or "")


def containers(pod_spec: Object) -> list[Object]:
    """Init containers, then main containers."""
    return [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]


def container_statuses(pod: Object) -> list[Object]:
    """Statuses of main containers, then of init containers."""
    status = objects.status(pod)
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def ephemeral_containers(pod_spec: Object) -> list[Object]:
    """Containers that were added for debugging; they change nothing of the pod's life."""
    return list(pod_spec.get("ephemeralContainers") or ())


def ephemeral_statuses(pod: Object) -> list[Object]:
    return list(objects.status(pod).get("ephemeralContainerStatuses") or ())


def restarts(pod: Object) -> int:
    return sum(int(status.get("restartCount", 0)) for status in container_statuses(pod))


def finished_at(pod: Object) -> datetime:
    """When the last container ended, or else the pod became unready or was deleted."""
    if (latest := _last_container_end(pod)) is not None:
        return latest
    ready = conditions.find(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if objects.is_deleted(pod):
        grace = times.span(metadata.get("deletionGracePeriodSeconds") or 0)
        return times.parse(metadata["deletionTimestamp"]) - grace
    return times.parse(metadata["creationTimestamp"])


def _last_container_end(pod: Object) -> datetime | None:
    status = objects.status(pod)
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    statuses = list(status.get("containerStatuses") or ())
    statuses += [entry for entry in status.get("initContainerStatuses") or () if entry.get("name") in sidecars]
    ends = [str(objects.nested(entry, "state", "terminated").get("finishedAt") or "") for entry in statuses]
    if not ends or not all(ends):
        return None
    return max(map(times.parse, ends))


def removal_order(pod: Object) -> tuple[Any, ...]:
    """Sort key for deletion: unassigned pods, then pending, unready, restarted, young ones."""
    metadata = pod["metadata"]
    return (
        bool(node_name(pod)),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_ready(pod),
        -restarts(pod),
        -times.parse(metadata.get("creationTimestamp") or "1970-01-01T00:00:00Z").timestamp(),
        metadata.get("name", ""),
    )


def from_template(
    template: Object, owner: Object, *, name: str = "", labels: Mapping[str, str] | None = None
) -> Object:
    """A pod from a template, controlled by `owner`; without a name, the API generates one."""
    template_metadata = objects.nested(template, "metadata")
    metadata: Object = {
        key: copied(template_metadata[key])
        for key in ("labels", "annotations", "finalizers")
        if template_metadata.get(key)
    }
    if labels:
        metadata["labels"] = metadata.get("labels", {}) | labels
    metadata |= {"name": name} if name else {"generateName": f"{objects.name(owner)}-"}
    metadata |= {"namespace": objects.namespace(owner), "ownerReferences": [objects.controller_reference(owner)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copied(objects.spec(template))}
