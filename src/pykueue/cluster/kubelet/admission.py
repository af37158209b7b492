"""Whether a node accepts a pod that is bound to it, as a kubelet decides it once more.

Who creates a pod may name its node, past the scheduler. So the kubelet checks selectors, taints
and free resources again, and fails a pod that it rejects.
"""

from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import affinity, extended_resources, fleet

_NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_TAINT = "node(s) had taints that the pod didn't tolerate"


def is_gated(pod: Object) -> bool:
    """Whether scheduling gates hold the pod back: no container of it may start."""
    return bool(objects.spec(pod).get("schedulingGates"))


def rejection(pod: Object, node: Object, others: Iterable[Object]) -> tuple[str, str] | None:
    """Reason and message with which the kubelet rejects a new pod; None if it accepts it.

    `others` are the pods that it has accepted on this node and that have not finished.
    """
    spec = pod["spec"]
    if not affinity.matches_node(spec, objects.labels(node), objects.name(node)):
        return "NodeAffinity", _rejected(f"Predicate NodeAffinity failed: {_NODE_AFFINITY}")
    if affinity.untolerated(spec, objects.spec(node).get("taints") or (), ("NoExecute",)):
        return "TaintToleration", _rejected(f"Predicate TaintToleration failed: {_TAINT}")
    used: fleet.Amounts = {}
    for other in others:
        fleet.add(used, fleet.requests(other["spec"]), 1)
    capacity = fleet.capacity(node)
    claimed = extended_resources.claimed(pod)
    for resource, amount in fleet.requests(spec).items():
        if resource in claimed:
            continue
        total, already_used = capacity.get(resource, 0), used.get(resource, 0)
        if amount and amount > total - already_used:
            amounts = f"requested: {amount}, used: {already_used}, capacity: {total}"
            return f"OutOf{resource}", _rejected(f"Node didn't have enough resource: {resource}, {amounts}")
    return None


def _rejected(message: str) -> str:
    return f"Pod was rejected: {message}"
