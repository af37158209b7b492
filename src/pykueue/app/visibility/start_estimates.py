"""Estimated starts of pending Workloads, for the visibility API and the page.

All pending Workloads of the queues that share quota are estimated together, on demand and in a
thread. The result serves everybody for some seconds, so that the cost does not grow with the
number of those who ask.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.simulate.engine_driver.world import KINDS, World
from pykueue.simulate.estimates import live
from pykueue.simulate.estimates.starts import MOST_PENDING, MOST_RUNNING, EstimatedStart
from pykueue.translate import workload as workloads

if TYPE_CHECKING:
    from pykueue.engine.view import EngineView, TreeKey
    from pykueue.kube.controller.cache import ObjectCache

Starts = Mapping[values.WorkloadKey, EstimatedStart]

KEPT_SECONDS = 15.0
_OF_ALL_QUEUES = tuple(kind for kind in KINDS.values() if kind not in (resources.POD, resources.WORKLOAD))


class StartEstimates:
    def __init__(self, configuration: Callable[[], Mapping[str, Any]]) -> None:
        self._configuration = configuration
        self._starts: dict[TreeKey, tuple[float, Starts]] = {}
        self._lock = asyncio.Lock()
        """One estimate at a time: they compete with the scheduler for one core."""

    async def of_cluster_queue(
        self, view: "EngineView", cache: "ObjectCache", name: values.ClusterQueueName
    ) -> Starts | None:
        """The estimates of all that shares quota with the queue.

        None if the queue does not exist, or if too many jobs share its quota.
        """
        if view.cluster_queue(name) is None:
            return None
        tree = view.tree_of(name)
        async with self._lock:
            made_at, starts = self._starts.get(tree, (0.0, {}))
            if made_at and time.monotonic() - made_at < KEPT_SECONDS:
                return starts
            keys = _keys(view, tree)
            if keys is None:
                return None
            items = {kind: list(cache.all(kind)) for kind in _OF_ALL_QUEUES}
            starts = await asyncio.to_thread(self._estimate, items, list(cache.all(resources.WORKLOAD)), keys)
            self._starts[tree] = (time.monotonic(), starts)
            return starts

    async def of_workload(
        self, view: "EngineView", cache: "ObjectCache", key: values.WorkloadKey
    ) -> EstimatedStart | None:
        queue = view.cluster_queue_of(key)
        starts = None if queue is None else await self.of_cluster_queue(view, cache, queue)
        return None if starts is None else starts.get(key)

    def _estimate(
        self, items: Mapping[Any, list[Object]], listed: list[Object], keys: set[values.WorkloadKey]
    ) -> Starts:
        """Runs in a thread: it reads objects, which never change, and nothing else."""
        now_ns, configuration = time.time_ns(), self._configuration()
        by_key = {workloads.key(obj): obj for obj in listed}
        related = [obj for key, obj in by_key.items() if key in keys]
        objects = [
            {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
            for kind, group in [*items.items(), (resources.WORKLOAD, related)]
            for obj in group
        ]
        world = World.from_objects(objects, configuration, now_ns=now_ns)
        return live.estimate_all(world.engine, by_key, now_ns=now_ns, configuration=configuration)


def _keys(view: "EngineView", tree: "TreeKey") -> set[values.WorkloadKey] | None:
    """The Workloads that share quota; None if they are too many to simulate."""
    queues = [queue for queue in view.cluster_queues() if view.tree_of(queue.name) == tree]
    if sum(queue.pending_count for queue in queues) > MOST_PENDING:
        return None
    if sum(queue.reservation_count for queue in queues) > MOST_RUNNING:
        return None
    return {
        workload.key
        for queue in queues
        for workload in (
            *(view.pending_in_order(queue.name) or ()),
            *(reservation.workload for reservation in view.reservations(queue.name)),
        )
    }
