"""Pods of a node that no longer exists: marked as disrupted and removed, so that their owners replace them elsewhere."""

import asyncio
from datetime import UTC, datetime

from pykueue.api import resources, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import Views
from pykueue.kube.informer import Change

_RETRY_SECONDS = 1.0


def release(lost: list[Object], now: datetime) -> writes.Sync:
    """Failed first, so that whoever counts the pods sees why; then gone without waiting for anyone."""
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": times.to_text(now),
    }
    batch: list[writes.Write] = []
    for pod in lost:
        if not pods.is_finished(pod):
            batch.append(
                writes.Patch(
                    resource=resources.POD,
                    object=pod,
                    patch={"status": {"phase": "Failed", "conditions": [told]}},
                    subresource="status",
                    guarded=False,
                    by_key=True,
                )
            )
        batch.append(writes.Delete(resource=resources.POD, object=pod, propagation_policy="", grace_period_seconds=0))
    results = (yield batch) if batch else []
    return writes.Done(errors=writes.refusals(results))


class NodeLifecycleController:
    def __init__(self, views: Views, performer: WriteExecutor, clock: Clock) -> None:
        self._nodes = views.of(resources.NODE)
        self._pods = views.of(resources.POD)
        self._performer = performer
        self._clock = clock
        self._changed = asyncio.Event()
        self._nodes.add_handler(self._node_changed)

    def _node_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._changed.set()

    async def run(self) -> None:
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
            lost = [
                pod for pod in self._pods.items() if pods.node_name(pod) and not self._nodes.get(pods.node_name(pod))
            ]
            done = await self._performer.run(release(lost, now))
            if done.errors:
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()
