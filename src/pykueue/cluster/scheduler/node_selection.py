"""The node for one pod: filters in kube-scheduler's order, then scores.

The pod's preferences come first, then the lowest utilization of cpu and memory.
"""

from collections import Counter
from dataclasses import dataclass, field

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import affinity, extended_resources
from pykueue.cluster.scheduler.device_allocation import DevicePass, Unallocatable
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, requests

NO_NODES = "no nodes available to schedule pods"
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """Why the filters reject one node. `is_unresolvable`: no preemption would help."""

    reasons: tuple[str, ...]
    is_unresolvable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unschedulable:
    """No node fits the pod; `faults` has the reasons by node name."""

    faults: dict[str, NodeFault] = field(default_factory=dict)
    provided: frozenset[str] = frozenset()
    """The extended resources of the pod that a DeviceClass provides."""

    def message(self) -> str:
        if not self.faults:
            return NO_NODES
        reasons = Counter(reason for fault in self.faults.values() for reason in fault.reasons)
        preemption_notes = Counter(
            "Preemption is not helpful for scheduling"
            if fault.is_unresolvable
            else "No preemption victims found for incoming pod"
            for fault in self.faults.values()
        )
        available = f"0/{len(self.faults)} nodes are available:"
        return f"{available} {_histogram(reasons)}. preemption: {available} {_histogram(preemption_notes)}."


def _histogram(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def choose(pod: Object, fleet: Fleet, devices: DevicePass | None = None) -> str | Unschedulable:
    """The name of the best node, or the reasons of all nodes if none fits."""
    pod_requests = requests(pod["spec"])
    provided = devices.provided(pod) if devices is not None else {}
    best: tuple[int, float, str] | None = None
    faults: dict[str, NodeFault] = {}
    for state in fleet.nodes.values():
        fault = filter_node(pod, without(pod_requests, extended_resources.unoffered(provided, state)), state, fleet)
        if fault is None and devices is not None:
            fault = _device_fault(pod, state, devices)
        if fault is not None:
            faults[state.name] = fault
            continue
        score = -_preference(pod["spec"], state), _utilization(pod_requests, state), state.name
        if best is None or score < best:
            best = score
    return best[2] if best is not None else Unschedulable(faults=faults, provided=frozenset(provided))


def without(pod_requests: Amounts, names: frozenset[str]) -> Amounts:
    return {name: amount for name, amount in pod_requests.items() if name not in names} if names else pod_requests


def _device_fault(pod: Object, state: NodeState, devices: DevicePass) -> NodeFault | None:
    claims = devices.claims(pod, state)
    trial = claims if isinstance(claims, Unallocatable) else devices.allocate(pod, claims, state.node)
    return NodeFault(reasons=(trial.reason,), is_unresolvable=True) if isinstance(trial, Unallocatable) else None


def filter_node(pod: Object, pod_requests: Amounts, state: NodeState, fleet: Fleet) -> NodeFault | None:
    if (reason := node_fault(pod["spec"], state)) is not None:
        return NodeFault(reasons=(reason,), is_unresolvable=True)
    if insufficient := state.insufficient(pod_requests):
        exceeds_capacity = any(pod_requests[name] > state.capacity.get(name, 0) for name in insufficient)
        return NodeFault(reasons=tuple(map(_shortage, insufficient)), is_unresolvable=exceeds_capacity)
    if reason := affinity.pod_affinity_fault(pod, state, fleet):
        return NodeFault(reasons=(reason,), is_unresolvable=reason == "node(s) didn't match pod affinity rules")
    return None


def node_fault(pod_spec: Object, state: NodeState) -> str | None:
    """Why the node itself rejects the pod, whatever pods run there; None if it does not."""
    node_spec = objects.spec(state.node)
    if node_spec.get("unschedulable") and affinity.untolerated(pod_spec, [_UNSCHEDULABLE_TAINT]):
        return "node(s) were unschedulable"
    if affinity.untolerated(pod_spec, node_spec.get("taints") or ()):
        return "node(s) had untolerated taint(s)"
    if not affinity.matches_node(pod_spec, state.labels, state.name):
        return "node(s) didn't match Pod's node affinity/selector"
    if objects.is_deleted(state.node) or _is_unready(state.node):
        return "node(s) were not ready"
    return None


def _is_unready(node: Object) -> bool:
    ready = conditions.find(node, "Ready")
    return ready is not None and ready.get("status") != "True"


def _shortage(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


def _preference(pod_spec: Object, state: NodeState) -> int:
    taints = objects.nested_list(state.node, "spec", "taints")
    has_unpreferred_taint = affinity.untolerated(pod_spec, taints, ("PreferNoSchedule",)) is not None
    return affinity.preference(pod_spec, state.labels, state.name) - 100 * has_unpreferred_taint


def _utilization(pod_requests: Amounts, state: NodeState) -> float:
    """The mean share of cpu and memory that is requested once the pod is bound."""
    shares = [
        (state.requested.get(name, 0) + pod_requests.get(name, 0)) / state.capacity[name]
        for name in ("cpu", "memory")
        if state.capacity.get(name)
    ]
    return sum(shares) / len(shares) if shares else 0.0
