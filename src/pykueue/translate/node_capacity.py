"""What nodes have of each resource: the largest node, and what pods leave free.

Called by `job_explanations`, for requests and remedies that no node has room for.
"""

from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import amounts
from pykueue.translate import nodes as node_values

Amounts = dict[str, int]


def allocatable(node: Object) -> Amounts:
    return amounts.of_requests(objects.nested(node, "status", "allocatable"))


def largest_node(nodes: Iterable[Object]) -> dict[values.ResourceName, int]:
    """The largest amount of each resource on one node."""
    largest: dict[values.ResourceName, int] = {}
    for node in nodes:
        for resource, amount in allocatable(node).items():
            name = values.ResourceName(resource)
            largest[name] = max(amount, largest.get(name, 0))
    return largest


def free_amounts(nodes: Iterable[Object], pods: Iterable[Object]) -> tuple[Amounts, ...]:
    """What the pods on each node leave free there."""
    free = {objects.name(node): allocatable(node) for node in nodes}
    for pod in pods:
        if node_values.uses_node(pod):
            on_node = free.get(objects.spec(pod)["nodeName"], {})
            for resource, amount in node_values.pod_requests(objects.spec(pod)).items():
                if resource in on_node:
                    on_node[resource] = max(0, on_node[resource] - amount)
    return tuple(free.values())


def shortage(workload: values.Workload, free: tuple[Amounts, ...] | None) -> str:
    """Why not all pods of a workload find a node now; "" if they may, or nodes are unknown."""
    if not free:
        return ""
    total: dict[values.ResourceName, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.pod_requests.items():
            total[resource] = total.get(resource, 0) + amount * pod_set.count
    for resource, amount in sorted(total.items()):
        available = sum(node.get(resource, 0) for node in free)
        if amount > available:
            return f"the nodes have {amounts.to_text(resource, available)} {resource} free"
    for pod_set in workload.pod_sets:
        for resource, amount in sorted(pod_set.pod_requests.items()):
            most = max(node.get(resource, 0) for node in free)
            if amount > most:
                return f"no node has more than {amounts.to_text(resource, most)} {resource} free"
    return ""
