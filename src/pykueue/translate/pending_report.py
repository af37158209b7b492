"""The response of the visibility API: the pending workloads of a queue in their order.

Builds a `PendingWorkloadsSummary` from the engine's view and the Workload objects. Called by the
server of the group `visibility.kueue.x-k8s.io`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pykueue.api import errors, objects
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.view import EngineView

GROUP = "visibility.kueue.x-k8s.io"
DEFAULT_LIMIT = 1000
MAX_LIMIT = 100_000
_WORKLOADS_PER_STEP = 16

Find = Callable[[values.WorkloadKey], Object | None]
"""Returns the Workload object, or None if it no longer exists."""


def of_cluster_queue(view: EngineView, name: str, find: Find) -> Iterator[Object | None]:
    ordered = view.pending_in_order(values.ClusterQueueName(name))
    if ordered is None:
        raise errors.not_found(GROUP, "clusterqueue", name)
    return _items(ordered, find)


def of_local_queue(view: EngineView, namespace: str, name: str, find: Find) -> Iterator[Object | None]:
    key = values.LocalQueueKey(f"{namespace}/{name}")
    local_queue = view.local_queue(key)
    ordered = None if local_queue is None else view.pending_in_order(local_queue.cluster_queue)
    if ordered is None:
        raise errors.not_found(GROUP, "localqueue", name)
    return _items(ordered, find, key)


class PendingSummary:
    """A `PendingWorkloadsSummary` that is filled in steps, because a queue may be long."""

    def __init__(self, *, version: str, offset: int = 0, limit: int = DEFAULT_LIMIT) -> None:
        self.items: list[Object] = []
        self.content: Object = {
            "kind": "PendingWorkloadsSummary",
            "apiVersion": f"{GROUP}/{version}",
            "metadata": {},
            "items": self.items,
        }
        self._offset = max(offset, 0)
        self._limit = min(max(limit, 0), MAX_LIMIT)

    def fill(self, items: Iterator[Object | None]) -> Iterator[None]:
        """Read a few workloads in each step."""
        skipped = 0
        for number, item in enumerate(items):
            if len(self.items) >= self._limit:
                return
            if item is not None and skipped < self._offset:
                skipped += 1
            elif item is not None:
                self.items.append(item)
            if number % _WORKLOADS_PER_STEP == 0:
                yield


def _items(
    ordered: list[values.Workload], find: Find, only: values.LocalQueueKey | None = None
) -> Iterator[Object | None]:
    """The pending and the inadmissible workloads in queue order; positions start at 0.

    None stands for a workload that is gone, or of another local queue.
    """
    in_local_queue: dict[values.LocalQueueKey, int] = {}
    for position, workload in enumerate(ordered):
        position_in_local_queue = in_local_queue.get(workload.local_queue, 0)
        in_local_queue[workload.local_queue] = position_in_local_queue + 1
        obj = find(workload.key) if only is None or workload.local_queue == only else None
        if obj is None:
            yield None
        else:
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
