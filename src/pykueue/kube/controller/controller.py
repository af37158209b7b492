"""A controller of an owner kind and its children: a change of either syncs the owner."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import BY_CONTROLLER, Key, ObjectCache, key_of
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

Sync = Callable[[Object, list[Object], datetime], writes.Sync]
"""Called with an owner, its children and the time."""


ORPHANING_NS = 5 * SECOND_NS
"""An owner that is deleted with the policy Orphan loses its children first: it gets no new ones
before its own deletion had time to arrive."""
_FEW = 16
_UNOWNED: Key = ("", "")
"""In the queue of a controller: children without an owner. No object has this key."""


class Controller:
    """Reconciles owners of one kind.

    Changes of children, and of the status of an owner, within `batch_ns` are reconciled together,
    unless all children of the owner are `settled` and there is nothing to wait for.
    `release_orphans` is called with children whose owner is gone, and `forget` with the uid of a
    deleted owner.
    """

    def __init__(
        self,
        resource: Resource,
        children: tuple[Resource, ...],
        *,
        sync: Sync,
        cache: ObjectCache,
        executor: WriteExecutor,
        clock: Clock,
        batch_ns: int = 0,
        settled: Callable[[Object], bool] | None = None,
        release_orphans: Callable[[list[Object]], writes.Sync] | None = None,
        forget: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        self.resource = resource
        self._children = children
        self._sync = sync
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._batch_ns = batch_ns
        self._settled = settled
        self._batches: dict[Key, int] = {}
        """When the children of a key have had time to change together; the oldest first."""
        self._batch_begun = asyncio.Event()
        self._release = release_orphans
        self._forget = forget
        self._owner_uids: dict[Key, set[str]] = {}
        """Uids of owners that were deleted or referred to since the last reconcile."""
        self._orphaning: dict[str, int] = {}
        """Until when an owner is left alone that has lost a child, by its uid."""
        self._unowned: dict[Key, None] = {}
        """Children without a controller."""
        self._queue: WorkQueue[Key] = WorkQueue(resource.plural, clock)
        for kind in (resource, *children):
            cache.add_kind(kind)
        cache.on_change(resource, self._owner_changed)
        for kind in children:
            cache.on_change(kind, self._child_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._reconcile, workers=16))
            group.create_task(self._end_batches())

    async def _end_batches(self) -> None:
        """Put a key in the queue when its batch is over."""
        while True:
            while not self._batches:
                self._batch_begun.clear()
                await self._batch_begun.wait()
            key, due_ns = next(iter(self._batches.items()))
            if (pause_ns := due_ns - self._clock.now_ns()) > 0:
                await self._clock.sleep(pause_ns / SECOND_NS)
            if self._batches.pop(key, None) is not None:
                self._queue.add(key)

    def _owner_changed(self, old: Object | None, new: Object | None) -> None:
        owner = new or old
        assert owner is not None
        key = key_of(owner)
        if new is None:
            self._forget(objects.uid(owner))
            self._orphaning.pop(objects.uid(owner), None)
            self._owner_uids.setdefault(key, set()).add(objects.uid(owner))
        if old is None or new is None or _generation(old) != _generation(new):
            self._queue.add(key)
        else:
            self._add_batched(key)

    def _child_changed(self, old: Object | None, new: Object | None) -> None:
        child = new or old
        assert child is not None
        reference = objects.controller_of(child)
        if reference is None:
            if new is not None:
                self._child_without_controller(old, new)
            return
        if reference["kind"] != self.resource.kind:
            return
        if reference["apiVersion"].partition("/")[0] != self.resource.api_version.partition("/")[0]:
            return
        key = (objects.namespace(child), reference["name"])
        if self._release is not None:
            self._owner_uids.setdefault(key, set()).add(reference["uid"])
        if self._batch_ns and new is not None and self._are_settled(new, reference["uid"]):
            self._batches.pop(key, None)
            self._queue.add(key)
        else:
            self._add_batched(key)

    def _child_without_controller(self, old: Object | None, new: Object) -> None:
        former = objects.controller_of(old) if old is not None else None
        if former is not None:
            self._orphaning[former["uid"]] = self._clock.now_ns() + ORPHANING_NS
        if self._release is not None:
            self._unowned[key_of(new)] = None
            self._queue.add(_UNOWNED)

    def _are_settled(self, child: Object, uid: str) -> bool:
        """Whether no child changes any more. Of many children it is not worth to know."""
        if self._settled is None or not self._settled(child):
            return False
        count = sum(self._cache.count(kind, BY_CONTROLLER, uid) for kind in self._children)
        return count <= _FEW and all(map(self._settled, self._controlled_by(uid)))

    def _add_batched(self, key: Key) -> None:
        if not self._batch_ns:
            self._queue.add(key)
        elif key not in self._batches:
            self._batches[key] = self._clock.now_ns() + self._batch_ns
            self._batch_begun.set()

    async def _reconcile(self, key: Key) -> int:
        if key == _UNOWNED:
            await self._release_unowned()
            return 0
        namespace, name = key
        owner = self._cache.get(self.resource, name, namespace)
        await self._release_orphans(key, owner)
        if owner is None:
            return 0
        if (pause_ns := self._orphaning.get(objects.uid(owner), 0) - self._clock.now_ns()) > 0:
            return pause_ns
        self._orphaning.pop(objects.uid(owner), None)
        done = await self._executor.run(self._sync(owner, self._controlled_by(objects.uid(owner)), self._now()))
        if done.errors:
            raise done.errors[0]
        return done.requeue_after_ns

    async def _release_orphans(self, key: Key, owner: Object | None) -> None:
        """Release children that refer to an owner of this name that does not exist any more."""
        deleted = self._owner_uids.pop(key, set()) - ({objects.uid(owner)} if owner is not None else set())
        try:
            await self._release_all([child for uid in sorted(deleted) for child in self._controlled_by(uid)])
        except Exception:
            self._owner_uids.setdefault(key, set()).update(deleted)
            raise

    async def _release_unowned(self) -> None:
        """Release children that lost their owner: it was deleted with the policy Orphan."""
        keys = list(self._unowned)
        children = [self._cache.get(kind, name, namespace) for kind in self._children for namespace, name in keys]
        await self._release_all([child for child in children if child and objects.controller_of(child) is None])
        for key in keys:
            self._unowned.pop(key, None)

    async def _release_all(self, orphans: list[Object]) -> None:
        if orphans and self._release is not None:
            done = await self._executor.run(self._release(orphans))
            if done.errors:
                raise done.errors[0]

    def _controlled_by(self, uid: str) -> list[Object]:
        return [child for kind in self._children for child in self._cache.controlled_by(kind, uid)]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ns() / SECOND_NS, UTC)


def _generation(obj: Object) -> int:
    """Counts the changes of the desired state."""
    return int(obj["metadata"].get("generation", 0))
