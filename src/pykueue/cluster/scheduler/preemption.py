"""Preemption: the pods of lower priority to evict so that a pod fits on a node."""

from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler import extended_resources
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, add, requests
from pykueue.cluster.scheduler.node_selection import Unschedulable, without


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCandidate:
    node_name: str
    victims: tuple[Object, ...]


def priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def find(pod: Object, unschedulable: Unschedulable, fleet: Fleet) -> PreemptionCandidate | None:
    """The best node to preempt on.

    Its highest victim priority is the lowest; then it has the fewest victims; then its name is
    first.
    """
    if pod["spec"].get("preemptionPolicy") == "Never":
        return None
    pod_requests = requests(pod["spec"])
    best: tuple[tuple[int, int, str], PreemptionCandidate] | None = None
    for name, fault in unschedulable.faults.items():
        if fault.is_unresolvable:
            continue
        state = fleet.nodes[name]
        claimed = extended_resources.unoffered(unschedulable.provided, state)
        victims = _victims(pod, without(pod_requests, claimed), state)
        if not victims:
            continue
        cost = max(map(priority, victims)), len(victims), name
        if best is None or cost < best[0]:
            best = cost, PreemptionCandidate(node_name=name, victims=tuple(victims))
    return best[1] if best else None


def _victims(pod: Object, pod_requests: Amounts, state: NodeState) -> list[Object]:
    """The victims on one node.

    Start with every pod of lower priority, then keep those that still fit beside the pod, highest
    priority first.
    """
    lower = [other for other in state.pods.values() if priority(other) < priority(pod)]
    requests_by_uid = {objects.uid(other): requests(other["spec"]) for other in lower}
    released: Amounts = {}
    for amounts in requests_by_uid.values():
        add(released, amounts, 1)
    if not lower or state.insufficient(pod_requests, released):
        return []
    victims: list[Object] = []
    for other in sorted(lower, key=lambda other: (-priority(other), objects.name(other))):
        add(released, requests_by_uid[objects.uid(other)], -1)
        if state.insufficient(pod_requests, released):
            add(released, requests_by_uid[objects.uid(other)], 1)
            victims.append(other)
    return [] if all(map(objects.is_deleted, victims)) else victims
