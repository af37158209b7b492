"""What the engine knows of a queue, as the status of its ClusterQueue or LocalQueue shows it: counts, usage, activity.

Called by the queue controllers.
"""

from collections.abc import Iterable

from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import ClusterQueueState, InactiveReason, Inactivity
from pykueue.engine.quota import amounts
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.world import World
from pykueue.translate import queue_status

_PARTS = {
    InactiveReason.STOPPED: "is stopped",
    InactiveReason.FLAVOR_NOT_FOUND: "references missing ResourceFlavor(s): {names}",
    InactiveReason.ADMISSION_CHECK_NOT_FOUND: "references missing AdmissionCheck(s): {names}",
    InactiveReason.ADMISSION_CHECK_INACTIVE: "references inactive AdmissionCheck(s): {names}",
    InactiveReason.TOPOLOGY_NOT_FOUND: "there is no Topology {quoted[0]} for TAS flavor {quoted[1]}",
}


def cluster_queue(state: ClusterQueueState) -> Object:
    """Counts and usage; the conditions are the controller's."""
    reserving = list(state.holdings)
    admitted = [holding for holding in reserving if holding.workload.admitted]
    return {
        "pendingWorkloads": len(state.pending),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": queue_status.cluster_queue_flavors(state.value, _usage(reserving)),
        "flavorsUsage": queue_status.cluster_queue_flavors(state.value, _usage(admitted)),
    }


def local_queue(world: World, state: ClusterQueueState, key: values.LocalQueueKey) -> Object:
    reserving = [holding for holding in state.holdings if holding.workload.local_queue == key]
    admitted = [holding for holding in reserving if holding.workload.admitted]
    return {
        "pendingWorkloads": pending_in(world, key),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": queue_status.local_queue_flavors(state.value, _usage(reserving)),
        "flavorsUsage": queue_status.local_queue_flavors(state.value, _usage(admitted)),
    }


def pending_in(world: World, key: values.LocalQueueKey) -> int:
    """None of a stopped LocalQueue are in the queues."""
    queue = world.local_queues.get(key)
    if queue is None or queue.stop_policy is not values.StopPolicy.NONE:
        return 0
    return sum(
        (workload.may_queue and workload.key not in world.holdings) or _keeps_its_place(world, workload)
        for workload in world.workloads_of(key)
    )


def _keeps_its_place(world: World, workload: values.Workload) -> bool:
    queue = world.queue_of(workload) if workload.waiting_for_replacement_pods else None
    return queue is not None and workload.key in queue.pending


def activity(inactivity: tuple[Inactivity, ...]) -> tuple[bool, str, str]:
    """Status, reason and message of the Active condition of a ClusterQueue."""
    if not inactivity:
        return True, "Ready", "Can admit new workloads"
    if inactivity[0].reason is InactiveReason.TERMINATING:
        return False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    parts = [
        _PARTS[found.reason].format(names=",".join(found.names), quoted=[f'"{name}"' for name in found.names])
        for found in inactivity
    ]
    return False, inactivity[0].reason.value, f"Can't admit new workloads: {', '.join(parts)}."


def _usage(holdings: Iterable[Reservation]) -> dict[values.FlavorResource, int]:
    usage: dict[values.FlavorResource, int] = {}
    for holding in holdings:
        for pod_set in holding.admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                if resource in pod_set.flavors:
                    name = values.FlavorResource(pod_set.flavors[resource], resource)
                    usage[name] = amounts.add(usage.get(name, 0), amount)
    return usage
