"""The scheduler's loop: updates the fleet, and runs a pass when something has changed."""

import asyncio
from datetime import UTC, datetime

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster.scheduler import scheduling_pass
from pykueue.cluster.scheduler.fleet import Fleet
from pykueue.kube.clock import Clock
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import Views
from pykueue.kube.informer import Change

_RETRY_SECONDS = 1.0


class SchedulerController:
    def __init__(self, views: Views, executor: WriteExecutor, clock: Clock) -> None:
        self.fleet = Fleet()
        self.waiting: dict[str, Object] = {}
        self._executor = executor
        self._clock = clock
        self._changed = asyncio.Event()
        views.of(resources.NODE).add_handler(self._node_changed)
        views.of(resources.POD).add_handler(self._pod_changed)

    def _node_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self.fleet.remove_node(objects.name(change.object))
        else:
            self.fleet.set_node(change.object)
        self._changed.set()

    def _pod_changed(self, change: Change) -> None:
        pod, uid = change.object, objects.uid(change.object)
        if change.type == "DELETED":
            self.waiting.pop(uid, None)
            if self.fleet.remove_pod(uid):
                self._changed.set()
            return
        was_bound = self.fleet.is_bound(uid)
        self.fleet.set_pod(pod)
        if scheduling_pass.is_waiting(pod) and not self.fleet.is_assumed(uid):
            is_new = uid not in self.waiting or change.old is None or change.old["spec"] != pod["spec"]
            self.waiting[uid] = pod
            if is_new:
                self._changed.set()
        else:
            self.waiting.pop(uid, None)
            if was_bound and not self.fleet.is_bound(uid):
                self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self.waiting:
                continue
            now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
            done = await self._executor.run(scheduling_pass.schedule(list(self.waiting.values()), self.fleet, now))
            for uid in [uid for uid in self.waiting if self.fleet.is_bound(uid)]:
                del self.waiting[uid]
            if done.errors:
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()
