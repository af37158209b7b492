"""The controller of an AdmissionCheck, as somebody else might write it: it answers after a while,
mostly yes, sometimes try again, seldom no.
"""

import asyncio
import random

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import InformerSet, Key, ObjectCache, key_of
from pykueue.kube.controller.event_recorder import EventRecorder, EventsV1
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.controller.writes import Update

NAME = "external"
CONTROLLER = "example.com/external"
_ANSWERS = ("Ready",) * 14 + ("Retry",) * 3 + ("Rejected",)


class CheckController:
    def __init__(self, client: Client, clock: Clock, source: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._random = source
        self._cache = ObjectCache()
        recorder = EventRecorder(client, clock, EventsV1(instance=NAME))
        self._executor = WriteExecutor(client, self._cache, recorder, NAME, field_manager=NAME)
        self._queue: WorkQueue[Key] = WorkQueue(NAME, clock)
        self._cache.on_change(resources.WORKLOAD, self._changed)
        self._cache.on_change(resources.ADMISSION_CHECK, self._changed)

    async def run(self) -> None:
        kinds = (resources.WORKLOAD, resources.ADMISSION_CHECK)
        async with asyncio.TaskGroup() as group:
            group.create_task(InformerSet(self._client, self._cache, self._clock).run(kinds))
            group.create_task(self._queue.run(self._reconcile))

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add_unless_due(key_of(new), int(self._random.random() ** 2 * 5 * SECOND_NS) + 1)

    async def _reconcile(self, key: Key) -> int:
        namespace, name = key
        resource = resources.WORKLOAD if namespace else resources.ADMISSION_CHECK
        old = self._cache.get(resource, name, namespace)
        if old is None:
            return 0
        new = copied(old)
        if namespace:
            is_changed = self._answer(new)
        else:
            is_changed = conditions.put(
                new, "Active", status=True, reason="Active", message="runs", now_ns=self._clock.now_ns()
            )
        if is_changed:
            await self._executor.write(Update(resource=resource, old=old, new=new, status=True))
        return 0

    def _answer(self, workload: Object) -> bool:
        if not conditions.is_true(workload, "QuotaReserved") or conditions.is_true(workload, "Finished"):
            return False
        is_changed = False
        for check in objects.status(workload).get("admissionChecks") or ():
            if check["name"] == NAME and check["state"] == "Pending":
                check["state"] = self._random.choice(_ANSWERS)
                check["message"] = "drawn"
                check["lastTransitionTime"] = from_ns(self._clock.now_ns())
                is_changed = True
        return is_changed
