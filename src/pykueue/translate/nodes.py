"""Nodes, Topologies and the pods that take room on nodes, as engine values. Called by the feed of the engine and by replays."""

from collections.abc import Mapping

from pykueue.api import resource_lists
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import amounts, selectors
from pykueue.translate.jobs import topology_request

_ENDED = ("Succeeded", "Failed")


def node(obj: Object) -> values.Node | None:
    """None while it takes no pods: cordoned, or not ready."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("unschedulable") or not is_ready(obj):
        return None
    return values.Node(
        name=obj["metadata"]["name"],
        labels=dict(obj["metadata"].get("labels") or {}),
        taints=selectors.taints(spec.get("taints")),
        allocatable=_named(amounts.of_requests(status.get("allocatable"))),
    )


def is_ready(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def levels(obj: Object) -> tuple[str, ...]:
    """Of a Topology, the widest first."""
    return tuple(level["nodeLabel"] for level in (obj.get("spec") or {}).get("levels") or ())


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def takes_room(pod: Object) -> bool:
    """It is on a node and has not ended."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not has_ended(pod)


def is_placed_by_us(pod: Object) -> bool:
    """Its template asked for a place, so its workload is charged for it."""
    annotations = pod["metadata"].get("annotations") or {}
    return any(name in annotations for name in topology_request.ANNOTATIONS)


def pod_requests(pod_spec: Object) -> dict[values.ResourceName, int]:
    """What one pod takes from a node: all that it asks for, whatever quota makes of it."""
    return _named(
        {name: resource_lists.amount(name, value) for name, value in resource_lists.pod_requests(pod_spec).items()}
    )


def _named(found: Mapping[str, int]) -> dict[values.ResourceName, int]:
    return {values.ResourceName(name): amount for name, amount in found.items()}
