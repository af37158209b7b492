"""The choice of a node for one pod: filters in kube-scheduler's order, then the emptiest node that pleases most."""

from collections import Counter
from dataclasses import dataclass, field

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import affinity
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, requests

NO_NODES = "no nodes available to schedule pods"
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why one node does not take the pod. With `is_final` no removal of pods would help."""

    reasons: tuple[str, ...]
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """No node takes the pod."""

    faults: dict[str, Fault] = field(default_factory=dict)

    def message(self) -> str:
        if not self.faults:
            return NO_NODES
        reasons = Counter(reason for fault in self.faults.values() for reason in fault.reasons)
        helps = Counter(
            "Preemption is not helpful for scheduling"
            if fault.is_final
            else "No preemption victims found for incoming pod"
            for fault in self.faults.values()
        )
        available = f"0/{len(self.faults)} nodes are available:"
        return f"{available} {_histogram(reasons)}. preemption: {available} {_histogram(helps)}."


def _histogram(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def choose(pod: Object, fleet: Fleet) -> str | Unfit:
    """The name of the best node, or why there is none."""
    wanted = requests(pod["spec"])
    best: tuple[int, float, str] | None = None
    faults: dict[str, Fault] = {}
    for state in fleet.nodes.values():
        fault = examine(pod, wanted, state, fleet)
        if fault is not None:
            faults[state.name] = fault
            continue
        score = -_pleasure(pod["spec"], state), _fullness(wanted, state), state.name
        if best is None or score < best:
            best = score
    return best[2] if best is not None else Unfit(faults=faults)


def examine(pod: Object, wanted: Amounts, state: NodeState, fleet: Fleet) -> Fault | None:
    if (reason := static_fault(pod["spec"], state)) is not None:
        return Fault(reasons=(reason,), is_final=True)
    if short := state.short_of(wanted):
        never = any(wanted[name] > state.capacity.get(name, 0) for name in short)
        return Fault(reasons=tuple(map(_shortage, short)), is_final=never)
    if reason := affinity.pod_affinity_fault(pod, state, fleet):
        return Fault(reasons=(reason,), is_final=reason == "node(s) didn't match pod affinity rules")
    return None


def static_fault(pod_spec: Object, state: NodeState) -> str | None:
    """What keeps the pod off a node whatever runs there."""
    node_spec = state.node.get("spec") or {}
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


def _pleasure(pod_spec: Object, state: NodeState) -> int:
    taints = (state.node.get("spec") or {}).get("taints") or ()
    disliked = affinity.untolerated(pod_spec, taints, ("PreferNoSchedule",)) is not None
    return affinity.preference(pod_spec, state.labels, state.name) - 100 * disliked


def _fullness(wanted: Amounts, state: NodeState) -> float:
    """The mean share of cpu and memory taken once the pod is there: the emptiest node wins."""
    shares = [
        (state.taken.get(name, 0) + wanted.get(name, 0)) / state.capacity[name]
        for name in ("cpu", "memory")
        if state.capacity.get(name)
    ]
    return sum(shares) / len(shares) if shares else 0.0
