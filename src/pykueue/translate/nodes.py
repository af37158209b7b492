"""Converts Nodes, Topologies and the pods on nodes to engine values.

Called by the scheduler and by replays.
"""

from collections.abc import Mapping

from pykueue.api import conditions, objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import amounts, selectors
from pykueue.translate.jobs import topology_request

_TERMINAL_PHASES = ("Succeeded", "Failed")


def node(obj: Object) -> values.Node | None:
    """None if the node is cordoned or not ready, so that no pod may be placed on it."""
    spec = objects.spec(obj)
    if spec.get("unschedulable") or not is_ready(obj):
        return None
    return values.Node(
        name=obj["metadata"]["name"],
        labels=dict(objects.labels(obj)),
        taints=selectors.taints(spec.get("taints")),
        allocatable=_named(amounts.of_requests(objects.status(obj).get("allocatable"))),
    )


def is_ready(obj: Object) -> bool:
    return conditions.is_true(obj, "Ready")


def levels(obj: Object) -> tuple[str, ...]:
    """The node labels of a Topology, the widest level first."""
    return tuple(level["nodeLabel"] for level in objects.nested_list(obj, "spec", "levels"))


def is_terminated(pod: Object) -> bool:
    return objects.status(pod).get("phase") in _TERMINAL_PHASES


def uses_node(pod: Object) -> bool:
    """Whether the pod is bound to a node and has not terminated."""
    return bool(objects.spec(pod).get("nodeName")) and not is_terminated(pod)


def is_topology_aware(pod: Object) -> bool:
    """Whether the pod requests topology-aware scheduling; its workload then counts its usage."""
    return not objects.annotations(pod).keys().isdisjoint(topology_request.ANNOTATIONS)


def pod_requests(pod_spec: Object) -> dict[values.ResourceName, int]:
    """The requests of one pod on a node: all resources, also those that do not count for quota."""
    return _named(
        {name: resource_lists.amount(name, value) for name, value in resource_lists.pod_requests(pod_spec).items()}
    )


def _named(amounts_by_name: Mapping[str, int]) -> dict[values.ResourceName, int]:
    return {values.ResourceName(name): amount for name, amount in amounts_by_name.items()}
