"""The scheduler's loop: updates the fleet, and runs a pass when something has changed."""

import asyncio
from datetime import UTC, datetime

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster.scheduler import device_allocation, scheduling_pass
from pykueue.cluster.scheduler.device_allocation import DevicePass
from pykueue.cluster.scheduler.fleet import Fleet
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, latest
from pykueue.kube.controller.executor import WriteExecutor

_DEVICE_KINDS = (resources.RESOURCE_CLAIM, resources.RESOURCE_SLICE, resources.DEVICE_CLASS)
_RETRY_SECONDS = 1.0


class SchedulerController:
    """Binds pods to nodes.

    With `binds=False` it only reports pods of a cluster without nodes; where there are nodes, it
    leaves pods to another scheduler.
    """

    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock, *, binds: bool = True) -> None:
        self._binds = binds
        self.fleet = Fleet()
        self.waiting: dict[str, Object] = {}
        self._executor = executor
        self._clock = clock
        self._changed = asyncio.Event()
        self._cache = cache
        for kind in (resources.NODE, resources.POD, *_DEVICE_KINDS):
            cache.add_kind(kind)
        for kind in _DEVICE_KINDS:
            cache.on_change(kind, self._devices_changed)
        cache.on_change(resources.NODE, self._node_changed)
        cache.on_change(resources.POD, self._pod_changed)

    def _devices_changed(self, _old: Object | None, _new: Object | None) -> None:
        if any(map(device_allocation.may_need_devices, self.waiting.values())):
            self._changed.set()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.fleet.remove_node(objects.name(latest(old, new)))
        else:
            self.fleet.set_node(new)
        self._changed.set()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = latest(old, new)
        uid = objects.uid(pod)
        if new is None:
            self.waiting.pop(uid, None)
            if self.fleet.remove_pod(uid):
                self._changed.set()
            return
        was_bound = self.fleet.is_bound(uid)
        self.fleet.set_pod(pod)
        if scheduling_pass.is_waiting(pod) and not self.fleet.is_assumed(uid):
            is_new = uid not in self.waiting or old is None or old["spec"] != pod["spec"]
            is_new |= device_allocation.has_claims(pod)
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
            if not self.waiting or (self.fleet.nodes and not self._binds):
                continue
            now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
            waiting = list(self.waiting.values())
            devices = DevicePass(self._cache) if any(map(device_allocation.may_need_devices, waiting)) else None
            done = await self._executor.run(scheduling_pass.schedule(waiting, self.fleet, now, devices))
            for uid in [uid for uid in self.waiting if self.fleet.is_bound(uid)]:
                del self.waiting[uid]
            if done.errors:
                await self._clock.sleep(_RETRY_SECONDS)
                self._changed.set()
