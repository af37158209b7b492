"""The status of ClusterQueues and LocalQueues: counts, usage and the Active condition.

Called by the queue controllers and by replays.
"""

from collections.abc import Iterable, Mapping

from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.quota import amounts as engine_amounts
from pykueue.engine.reasons import InactiveReason, Inactivity
from pykueue.engine.view import ClusterQueueView, EngineView, ReservationView
from pykueue.translate import amounts

_PARTS = {
    InactiveReason.STOPPED: "is stopped",
    InactiveReason.FLAVOR_NOT_FOUND: "references missing ResourceFlavor(s): {names}",
    InactiveReason.ADMISSION_CHECK_NOT_FOUND: "references missing AdmissionCheck(s): {names}",
    InactiveReason.ADMISSION_CHECK_INACTIVE: "references inactive AdmissionCheck(s): {names}",
    InactiveReason.SEVERAL_MULTI_KUEUE_CHECKS: (
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {names}"
    ),
    InactiveReason.MULTI_KUEUE_CHECK_PER_FLAVOR: "Cannot specify MultiKueue AdmissionCheck per flavor, found: {names}",
    InactiveReason.MULTI_KUEUE_WITH_PROVISIONING: (
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: {names}"
    ),
    InactiveReason.TOPOLOGY_NOT_FOUND: "there is no Topology {quoted[0]} for TAS flavor {quoted[1]}",
}


def cluster_queue(view: EngineView, queue: ClusterQueueView) -> Object:
    """The status without conditions, which the controller sets."""
    reserving = view.reservations(queue.name)
    admitted = [reservation for reservation in reserving if reservation.workload.admitted]
    return {
        "pendingWorkloads": queue.pending_count,
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": cluster_queue_flavors(queue.value, _usage(reserving)),
        "flavorsUsage": cluster_queue_flavors(queue.value, _usage(admitted)),
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
        "flavorsReservation": local_queue_flavors(queue.value, _usage(reserving)),
        "flavorsUsage": local_queue_flavors(queue.value, _usage(admitted)),
    }


def activity(inactivity: tuple[Inactivity, ...]) -> tuple[bool, str, str]:
    """Status, reason and message of the Active condition of a ClusterQueue."""
    if not inactivity:
        return True, "Ready", "Can admit new workloads"
    if inactivity[0].reason is InactiveReason.TERMINATING:
        return False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    parts = [
        _PARTS[cause.reason].format(names=",".join(cause.names), quoted=[f'"{name}"' for name in cause.names])
        for cause in inactivity
    ]
    return False, inactivity[0].reason.value, f"Can't admit new workloads: {', '.join(parts)}."


def _usage(reservations: Iterable[ReservationView]) -> dict[values.FlavorResource, int]:
    usage: dict[values.FlavorResource, int] = {}
    for reservation in reservations:
        for pod_set in reservation.admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                if resource in pod_set.flavors:
                    name = values.FlavorResource(pod_set.flavors[resource], resource)
                    usage[name] = engine_amounts.add(usage.get(name, 0), amount)
    return usage


Usage = Mapping[values.FlavorResource, int]


def cluster_queue_flavors(queue: values.ClusterQueue, usage: Usage) -> list[Object]:
    """The value of `flavorsReservation` or `flavorsUsage`; only a queue in a cohort can borrow."""
    return [
        {
            "name": flavor.name,
            "resources": [
                {
                    "name": resource,
                    "total": amounts.to_text(resource, total := _used(usage, flavor, resource)),
                    "borrowed": amounts.to_text(
                        resource, max(0, engine_amounts.sub(total, quota.nominal)) if queue.cohort else 0
                    ),
                }
                for resource, quota in sorted(flavor.resources.items())
            ],
        }
        for group in queue.resource_groups
        for flavor in group.flavors
    ]


def local_queue_flavors(queue: values.ClusterQueue, usage: Usage) -> list[Object]:
    """The flavors of the ClusterQueue, with the amounts of the LocalQueue."""
    return [
        {
            "name": flavor.name,
            "resources": [
                {"name": resource, "total": amounts.to_text(resource, _used(usage, flavor, resource))}
                for resource in sorted(flavor.resources)
            ],
        }
        for group in queue.resource_groups
        for flavor in group.flavors
    ]


def _used(usage: Usage, flavor: values.FlavorQuotas, resource: values.ResourceName) -> int:
    return usage.get(values.FlavorResource(flavor.name, resource), 0)
