"""All nodes, their capacity and the requests of the pods bound to them, updated from watch events.

The scheduler and the autoscaler decide on it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster import pods

Amounts = dict[str, int]
DEFAULT_PODS = 110


def requests(pod_spec: Object) -> Amounts:
    """The requests of one pod as integers (cpu in millicores), with one of the resource `pods`."""
    amounts = {
        name: resource_lists.amount(name, value) for name, value in resource_lists.pod_requests(pod_spec).items()
    }
    return amounts | {"pods": 1}


def capacity(node: Object) -> Amounts:
    status = objects.status(node)
    quantities = resource_lists.parse(status.get("allocatable") or status.get("capacity"))
    return {"pods": DEFAULT_PODS} | {name: resource_lists.amount(name, value) for name, value in quantities.items()}


@dataclass(slots=True)
class NodeState:
    node: Object
    capacity: Amounts
    requested: Amounts = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    """The bound, unfinished pods by uid."""

    @property
    def name(self) -> str:
        return objects.name(self.node)

    @property
    def labels(self) -> Mapping[str, str]:
        return objects.labels(self.node)

    def insufficient(self, pod_requests: Amounts, released: Amounts | None = None) -> list[str]:
        """The requested resources of which too little is free, once `released` is freed."""
        freed = released or {}
        return [
            name
            for name, amount in pod_requests.items()
            if amount and amount > self.capacity.get(name, 0) - self.requested.get(name, 0) + freed.get(name, 0)
        ]


class Fleet:
    """Every node by name. A pod counts while it is bound or assumed, and unfinished."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        self._bound: dict[str, tuple[str, Amounts]] = {}
        self._pods_without_node: dict[str, dict[str, Object]] = {}
        self._assumed: set[str] = set()

    def set_node(self, node: Object) -> None:
        name = objects.name(node)
        if state := self.nodes.get(name):
            state.node, state.capacity = node, capacity(node)
            return
        self.nodes[name] = NodeState(node, capacity(node))
        for pod in self._pods_without_node.pop(name, {}).values():
            self.set_pod(pod)

    def remove_node(self, name: str) -> None:
        state = self.nodes.pop(name, None)
        if state is not None:
            for uid in state.pods:
                self._bound.pop(uid, None)
            self._pods_without_node[name] = state.pods

    def set_pod(self, pod: Object) -> None:
        """Add, move or remove a pod as the API has it now."""
        uid, name = objects.uid(pod), pods.node_name(pod)
        if name:
            self._assumed.discard(uid)
        elif uid in self._assumed:
            return
        if not name or pods.is_finished(pod):
            self.remove_pod(uid)
        elif name not in self.nodes:
            self._pods_without_node.setdefault(name, {})[uid] = pod
        elif self._bound.get(uid, ("",))[0] == name:
            self.nodes[name].pods[uid] = pod
        else:
            self.remove_pod(uid)
            self._bind(name, uid, pod)

    def _bind(self, name: str, uid: str, pod: Object) -> None:
        pod_requests = requests(pod["spec"])
        state = self.nodes[name]
        state.pods[uid] = pod
        add(state.requested, pod_requests, 1)
        self._bound[uid] = name, pod_requests

    def remove_pod(self, uid: str) -> bool:
        """Remove a pod; True if it was bound."""
        self._assumed.discard(uid)
        for pods_by_uid in self._pods_without_node.values():
            pods_by_uid.pop(uid, None)
        if uid not in self._bound:
            return False
        name, pod_requests = self._bound.pop(uid)
        state = self.nodes[name]
        state.pods.pop(uid, None)
        add(state.requested, pod_requests, -1)
        return True

    def assume(self, pod: Object, node_name: str) -> None:
        """Count a pod on a node before the API has confirmed the binding."""
        self.set_pod(pod | {"spec": pod["spec"] | {"nodeName": node_name}})
        self._assumed.add(objects.uid(pod))

    def is_bound(self, uid: str) -> bool:
        return uid in self._bound

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def pods(self) -> Iterable[Object]:
        for state in self.nodes.values():
            yield from state.pods.values()


def add(total: Amounts, amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
