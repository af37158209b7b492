"""Making room by priority: the pods of lower priority whose removal lets a pod onto a node, and losing which costs least."""

from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.scheduler.choice import Unfit
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    node_name: str
    victims: tuple[Object, ...]


def priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def find(pod: Object, unfit: Unfit, fleet: Fleet) -> Eviction | None:
    """The cheapest set of victims over all nodes: lowest highest priority, then fewest, then by name."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return None
    wanted = requests(pod["spec"])
    best: tuple[tuple[int, int, str], Eviction] | None = None
    for name, fault in unfit.faults.items():
        if fault.is_final:
            continue
        victims = _victims(pod, wanted, fleet.nodes[name])
        if not victims:
            continue
        cost = max(map(priority, victims)), len(victims), name
        if best is None or cost < best[0]:
            best = cost, Eviction(node_name=name, victims=tuple(victims))
    return best[1] if best else None


def _victims(pod: Object, wanted: Amounts, state: NodeState) -> list[Object]:
    """Removes all that may go, then puts back, most important first, whatever still fits."""
    lower = [found for found in state.pods.values() if priority(found) < priority(pod)]
    held = {objects.uid(found): requests(found["spec"]) for found in lower}
    freed: Amounts = {}
    for amounts in held.values():
        _add(freed, amounts, 1)
    if not lower or state.short_of(wanted, freed):
        return []
    victims: list[Object] = []
    for found in sorted(lower, key=lambda found: (-priority(found), objects.name(found))):
        _add(freed, held[objects.uid(found)], -1)
        if state.short_of(wanted, freed):
            _add(freed, held[objects.uid(found)], 1)
            victims.append(found)
    return [] if all(objects.is_deleted(found) for found in victims) else victims


def _add(total: Amounts, amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
