"""The embedded API without a transport: the verbs of `calls.Verbs` on one store.

A verb decides in one step (`reading`, `writing`, `deletion`), waits until the store has made the decision durable, and
answers. The parts of Kubernetes that keep the store tidy (namespaces, owners, expiry) run beside it.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import msgspec

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Scheme, Settings
from pykueue.apiserver import context, deletion, scales, versions
from pykueue.apiserver.calls import (
    Answer,
    DeleteCall,
    ListCall,
    Page,
    Patch,
    Sink,
    Subscription,
    Target,
    WatchCall,
    WriteCall,
)
from pykueue.apiserver.context import Context, Outcome
from pykueue.apiserver.controllers.expiry import EventExpiry
from pykueue.apiserver.controllers.garbage import GarbageCollector
from pykueue.apiserver.controllers.namespaces import NamespaceTerminator
from pykueue.apiserver.reading import Reader
from pykueue.apiserver.store.log import StoreError
from pykueue.apiserver.store.store import Store
from pykueue.apiserver.watches import Hub
from pykueue.apiserver.writing import Writing


class Core:
    """`calls.Verbs`, and the life of what stands behind them: `start` before the first call, `stop` after the last."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        *,
        settings: Settings | None = None,
        clock: Callable[[], datetime] = context.now,
    ) -> None:
        self.scheme = scheme
        self.store = store
        self.hub = Hub(lambda: store.revision)
        self.context = Context(store=store, scheme=scheme, settings=settings or Settings(), clock=clock)
        self._reader = Reader(store, self.hub)
        self._writing = Writing(self.context)
        self._deletion = deletion.Deletion(self.context)
        self._upkeep: list[asyncio.Task[None]] = []
        store.listeners.append(self.hub.publish)

    async def start(self) -> None:
        self.hub.start()
        self.garbage = GarbageCollector(self, self.store, self.scheme)
        self.namespace_ends = NamespaceTerminator(self, self.context)
        parts = (self.garbage.worker, self.namespace_ends.worker, EventExpiry(self, self.context))
        self._upkeep = [asyncio.create_task(part.run()) for part in parts]

    async def stop(self) -> None:
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        self.hub.stop()
        await self.store.close()

    async def get(self, target: Target, *, resource_version: str = "") -> Answer:
        return self._reader.get(target, resource_version)

    async def list(self, target: Target, call: ListCall) -> Page:
        return self._reader.list(target, call)

    async def watch(self, target: Target, call: WatchCall, sink: Sink) -> Subscription:
        return self._reader.watch(target, call, sink)

    async def create(self, target: Target, body: Object, call: WriteCall) -> Answer:
        return await self._answer(target, self._writing.create(target, body, call))

    async def update(self, target: Target, body: Object, call: WriteCall) -> Answer:
        return await self._answer(target, self._writing.update(target, body, call))

    async def patch(self, target: Target, patch: Patch, call: WriteCall) -> Answer:
        return await self._answer(target, self._writing.patch(target, patch, call))

    async def delete(self, target: Target, call: DeleteCall) -> Answer:
        outcome = self._deletion.delete(target, call)
        await self._settled(outcome)
        is_pod = (target.kind.group, target.kind.kind) == ("", "Pod")
        if outcome.is_gone and not is_pod:
            return Answer(data=msgspec.json.encode(deletion.success(outcome)), warnings=outcome.warnings)
        data = versions.shown(outcome.kind, outcome.stored)
        return Answer(data=data, warnings=outcome.warnings, is_accepted=not outcome.is_gone)

    async def delete_collection(self, target: Target, selection: ListCall, call: DeleteCall) -> Page:
        page = self._reader.list(target, selection)
        outcomes = []
        for obj in page.decode():
            place = obj["metadata"]
            one = Target(kind=target.kind, namespace=place.get("namespace", ""), name=place["name"])
            try:
                outcomes.append(self._deletion.delete(one, call))
            except ApiError as error:
                if error.code != 404:
                    raise
        for outcome in outcomes:
            await self._settled(outcome)
        return page

    async def _answer(self, target: Target, outcome: Outcome) -> Answer:
        await self._settled(outcome)
        stored = None
        if target.subresource == "scale":
            data = msgspec.json.encode(scales.read(outcome.kind, outcome.stored.decode()))
        else:
            data = versions.shown(outcome.kind, outcome.stored)
            stored = outcome.stored if versions.is_stored_as_shown(outcome.kind) else None
        return Answer(data=data, warnings=outcome.warnings, is_created=outcome.is_created, stored=stored)

    async def _settled(self, outcome: Outcome) -> None:
        if not outcome.is_written:
            return
        try:
            await self.store.settled(outcome.stored.revision)
        except StoreError as error:
            raise ApiError(500, "InternalError", f"Internal error occurred: {error}") from error
