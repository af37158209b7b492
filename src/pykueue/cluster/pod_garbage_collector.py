"""The pod garbage collector: deletes pods of nodes that no longer exist."""

import asyncio
from datetime import UTC, datetime

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import first_of

_RETRY_SECONDS = 1.0
QUARANTINE_SECONDS = 40.0


def delete_pods(orphaned: list[Object], now: datetime) -> writes.Sync:
    """Set each pod to Failed, so that its owner sees the reason, and delete it."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": times.to_text(now),
    }
    batch: list[writes.Action] = []
    for pod in orphaned:
        if not pods.is_finished(pod):
            batch.append(
                writes.Patch(
                    resource=resources.POD,
                    object=pod,
                    patch={"status": {"phase": "Failed", "conditions": [condition]}},
                    subresource="status",
                    guarded=False,
                    by_key=True,
                )
            )
        batch.append(writes.Delete(resource=resources.POD, object=pod, propagation_policy="", grace_period_seconds=0))
    results = (yield batch) if batch else []
    return writes.Done(errors=writes.refusals(results))


class PodGarbageCollector:
    """Deletes the pods of nodes that do not exist.

    A node may be unknown because its watch is late, so the pods of a node that was not seen
    before its end wait for `QUARANTINE_SECONDS`.
    """

    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._changed = asyncio.Event()
        self._deleted: set[str] = set()
        """Nodes whose deletion the watch has shown."""
        self._missing: dict[str, int] = {}
        """Since when a node is missing that pods are bound to."""
        for kind in (resources.NODE, resources.POD):
            cache.add_kind(kind)
        cache.on_change(resources.NODE, self._node_changed)
        cache.on_change(resources.POD, self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        name = objects.name(latest(old, new))
        if new is None:
            self._deleted.add(name)
            self._changed.set()
        else:
            self._deleted.discard(name)

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        """A pod may be bound to a node after the node's deletion."""
        if new is not None and self._is_orphaned(new):
            self._changed.set()

    def _is_orphaned(self, pod: Object) -> bool:
        """Whether the pod's node does not exist, and the pod is not deleted at once already."""
        name = pods.node_name(pod)
        is_ending = objects.is_deleted(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0
        return bool(name) and not is_ending and self._cache.get(resources.NODE, name) is None

    async def run(self) -> None:
        # All nodes are listed before this runs.
        self._deleted |= {pods.node_name(pod) for pod in self._orphaned()}
        self._changed.set()
        while True:
            await first_of(self._changed, self._clock, QUARANTINE_SECONDS if self._missing else None)
            self._changed.clear()
            now_ns = self._clock.now_ns()
            orphaned = self._orphaned()
            names = {pods.node_name(pod) for pod in orphaned}
            self._missing = {name: self._missing.get(name, now_ns) for name in sorted(names - self._deleted)}
            overdue = {name for name, since_ns in self._missing.items() if _is_over(since_ns, now_ns)}
            ended = [pod for pod in orphaned if pods.node_name(pod) in self._deleted | overdue]
            done = await self._executor.run(delete_pods(ended, datetime.fromtimestamp(now_ns / SECOND_NS, UTC)))
            if done.errors:
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()

    def _orphaned(self) -> list[Object]:
        return [pod for pod in self._cache.all(resources.POD) if self._is_orphaned(pod)]


def _is_over(since_ns: int, now_ns: int) -> bool:
    return now_ns - since_ns >= QUARANTINE_SECONDS * SECOND_NS
