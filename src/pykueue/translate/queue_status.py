"""What the engine knows of a queue, as the status of its ClusterQueue or LocalQueue shows it.

Called by the queue controllers. Flavors stand in the order of the spec, resources by name.
"""

from collections.abc import Iterable, Mapping

from pykueue.api.scheme import Object
from pykueue.engine import quota, values
from pykueue.engine.cluster_queues import ClusterQueueState, InactiveReason, Inactivity
from pykueue.engine.holdings import Holding
from pykueue.translate import amounts

Totals = Mapping[quota.Index, int]

_PARTS = {
    InactiveReason.STOPPED: "is stopped",
    InactiveReason.FLAVOR_NOT_FOUND: "references missing ResourceFlavor(s): {names}",
    InactiveReason.ADMISSION_CHECK_NOT_FOUND: "references missing AdmissionCheck(s): {names}",
    InactiveReason.ADMISSION_CHECK_INACTIVE: "references inactive AdmissionCheck(s): {names}",
}


def cluster_queue(state: ClusterQueueState) -> Object:
    """Counts and usage; the conditions are the controller's."""
    holdings = list(state.holdings)
    admitted = [holding for holding in holdings if holding.workload.admitted]
    return {
        "pendingWorkloads": len(state.pending),
        "reservingWorkloads": len(holdings),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _flavors(state, _totals(holdings), borrowing=True),
        "flavorsUsage": _flavors(state, _totals(admitted), borrowing=True),
    }


def local_queue(state: ClusterQueueState, key: values.LocalQueueKey, *, pending: int) -> Object:
    holdings = [holding for holding in state.holdings if holding.workload.local_queue == key]
    admitted = [holding for holding in holdings if holding.workload.admitted]
    return {
        "pendingWorkloads": pending,
        "reservingWorkloads": len(holdings),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _flavors(state, _totals(holdings), borrowing=False),
        "flavorsUsage": _flavors(state, _totals(admitted), borrowing=False),
    }


def activity(inactivity: tuple[Inactivity, ...]) -> tuple[bool, str, str]:
    """Status, reason and message of the Active condition of a ClusterQueue."""
    if not inactivity:
        return True, "Ready", "Can admit new workloads"
    if inactivity[0].reason is InactiveReason.TERMINATING:
        return False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    parts = [_PARTS[found.reason].format(names=",".join(found.names)) for found in inactivity]
    return False, inactivity[0].reason.value, f"Can't admit new workloads: {', '.join(parts)}."


def _totals(holdings: Iterable[Holding]) -> Totals:
    totals: dict[quota.Index, int] = {}
    for holding in holdings:
        for index, amount in holding.usage.items():
            totals[index] = totals.get(index, 0) + amount
    return totals


def _flavors(state: ClusterQueueState, totals: Totals, *, borrowing: bool) -> list[Object]:
    return [
        {
            "name": flavor.name,
            "resources": [
                _usage(state, name, flavor.indices[name], totals, borrowing=borrowing)
                for name in sorted(flavor.indices)
            ],
        }
        for group in state.groups
        for flavor in group.flavors
    ]


def _usage(
    state: ClusterQueueState, name: values.ResourceName, index: quota.Index, totals: Totals, *, borrowing: bool
) -> Object:
    total = totals.get(index, 0)
    usage: Object = {"name": name, "total": amounts.shown(name, total)}
    if borrowing:
        borrowed = max(0, total - state.node.nominal.get(index, 0)) if state.node.parent is not None else 0
        usage["borrowed"] = amounts.shown(name, borrowed)
    return usage
