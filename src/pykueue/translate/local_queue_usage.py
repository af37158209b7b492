"""The usage of a LocalQueue that admission fair sharing samples, in clusters and simulations."""

from pykueue.engine import values
from pykueue.engine.quota.admission_fair_sharing import in_nano
from pykueue.engine.view import EngineView


def admitted_usage(view: EngineView, key: values.LocalQueueKey) -> dict[values.ResourceName, int]:
    """What the admitted Workloads of a LocalQueue use, in nano-units."""
    local_queue = view.local_queue(key)
    if local_queue is None:
        return {}
    cluster_queue = view.cluster_queue(local_queue.cluster_queue)
    used = dict.fromkeys(sorted(cluster_queue.covered_resources) if cluster_queue else (), 0)
    for reservation in view.reservations(local_queue.cluster_queue):
        if reservation.workload.local_queue != key or not reservation.workload.admitted:
            continue
        for pod_set in reservation.admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                used[resource] = used.get(resource, 0) + in_nano(resource, amount)
    return used
