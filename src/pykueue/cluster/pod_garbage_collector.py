"""The pod garbage collector: deletes pods of nodes that no longer exist."""

import asyncio
from datetime import UTC, datetime

from pykueue.api import resources, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor

_RETRY_SECONDS = 1.0


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
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._changed = asyncio.Event()
        for kind in (resources.NODE, resources.POD):
            cache.add_kind(kind)
        cache.on_change(resources.NODE, self._node_changed)

    def _node_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is None:
            self._changed.set()

    async def run(self) -> None:
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
            orphaned = [
                pod
                for pod in self._cache.all(resources.POD)
                if pods.node_name(pod) and self._cache.get(resources.NODE, pods.node_name(pod)) is None
            ]
            done = await self._executor.run(delete_pods(orphaned, now))
            if done.errors:
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()
