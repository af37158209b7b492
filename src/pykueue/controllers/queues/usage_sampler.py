"""Admission fair sharing: samples the recent usage of LocalQueues for the engine.

The engine orders the Workloads of a ClusterQueue by this usage. After a restart the samples
continue from the status.
"""

from collections.abc import Mapping

from pykueue.api import objects, quantity, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import from_ns, to_ns
from pykueue.controllers.scheduler.controller import Scheduler
from pykueue.engine import events, values
from pykueue.engine.policy import AdmissionFairSharing
from pykueue.engine.quota.admission_fair_sharing import decayed
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import changes
from pykueue.translate.local_queue_usage import admitted_usage


class UsageSampler:
    def __init__(
        self,
        scheduler: Scheduler,
        cache: ObjectCache,
        executor: WriteExecutor,
        *,
        clock: Clock,
        config: AdmissionFairSharing,
    ) -> None:
        self._scheduler = scheduler
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._config = config
        self._sampled_ns: dict[Key, int] = {}
        self.queue: WorkQueue[Key] = WorkQueue("usage", clock)
        cache.on_change(resources.LOCAL_QUEUE, self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and old is None:
            self.queue.add(key_of(new))
        elif new is None and old is not None:
            self._sampled_ns.pop(key_of(old), None)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        old = self._cache.get(resources.LOCAL_QUEUE, name, namespace)
        if old is None:
            return 0
        queue = values.LocalQueueKey(f"{namespace}/{name}")
        now_ns = self._clock.now_ns()
        if key not in self._sampled_ns:
            before, self._sampled_ns[key] = _from_status(old, now_ns)
            self._scheduler.handle(events.LocalQueueUsageSampled(at_ns=now_ns, key=queue, consumed=before))
        elapsed_ns = max(0, now_ns - self._sampled_ns[key])
        if elapsed_ns < self._config.sampling_interval_ns:
            return self._config.sampling_interval_ns - elapsed_ns
        before = self._scheduler.engine.view.consumed(queue)
        consumed: Mapping[values.ResourceName, int] = {}
        if self._config.half_life_ns:
            used = admitted_usage(self._scheduler.engine.view, queue)
            consumed = decayed(before, used, elapsed_ns, self._config.half_life_ns)
        self._sampled_ns[key] = now_ns
        self._scheduler.handle(events.LocalQueueUsageSampled(at_ns=now_ns, key=queue, consumed=consumed))
        await self._executor.apply(changes(resources.LOCAL_QUEUE, old, _with_status(old, consumed, now_ns)))
        return self._config.sampling_interval_ns


def _from_status(queue: Object, now_ns: int) -> tuple[dict[values.ResourceName, int], int]:
    """The consumed resources in the status, and when they were sampled."""
    shared = objects.nested(queue, "status", "fairSharing", "admissionFairSharingStatus")
    consumed = {
        values.ResourceName(name): quantity.parse(amount).nano
        for name, amount in (shared.get("consumedResources") or {}).items()
    }
    return consumed, to_ns(shared["lastUpdate"]) if shared.get("lastUpdate") else now_ns


def _with_status(queue: Object, consumed: Mapping[values.ResourceName, int], now_ns: int) -> Object:
    new: Object = copied(queue)
    sharing = new.setdefault("status", {}).setdefault("fairSharing", {"weightedShare": 0})
    sharing["admissionFairSharingStatus"] = {
        "consumedResources": {name: str(quantity.Quantity(nano)) for name, nano in consumed.items()},
        "lastUpdate": from_ns(now_ns),
    }
    return new
