"""The pending workloads of a queue in their order: what the visibility API answers.

Pure: the engine's view and the Workload objects go in, a `PendingWorkloadsSummary` comes out. Called by the part that serves
the group `visibility.kueue.x-k8s.io`.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pykueue.api import errors
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.view import EngineView

GROUP = "visibility.kueue.x-k8s.io"
DEFAULT_LIMIT = 1000
GREATEST_LIMIT = 100_000

Find = Callable[[values.WorkloadKey], Object | None]
"""The Workload as the API has it; None when it is gone."""


def of_cluster_queue(view: EngineView, name: str, find: Find) -> Iterator[Object]:
    waiting = view.pending_in_order(values.ClusterQueueName(name))
    if waiting is None:
        raise errors.not_found(GROUP, "clusterqueue", name)
    return _items(waiting, find)


def of_local_queue(view: EngineView, namespace: str, name: str, find: Find) -> Iterator[Object]:
    local_queue = view.local_queue(values.LocalQueueKey(f"{namespace}/{name}"))
    waiting = None if local_queue is None else view.pending_in_order(local_queue.cluster_queue)
    if waiting is None:
        raise errors.not_found(GROUP, "localqueue", name)
    return (
        item
        for item in _items(waiting, find)
        if item["localQueueName"] == name and item["metadata"]["namespace"] == namespace
    )


def summary(items: Iterator[Object], *, version: str, offset: int = 0, limit: int = DEFAULT_LIMIT) -> Object:
    limit = min(max(limit, 0), GREATEST_LIMIT)
    offset = max(offset, 0)
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": list(islice(items, offset, offset + limit)),
    }


def _items(waiting: list[values.Workload], find: Find) -> Iterator[Object]:
    """In queue order, with the inadmissible ones; positions count from 0."""
    in_local_queue: dict[values.LocalQueueKey, int] = {}
    for position, workload in enumerate(waiting):
        place = in_local_queue.get(workload.local_queue, 0)
        in_local_queue[workload.local_queue] = place + 1
        obj = find(workload.key)
        if obj is not None:
            yield {
                "metadata": _metadata(obj),
                "priority": workload.priority - workload.priority_boost,
                "localQueueName": obj["spec"].get("queueName", ""),
                "positionInClusterQueue": position,
                "positionInLocalQueue": place,
            }


def _metadata(obj: Object) -> dict[str, Any]:
    metadata = obj["metadata"]
    shown = {name: metadata[name] for name in ("name", "namespace", "creationTimestamp") if name in metadata}
    owners = [
        {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}
        for reference in metadata.get("ownerReferences") or ()
    ]
    return shown | ({"ownerReferences": owners} if owners else {})
