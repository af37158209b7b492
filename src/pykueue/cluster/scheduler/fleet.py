"""The nodes and what is taken of them, kept in step by events. The one ledger that placement and pools decide on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.cluster import pods

Amounts = dict[str, int]
DEFAULT_PODS = 110


def requests(pod_spec: Object) -> Amounts:
    """What one pod takes of a node, in whole units (cpu in thousandths), itself included."""
    taken = {name: resource_lists.amount(name, value) for name, value in resource_lists.pod_requests(pod_spec).items()}
    return taken | {"pods": 1}


def capacity(node: Object) -> Amounts:
    status = node.get("status", {})
    stated = resource_lists.parse(status.get("allocatable") or status.get("capacity"))
    return {"pods": DEFAULT_PODS} | {name: resource_lists.amount(name, value) for name, value in stated.items()}


@dataclass(slots=True)
class NodeState:
    node: Object
    capacity: Amounts
    taken: Amounts = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    """By uid; bound and not finished."""

    @property
    def name(self) -> str:
        return objects.name(self.node)

    @property
    def labels(self) -> Mapping[str, str]:
        return objects.labels(self.node)

    def short_of(self, wanted: Amounts, given_back: Amounts | None = None) -> list[str]:
        """The resources of which too little is free."""
        back = given_back or {}
        return [
            name
            for name, amount in wanted.items()
            if amount and amount > self.capacity.get(name, 0) - self.taken.get(name, 0) + back.get(name, 0)
        ]


class Fleet:
    """Every node by name. A pod counts from the moment it is bound (or assumed to be) until it is finished or gone."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        self._bound: dict[str, tuple[str, Amounts]] = {}
        self._homeless: dict[str, dict[str, Object]] = {}
        self._assumed: set[str] = set()

    def set_node(self, node: Object) -> None:
        name = objects.name(node)
        if state := self.nodes.get(name):
            state.node, state.capacity = node, capacity(node)
            return
        self.nodes[name] = NodeState(node, capacity(node))
        for pod in self._homeless.pop(name, {}).values():
            self.set_pod(pod)

    def remove_node(self, name: str) -> None:
        state = self.nodes.pop(name, None)
        if state is not None:
            for uid in state.pods:
                self._bound.pop(uid, None)
            self._homeless[name] = state.pods

    def set_pod(self, pod: Object) -> None:
        """Takes a pod into account as the cache shows it."""
        uid, name = objects.uid(pod), pods.node_name(pod)
        if name:
            self._assumed.discard(uid)
        elif uid in self._assumed:
            return
        if not name or pods.is_finished(pod):
            self.remove_pod(uid)
        elif name not in self.nodes:
            self._homeless.setdefault(name, {})[uid] = pod
        elif self._bound.get(uid, ("",))[0] == name:
            self.nodes[name].pods[uid] = pod
        else:
            self.remove_pod(uid)
            self._take(name, uid, pod)

    def _take(self, name: str, uid: str, pod: Object) -> None:
        wanted = requests(pod["spec"])
        state = self.nodes[name]
        state.pods[uid] = pod
        _add(state.taken, wanted, 1)
        self._bound[uid] = name, wanted

    def remove_pod(self, uid: str) -> bool:
        """True if it held something."""
        self._assumed.discard(uid)
        for waiting in self._homeless.values():
            waiting.pop(uid, None)
        if uid not in self._bound:
            return False
        name, wanted = self._bound.pop(uid)
        state = self.nodes[name]
        state.pods.pop(uid, None)
        _add(state.taken, wanted, -1)
        return True

    def assume(self, pod: Object, node_name: str) -> None:
        """Books a pod on a node before the API has confirmed it; older news of the pod does not undo that."""
        self.set_pod(pod | {"spec": pod["spec"] | {"nodeName": node_name}})
        self._assumed.add(objects.uid(pod))

    def holds(self, uid: str) -> bool:
        return uid in self._bound

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def pods(self) -> Iterable[Object]:
        for state in self.nodes.values():
            yield from state.pods.values()


def _add(taken: Amounts, amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        taken[name] = taken.get(name, 0) + sign * amount
