"""A controller: an owner kind, its children, and a pure sync. Changes of either put the owner's key in a queue."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.object_cache import View, Views
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.kube.informer import Change, Key

Sync = Callable[[Object, list[Object], datetime], writes.Sync]
"""Owner, its children, now."""


class Controller:
    """Reconciles owners of one kind.

    Changes of children within `gathers_ns` are looked at together. `orphaned` is called for children whose owner is
    gone, if it is given.
    """

    def __init__(
        self,
        resource: Resource,
        children: tuple[Resource, ...],
        *,
        sync: Sync,
        views: Views,
        performer: WriteExecutor,
        clock: Clock,
        gathers_ns: int = 0,
        orphaned: Callable[[list[Object]], writes.Sync] | None = None,
        forgotten: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        self._resource = resource
        self._owners = views.of(resource)
        self._children: list[View] = [views.of(child) for child in children]
        self._sync = sync
        self._performer = performer
        self._clock = clock
        self._gathers_ns = gathers_ns
        self._gathering: dict[Key, int] = {}
        self._gathered = asyncio.Event()
        self._orphaned = orphaned
        self._forgotten = forgotten
        self._named: dict[Key, set[str]] = {}
        """Uids of owners that children name, or that were deleted, since their key was last looked at."""
        self._queue: WorkQueue[Key] = WorkQueue(resource.plural, clock)
        self._owners.add_handler(self._owner_changed)
        for view in self._children:
            view.add_handler(self._child_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._reconcile, workers=16))
            group.create_task(self._hand_over())

    async def _hand_over(self) -> None:
        """Puts keys in the queue when their children had time to gather; the oldest is always due first."""
        while True:
            while not self._gathering:
                self._gathered.clear()
                await self._gathered.wait()
            key, due_ns = next(iter(self._gathering.items()))
            if (pause_ns := due_ns - self._clock.now_ns()) > 0:
                await self._clock.sleep(pause_ns / SECOND_NS)
            del self._gathering[key]
            self._queue.add(key)

    def _owner_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._forgotten(objects.uid(change.object))
            self._named.setdefault(change.key, set()).add(objects.uid(change.object))
        self._queue.add(change.key)

    def _child_changed(self, change: Change) -> None:
        reference = objects.controller_of(change.object)
        if reference is None or reference["kind"] != self._resource.kind:
            return
        if reference["apiVersion"].partition("/")[0] != self._resource.api_version.partition("/")[0]:
            return
        key = Key(objects.namespace(change.object), reference["name"])
        if self._orphaned is not None:
            self._named.setdefault(key, set()).add(reference["uid"])
        if not self._gathers_ns:
            self._queue.add(key)
        elif key not in self._gathering:
            self._gathering[key] = self._clock.now_ns() + self._gathers_ns
            self._gathered.set()

    async def _reconcile(self, key: Key) -> int:
        owner = self._owners.get(key.name, key.namespace)
        await self._release_orphans(key, owner)
        if owner is None:
            return 0
        children = [child for view in self._children for child in view.controlled_by(objects.uid(owner))]
        done = await self._performer.run(self._sync(owner, children, self._now()))
        if done.errors:
            raise done.errors[0]
        return 0 if done.look_again_after is None else max(1, int(done.look_again_after * SECOND_NS))

    async def _release_orphans(self, key: Key, owner: Object | None) -> None:
        """Children that name an owner of this name which is not (or no longer) there."""
        gone = self._named.pop(key, set()) - ({objects.uid(owner)} if owner is not None else set())
        orphans = [child for uid in gone for view in self._children for child in view.controlled_by(uid)]
        if orphans and self._orphaned is not None:
            await self._performer.run(self._orphaned(orphans))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)
