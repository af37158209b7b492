"""Node pools at work: looks at what waits once a second while there is something to do, starts and removes nodes."""

import asyncio
import functools
from datetime import UTC, datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster.autoscaler import flavors, plan, provisioning
from pykueue.cluster.autoscaler.plan import Starting
from pykueue.cluster.autoscaler.pool import Pool
from pykueue.cluster.scheduler.controller import SchedulerController
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import Views

_PERIOD_SECONDS = 1.0


class Autoscaler:
    def __init__(self, views: Views, placement: SchedulerController, performer: WriteExecutor, clock: Clock) -> None:
        self._placement = placement
        self._performer = performer
        self._clock = clock
        self._pools = views.of(resources.NODE_POOL)
        self._flavors = views.of(resources.RESOURCE_FLAVOR)
        self._requests = views.of(resources.PROVISIONING_REQUEST)
        self._templates = views.of(resources.POD_TEMPLATE)
        self._starting: list[Starting] = []
        self._idle_since: dict[str, datetime] = {}
        self._told: dict[str, str] = {}
        self._changed = asyncio.Event()
        for view in (self._pools, self._flavors, self._requests, views.of(resources.NODE), views.of(resources.POD)):
            view.add_handler(lambda _change: self._changed.set())

    async def run(self) -> None:
        while True:
            if not self._pools.items():
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._look()
            await self._clock.sleep(_PERIOD_SECONDS)

    async def _look(self) -> None:
        now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
        pools = [Pool(found) for found in self._pools.items() if not objects.is_deleted(found)]
        await self._performer.run(self._settle(pools, now))

    def _settle(self, pools: list[Pool], now: datetime) -> writes.Sync:
        batch: list[writes.Write] = []
        batch += self._answer_requests(pools, now)
        batch += self._grow(pools, now)
        for pool in pools:
            self._starting += plan.fill(pool, self._placement.fleet, self._starting, now)
        batch += self._bring_up(now)
        batch += self._shrink(pools, now)
        batch += self._tell_mismatches(pools)
        if batch:
            results = yield batch
            return writes.Done(errors=writes.refusals(results))
        return writes.Done()

    def _grow(self, pools: list[Pool], now: datetime) -> list[writes.Write]:
        waiting = [pod for pod in self._placement.waiting.values() if conditions.find(pod, "PodScheduled")]
        growth = plan.grow(waiting, pools, self._placement.fleet, starting=self._starting, now=now)
        self._starting += growth.nodes
        batch: list[writes.Write] = []
        by_uid = {objects.uid(pod): pod for pod in waiting}
        for uid, pool in growth.grown_for.items():
            message = f"pod triggered scale-up: {pool}"
            batch += self._tell_once(by_uid[uid], "Normal", "TriggeredScaleUp", message)
        for uid, why in growth.refused.items():
            batch += self._tell_once(by_uid[uid], "Normal", "NotTriggerScaleUp", f"pod didn't trigger scale-up: {why}")
        return batch

    def _bring_up(self, now: datetime) -> list[writes.Write]:
        """Nodes whose start is over join the cluster."""
        due = [found for found in self._starting if found.ready_at <= now]
        self._starting = [found for found in self._starting if found.ready_at > now]
        return [writes.Create(resource=resources.NODE, object=found.node) for found in due]

    def _shrink(self, pools: list[Pool], now: datetime) -> list[writes.Write]:
        fleet = self._placement.fleet
        busy = {name for name, state in fleet.nodes.items() if state.pods}
        self._idle_since = {name: self._idle_since.get(name, now) for name in fleet.nodes if name not in busy}
        batch: list[writes.Write] = []
        for pool in pools:
            for node in plan.idle(pool, fleet, self._idle_since, now):
                message = f"Scale-down: node {objects.name(node)} of pool {pool.name} is empty and is removed"
                batch += [
                    writes.Delete(resource=resources.NODE, object=node),
                    writes.Event(about=pool.object, type="Normal", reason="ScaleDownEmpty", message=message),
                ]
        return batch

    def _answer_requests(self, pools: list[Pool], now: datetime) -> list[writes.Write]:
        batch: list[writes.Write] = []
        for request in filter(provisioning.is_open, self._requests.items()):
            verdict = provisioning.answer(
                request,
                functools.partial(self._templates.get, namespace=objects.namespace(request)),
                self._placement.fleet,
                pools=pools,
                starting=self._starting,
                now=now,
            )
            self._starting += verdict.nodes
            batch.append(_conditions(request, verdict.condition, now))
        return batch

    def _tell_mismatches(self, pools: list[Pool]) -> list[writes.Write]:
        batch: list[writes.Write] = []
        for flavor in self._flavors.items():
            if message := flavors.mismatch(flavor, pools, self._placement.fleet):
                batch += self._tell_once(flavor, "Warning", "NoMatchingNodePool", message)
        return batch

    def _tell_once(self, about: Object, type_: str, reason: str, message: str) -> list[writes.Write]:
        if self._told.get(objects.uid(about)) == message:
            return []
        self._told[objects.uid(about)] = message
        return [writes.Event(about=about, type=type_, reason=reason, message=message)]


def _conditions(request: Object, condition: Object, now: datetime) -> writes.Patch:
    accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "The request is accepted."}
    stored = (request.get("status") or {}).get("conditions") or ()
    told = conditions.replaced(conditions.replaced(stored, accepted, now), condition, now)
    return writes.Patch(
        resource=resources.PROVISIONING_REQUEST,
        object=request,
        patch={"status": {"conditions": told}},
        subresource="status",
        guarded=False,
    )
