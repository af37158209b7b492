"""The embedded API without a transport: the verbs of `calls.Verbs` on one store.

A verb reads and decides in one step without `await` (`reading`, `writing`, `deletion`), waits
until the store has committed the change, and returns the response. The controllers that
Kubernetes runs behind its API (garbage collector, namespace deletion, expiry of events) run
beside it.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Kind, Object, Scheme, Settings
from pykueue.apiserver import context, deletion, scales, versions
from pykueue.apiserver.calls import (
    DeleteCall,
    ListCall,
    ObjectResponse,
    Page,
    PatchBody,
    ResourceTarget,
    Sink,
    Subscription,
    WatchCall,
    WriteCall,
)
from pykueue.apiserver.context import Context, WriteOutcome
from pykueue.apiserver.controllers.disruption_budget_status import DisruptionBudgetStatus
from pykueue.apiserver.controllers.event_expiry import EventExpiry
from pykueue.apiserver.controllers.garbage_collector import GarbageCollector
from pykueue.apiserver.controllers.namespaces import NamespaceTerminator
from pykueue.apiserver.controllers.resource_quota_status import ResourceQuotaStatus
from pykueue.apiserver.event_writes import EventWriter
from pykueue.apiserver.plugins.registry import Plugins
from pykueue.apiserver.plugins.resource_quota import QuotaUsage
from pykueue.apiserver.plugins.webhooks import WebhookCaller
from pykueue.apiserver.reading import ReadHandler
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.slices import Slices
from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.store import Store
from pykueue.apiserver.watches import WatchHub
from pykueue.apiserver.writing import WriteHandler
from pykueue.kube.supervisor import Supervisor

_DELETED_PER_TURN = 8


class Core:
    """Implements `calls.Verbs`. Call `start` before the first verb and `stop` after the last."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        *,
        settings: Settings | None = None,
        clock: Callable[[], datetime] = context.now,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`authorizer` answers the questions of admission policies, and who is a controller."""
        self.scheme = scheme
        self.store = store
        self.hub = WatchHub(lambda: store.revision)
        self.context = Context(
            store=store, scheme=scheme, settings=settings or Settings(), clock=clock, authorizer=authorizer
        )
        self._quota_usage = QuotaUsage(store, clock)
        plugins = Plugins(store, scheme, self._quota_usage, authorizer)
        self.context.plugins += plugins.of_writes
        self.context.has_user_rules = plugins.have_user_rules
        self.context.deletion_plugins += plugins.of_deletions
        self.context.mutating_plugins += plugins.mutating
        self._webhooks = WebhookCaller(plugins.webhooks, context.StoreLookup(store, scheme))
        self._slices = Slices()
        self._reads = ReadHandler(store, self.hub, self._slices)
        self._writes = WriteHandler(self.context)
        self._events = EventWriter(store, clock)
        self._deletes = deletion.DeleteHandler(self.context)
        self._supervisor = Supervisor()
        store.listeners.append(self.hub.publish)

    async def start(self) -> None:
        self.hub.start()
        self.garbage = GarbageCollector(self, self.context)
        self.namespace_terminator = NamespaceTerminator(self, self.context)
        self.quota_status = ResourceQuotaStatus(self, self.context, self._quota_usage, self._slices)
        self._supervisor.start("garbage collector", self.garbage.run)
        self._supervisor.start("namespace terminator", self.namespace_terminator.run)
        self._supervisor.start("resource quota status", self.quota_status.run)
        self.disruption_budgets = DisruptionBudgetStatus(self, self.context)
        self._supervisor.start("disruption budget status", self.disruption_budgets.run)
        self._supervisor.start("event expiry", EventExpiry(self, self.context).run)

    async def stop(self) -> None:
        await self._supervisor.stop()
        self.hub.stop()
        await self.store.close()

    async def get(self, target: ResourceTarget, *, resource_version: str = "") -> ObjectResponse:
        return self._reads.get(target, resource_version)

    async def list(self, target: ResourceTarget, call: ListCall) -> Page:
        return await self._reads.list(target, call)

    async def watch(self, target: ResourceTarget, call: WatchCall, sink: Sink) -> Subscription:
        return self._reads.watch(target, call, sink)

    async def create(self, target: ResourceTarget, body: Object, call: WriteCall) -> ObjectResponse:
        await self._count_quotas(target)
        return await self._respond(target, await self._webhooks.write(self._writes.create, target, body, call))

    async def create_events(self, kind: Kind, events: Sequence[Object], call: WriteCall) -> None:
        """Create events that a controller of this process recorded. Refused ones are dropped."""
        revision = 0
        takes_shorter_way = call.is_trusted and not self.context.has_user_rules()
        for event in events:
            with contextlib.suppress(ApiError):
                if takes_shorter_way:
                    stored = self._events.create(kind, event, call.field_manager or "unknown")
                    revision = stored.revision if stored is not None else revision
                else:
                    target = ResourceTarget(kind=kind, namespace=objects.namespace(event))
                    await self.create(target, copied(event), call)
        if revision:
            await self._committed(revision)

    async def update(self, target: ResourceTarget, body: Object, call: WriteCall) -> ObjectResponse:
        await self._count_quotas(target)
        return await self._respond(target, await self._webhooks.write(self._writes.update, target, body, call))

    async def patch(self, target: ResourceTarget, patch: PatchBody, call: WriteCall) -> ObjectResponse:
        await self._count_quotas(target)
        return await self._respond(target, await self._webhooks.write(self._writes.patch, target, patch, call))

    async def delete(self, target: ResourceTarget, call: DeleteCall) -> ObjectResponse:
        outcome = await self._webhooks.run(functools.partial(self._deletes.delete, target), call)
        await self._settled(outcome)
        is_pod = (target.kind.group, target.kind.kind) == ("", "Pod")
        if outcome.is_removed and not is_pod:
            return ObjectResponse(encoded=msgspec.json.encode(deletion.success(outcome)), warnings=outcome.warnings)
        return ObjectResponse(
            kind=outcome.kind, stored=outcome.stored, warnings=outcome.warnings, is_accepted=not outcome.is_removed
        )

    async def delete_collection(self, target: ResourceTarget, selection: ListCall, call: DeleteCall) -> Page:
        """Delete a few objects in each turn: others write in between, and no commit is large."""
        page = await self._reads.list(target, selection)
        for start in range(0, len(page.items), _DELETED_PER_TURN):
            await self._slices.turn(target.namespace)
            outcomes = [
                await self._delete_member(target.kind, msgspec.json.decode(item), call)
                for item in page.items[start : start + _DELETED_PER_TURN]
            ]
            for outcome in outcomes:
                if outcome is not None:
                    await self._settled(outcome)
        return page

    async def _delete_member(self, kind: Kind, obj: Object, call: DeleteCall) -> WriteOutcome | None:
        """Delete an object of a collection; None if it is gone already."""
        member = ResourceTarget(kind=kind, namespace=objects.namespace(obj), name=objects.name(obj))
        try:
            return await self._webhooks.run(functools.partial(self._deletes.delete, member), call)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def _count_quotas(self, target: ResourceTarget) -> None:
        """Count what the quotas of the namespace have not counted yet, in slices."""
        if not target.namespace:
            return
        collection = (versions.storage_group(target.kind), target.kind.plural)
        if self._quota_usage.is_behind(collection, target.namespace):
            await self._slices.run(self._quota_usage.catch_up(target.namespace), target.namespace)

    async def _respond(self, target: ResourceTarget, outcome: WriteOutcome) -> ObjectResponse:
        kind, stored, warnings = outcome.kind, outcome.stored, outcome.warnings
        if outcome.is_written:
            await self._committed(stored.revision)
        if target.subresource == "scale":
            return ObjectResponse(encoded=msgspec.json.encode(scales.read(kind, stored.decode())), warnings=warnings)
        return ObjectResponse(kind=kind, stored=stored, warnings=warnings, is_created=outcome.is_created)

    async def _settled(self, outcome: WriteOutcome) -> None:
        if outcome.is_written:
            await self._committed(outcome.stored.revision)

    async def _committed(self, revision: int) -> None:
        try:
            await self.store.settled(revision)
        except StoreError as error:
            raise ApiError(500, "InternalError", f"Internal error occurred: {error}") from error
