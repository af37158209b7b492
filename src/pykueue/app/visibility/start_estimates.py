"""Estimated starts of pending Workloads, for the visibility API and the page.

All pending Workloads of the queues that share quota are estimated together, on demand and in a
thread. The result serves everybody while the same Workloads wait and hold quota, for at most
`KEPT_SECONDS`. When others do, the estimate is made anew, but a thread works on estimates for at
most a tenth of the time: the cost does not grow with the number of those who ask.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykueue.api import resources
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.simulate.engine_driver.world import KINDS, World
from pykueue.simulate.estimates import live
from pykueue.simulate.estimates.starts import MOST_PENDING, MOST_RUNNING, EstimatedStart
from pykueue.translate import workload as workloads

if TYPE_CHECKING:
    from pykueue.engine.view import ClusterQueueView, EngineView, TreeKey
    from pykueue.kube.controller.cache import ObjectCache

Starts = Mapping[values.WorkloadKey, EstimatedStart]

KEPT_SECONDS = 15.0
PAUSES_PER_ESTIMATE = 9
"""For how many times as long as an estimate took it is kept, whatever has changed."""

_OF_ALL_QUEUES = tuple(kind for kind in KINDS.values() if kind not in (resources.POD, resources.WORKLOAD))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    """The Workloads that share quota."""

    pending: frozenset[values.WorkloadKey]
    reserved: frozenset[values.WorkloadKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    starts: Starts
    members: _Members
    """As the estimate saw them: an object may lag behind the engine, which then differs."""
    made_at: float
    seconds: float

    def serves(self, members: _Members, now: float) -> bool:
        age = now - self.made_at
        return age < KEPT_SECONDS and (members == self.members or age < PAUSES_PER_ESTIMATE * self.seconds)


class StartEstimates:
    def __init__(self, configuration: Callable[[], Mapping[str, Any]]) -> None:
        self._configuration = configuration
        self._estimates: dict[TreeKey, _Estimate] = {}
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
            members = _members(view, tree)
            if members is None:
                return None
            estimate = self._estimates.get(tree)
            if estimate is None or not estimate.serves(members, time.monotonic()):
                items = {kind: list(cache.all(kind)) for kind in _OF_ALL_QUEUES}
                workloads_of_all = list(cache.all(resources.WORKLOAD))
                estimate = await asyncio.to_thread(self._estimate, items, workloads_of_all, members)
                self._estimates[tree] = estimate
            return estimate.starts

    async def of_workload(
        self, view: "EngineView", cache: "ObjectCache", key: values.WorkloadKey
    ) -> EstimatedStart | None:
        queue = view.cluster_queue_of(key)
        starts = None if queue is None else await self.of_cluster_queue(view, cache, queue)
        return None if starts is None else starts.get(key)

    def _estimate(self, items: Mapping[Any, list[Object]], listed: list[Object], members: _Members) -> _Estimate:
        """Runs in a thread: it reads objects, which never change, and nothing else."""
        started, now_ns, configuration = time.monotonic(), time.time_ns(), self._configuration()
        by_key = {workloads.key(obj): obj for obj in listed}
        keys = members.pending | members.reserved
        related = [obj for key, obj in by_key.items() if key in keys]
        objects = [
            {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
            for kind, group in [*items.items(), (resources.WORKLOAD, related)]
            for obj in group
        ]
        world = World.from_objects(objects, configuration, now_ns=now_ns)
        members = _members_of(world.engine.view, world.engine.view.cluster_queues())
        starts = live.estimate_all(world.engine, by_key, now_ns=now_ns, configuration=configuration)
        made_at = time.monotonic()
        return _Estimate(starts=starts, members=members, made_at=made_at, seconds=made_at - started)


def _members(view: "EngineView", tree: "TreeKey") -> _Members | None:
    """The Workloads that share quota; None if they are too many to simulate."""
    queues = [queue for queue in view.cluster_queues() if view.tree_of(queue.name) == tree]
    if sum(queue.pending_count for queue in queues) > MOST_PENDING:
        return None
    if sum(queue.reservation_count for queue in queues) > MOST_RUNNING:
        return None
    return _members_of(view, queues)


def _members_of(view: "EngineView", queues: "Iterable[ClusterQueueView]") -> _Members:
    names = [queue.name for queue in queues]
    return _Members(
        pending=frozenset(workload.key for name in names for workload in view.pending_in_order(name) or ()),
        reserved=frozenset(reservation.workload.key for name in names for reservation in view.reservations(name)),
    )
