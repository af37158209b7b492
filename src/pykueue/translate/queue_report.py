"""What the engine knows of a queue, as the status of its ClusterQueue or LocalQueue shows it: counts, usage, activity.

Called by the queue controllers.
"""

from collections.abc import Iterable

from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.quota import amounts
from pykueue.engine.reasons import InactiveReason, Inactivity
from pykueue.engine.view import ClusterQueueView, EngineView, ReservationView
from pykueue.translate import queue_status

_PARTS = {
    InactiveReason.STOPPED: "is stopped",
    InactiveReason.FLAVOR_NOT_FOUND: "references missing ResourceFlavor(s): {names}",
    InactiveReason.ADMISSION_CHECK_NOT_FOUND: "references missing AdmissionCheck(s): {names}",
    InactiveReason.ADMISSION_CHECK_INACTIVE: "references inactive AdmissionCheck(s): {names}",
    InactiveReason.TOPOLOGY_NOT_FOUND: "there is no Topology {quoted[0]} for TAS flavor {quoted[1]}",
}


def cluster_queue(view: EngineView, queue: ClusterQueueView) -> Object:
    """Counts and usage; the conditions are the controller's."""
    reserving = view.reservations(queue.name)
    admitted = [reservation for reservation in reserving if reservation.workload.admitted]
    return {
        "pendingWorkloads": queue.pending_count,
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": queue_status.cluster_queue_flavors(queue.value, _usage(reserving)),
        "flavorsUsage": queue_status.cluster_queue_flavors(queue.value, _usage(admitted)),
    }


def local_queue(view: EngineView, queue: ClusterQueueView, key: values.LocalQueueKey) -> Object:
    reserving = [
        reservation for reservation in view.reservations(queue.name) if reservation.workload.local_queue == key
    ]
    admitted = [reservation for reservation in reserving if reservation.workload.admitted]
    return {
        "pendingWorkloads": view.pending_count(key),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": queue_status.local_queue_flavors(queue.value, _usage(reserving)),
        "flavorsUsage": queue_status.local_queue_flavors(queue.value, _usage(admitted)),
    }


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


def _usage(reservations: Iterable[ReservationView]) -> dict[values.FlavorResource, int]:
    usage: dict[values.FlavorResource, int] = {}
    for reservation in reservations:
        for pod_set in reservation.admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                if resource in pod_set.flavors:
                    name = values.FlavorResource(pod_set.flavors[resource], resource)
                    usage[name] = amounts.add(usage.get(name, 0), amount)
    return usage
