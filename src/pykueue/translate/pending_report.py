"""The response of the visibility API: the pending workloads of a queue in their order.

Builds a `PendingWorkloadsSummary` from the engine's state and the Workload objects. Called by the
server of the group `visibility.kueue.x-k8s.io`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pykueue.api import errors, objects
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.world import World

GROUP = "visibility.kueue.x-k8s.io"
DEFAULT_LIMIT = 1000
MAX_LIMIT = 100_000

Find = Callable[[values.WorkloadKey], Object | None]
"""Returns the Workload object, or None if it no longer exists."""


def of_cluster_queue(world: World, name: str, find: Find) -> Iterator[Object]:
    queue = world.cluster_queues.get(values.ClusterQueueName(name))
    if queue is None:
        raise errors.not_found(GROUP, "clusterqueue", name)
    return _items(queue, find)


def of_local_queue(world: World, namespace: str, name: str, find: Find) -> Iterator[Object]:
    key = values.LocalQueueKey(f"{namespace}/{name}")
    local_queue = world.local_queues.get(key)
    queue = None if local_queue is None else world.cluster_queues.get(local_queue.cluster_queue)
    if queue is None:
        raise errors.not_found(GROUP, "localqueue", name)
    return (
        item
        for item in _items(queue, find)
        if item["localQueueName"] == name and item["metadata"]["namespace"] == namespace
    )


def summary(items: Iterator[Object], *, version: str, offset: int = 0, limit: int = DEFAULT_LIMIT) -> Object:
    limit = min(max(limit, 0), MAX_LIMIT)
    offset = max(offset, 0)
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": list(islice(items, offset, offset + limit)),
    }


def _items(queue: ClusterQueueState, find: Find) -> Iterator[Object]:
    """The pending and the inadmissible workloads in queue order; positions start at 0."""
    ordered = sorted((*queue.pending.in_heap(), *queue.pending.parked()), key=lambda pending: pending.order)
    in_local_queue: dict[values.LocalQueueKey, int] = {}
    for position, pending in enumerate(ordered):
        workload = pending.workload
        position_in_local_queue = in_local_queue.get(workload.local_queue, 0)
        in_local_queue[workload.local_queue] = position_in_local_queue + 1
        obj = find(workload.key)
        if obj is not None:
            yield {
                "metadata": _metadata(obj),
                "priority": workload.priority - workload.priority_boost,
                "localQueueName": obj["spec"].get("queueName", ""),
                "positionInClusterQueue": position,
                "positionInLocalQueue": position_in_local_queue,
            }


def _metadata(obj: Object) -> dict[str, Any]:
    metadata = obj["metadata"]
    fields = {name: metadata[name] for name in ("name", "namespace", "creationTimestamp") if name in metadata}
    owners = [
        {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}
        for reference in objects.owner_references(obj)
    ]
    return fields | ({"ownerReferences": owners} if owners else {})
