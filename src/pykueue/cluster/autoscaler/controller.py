"""The autoscaler's loop: while there are NodePools, starts and removes nodes once a second."""

import asyncio
import functools
from collections.abc import Generator
from datetime import UTC, datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import nodes
from pykueue.cluster.autoscaler import claims, plan, provisioning
from pykueue.cluster.autoscaler.plan import StartingNode
from pykueue.cluster.autoscaler.pool import Pool, flavor_mismatch
from pykueue.cluster.scheduler.controller import SchedulerController
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.executor import WriteExecutor

_PERIOD_SECONDS = 1.0

Errors = tuple[Exception, ...]


class Autoscaler:
    def __init__(
        self, cache: ObjectCache, scheduler: SchedulerController, executor: WriteExecutor, clock: Clock, *, runtime: str
    ) -> None:
        self._runtime = runtime
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._cache = cache
        self._starting: list[StartingNode] = []
        self._waited: set[str] = set()
        """The UIDs of the pods that waited at the last look."""
        self._idle_since: dict[str, datetime] = {}
        self._last_messages: dict[str, str] = {}
        self._pool_changed = asyncio.Event()
        cache.add_kind(resources.POD_TEMPLATE)
        for kind in (
            resources.NODE_POOL,
            resources.NODE_CLAIM,
            resources.RESOURCE_FLAVOR,
            resources.PROVISIONING_REQUEST,
            resources.NODE,
            resources.POD,
        ):
            cache.add_kind(kind)
        cache.on_change(resources.NODE_POOL, lambda _old, _new: self._pool_changed.set())

    async def run(self) -> None:
        while True:
            if not self._cache.all(resources.NODE_POOL):
                self._pool_changed.clear()
                await self._pool_changed.wait()
                continue
            await self._run_once()
            await self._clock.sleep(_PERIOD_SECONDS)

    async def _run_once(self) -> None:
        now = datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
        pools = [Pool(pool) for pool in self._cache.all(resources.NODE_POOL) if not objects.is_deleted(pool)]
        await self._executor.run(self._sync(pools, now))

    def _sync(self, pools: list[Pool], now: datetime) -> writes.Sync:
        batch: list[writes.Action] = []
        batch += self._answer_requests(pools, now)
        batch += self._grow(pools, now)
        for pool in pools:
            self._starting += plan.fill(pool, self._scheduler.fleet, self._starting, now)
        errors = yield from self._create_started(pools, now)
        batch += self._shrink(pools, now)
        batch += self._warn_of_mismatches(pools)
        if batch:
            results = yield batch
            errors += writes.refusals(results)
        return writes.Done(errors=errors)

    def _grow(self, pools: list[Pool], now: datetime) -> list[writes.Action]:
        """Start nodes for pods that waited at the last look, too.

        A pod that takes the room of one that is just ending needs no node of its own.
        """
        unscheduled = [pod for pod in self._scheduler.waiting.values() if conditions.find(pod, "PodScheduled")]
        waiting = [pod for pod in unscheduled if objects.uid(pod) in self._waited]
        self._waited = {objects.uid(pod) for pod in unscheduled}
        growth = plan.grow(waiting, pools, self._scheduler.fleet, starting=self._starting, now=now)
        self._starting += growth.nodes
        batch: list[writes.Action] = []
        by_uid = {objects.uid(pod): pod for pod in waiting}
        for uid, pool in growth.grown_for.items():
            message = f"pod triggered scale-up: {pool}"
            batch += self._event_once(by_uid[uid], "Normal", "TriggeredScaleUp", message)
        for uid, reasons in growth.refused.items():
            batch += self._event_once(
                by_uid[uid], "Normal", "NotTriggerScaleUp", f"pod didn't trigger scale-up: {reasons}"
            )
        return batch

    def _create_started(self, pools: list[Pool], now: datetime) -> Generator[writes.Batch, list[writes.Result], Errors]:
        """Create the nodes whose start delay is over: the NodeClaim first, which owns the node."""
        due = [starting for starting in self._starting if starting.ready_at <= now]
        self._starting = [starting for starting in self._starting if starting.ready_at > now]
        templates = {pool.name: pool.template for pool in pools}
        errors: Errors = ()
        for starting in due:
            claim = claims.claim_of(starting.node, templates.get(starting.pool, {}))
            (created,) = yield [writes.Create(resource=resources.NODE_CLAIM, object=claim)]
            if isinstance(created, writes.Refused):
                errors += (created.error,)
                continue
            node = claims.owned(nodes.created_by(starting.node, self._runtime), created)
            results = yield [
                writes.Create(resource=resources.NODE, object=node),
                claims.ready(created, starting.node, now),
            ]
            errors += writes.refusals(results)
        return errors

    def _shrink(self, pools: list[Pool], now: datetime) -> list[writes.Action]:
        fleet = self._scheduler.fleet
        busy = {name for name, state in fleet.nodes.items() if state.pods}
        self._idle_since = {name: self._idle_since.get(name, now) for name in fleet.nodes if name not in busy}
        present = (objects.name(node) for node in self._cache.all(resources.NODE))
        batch: list[writes.Action] = [
            writes.Delete(resource=resources.NODE_CLAIM, object=claim)
            for claim in claims.without_node(self._cache.all(resources.NODE_CLAIM), present)
        ]
        for pool in pools:
            for node in plan.idle_nodes(pool, fleet, self._idle_since, now):
                message = f"Scale-down: node {objects.name(node)} of pool {pool.name} is empty and is removed"
                batch += [
                    writes.Delete(resource=resources.NODE, object=node),
                    writes.Event(about=pool.object, type="Normal", reason="ScaleDownEmpty", message=message),
                ]
        return batch

    def _answer_requests(self, pools: list[Pool], now: datetime) -> list[writes.Action]:
        batch: list[writes.Action] = []
        for request in filter(provisioning.is_open, self._cache.all(resources.PROVISIONING_REQUEST)):
            verdict = provisioning.answer(
                request,
                functools.partial(self._cache.get, resources.POD_TEMPLATE, namespace=objects.namespace(request)),
                self._scheduler.fleet,
                pools=pools,
                starting=self._starting,
                now=now,
            )
            self._starting += verdict.nodes
            batch.append(_conditions_patch(request, verdict.condition, now))
        return batch

    def _warn_of_mismatches(self, pools: list[Pool]) -> list[writes.Action]:
        batch: list[writes.Action] = []
        for flavor in self._cache.all(resources.RESOURCE_FLAVOR):
            if message := flavor_mismatch(flavor, pools, self._scheduler.fleet):
                batch += self._event_once(flavor, "Warning", "NoMatchingNodePool", message)
        return batch

    def _event_once(self, about: Object, type_: str, reason: str, message: str) -> list[writes.Action]:
        if self._last_messages.get(objects.uid(about)) == message:
            return []
        self._last_messages[objects.uid(about)] = message
        return [writes.Event(about=about, type=type_, reason=reason, message=message)]


def _conditions_patch(request: Object, condition: Object, now: datetime) -> writes.Patch:
    accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "The request is accepted."}
    stored = objects.nested_list(request, "status", "conditions")
    updated = conditions.replaced(conditions.replaced(stored, accepted, now), condition, now)
    return writes.Patch(
        resource=resources.PROVISIONING_REQUEST,
        object=request,
        patch={"status": {"conditions": updated}},
        subresource="status",
        guarded=False,
    )
