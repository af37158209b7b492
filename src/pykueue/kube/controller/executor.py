"""Performs the writes that reconcilers return: the only place where controllers write to the API.

An update is a merge patch that is valid only for the version that was read. The answer to a write
is in the cache before the next write is sent; that an object does not exist is such an answer. A
write that fails again and again is logged and recorded as an event about its object.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.client import Client, DeleteOptions, PatchType, WriteOptions
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache
from pykueue.kube.controller.event_recorder import EventRecorder

FAILURES_REPORTED = 10
"""A write is reported after so many failures in a row, and again whenever they have doubled."""
MOST_FAILING_WRITES = 4096
_EVENT_REASONS = {writes.Create: "FailedCreate", writes.Delete: "FailedDelete"}


class ObjectDeletedError(ApiError):
    """The object of a write does not exist any more."""


class WriteExecutor:
    """`component` is the controller that writes; its events name it as their source."""

    def __init__(
        self,
        client: Client,
        cache: ObjectCache,
        recorder: EventRecorder,
        component: str,
        *,
        field_manager: str = "pykueue",
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._component = component
        self._options = WriteOptions(field_manager=field_manager)
        self._log = logging.getLogger(f"pykueue.cluster.{component}")
        self._failures: OrderedDict[tuple[str, ...], int] = OrderedDict()
        """How often each write failed in a row."""

    async def apply(self, actions: Iterable[writes.Action]) -> None:
        """Perform the actions of a plan in order; raise ApiError at the first refusal.

        What is planned for other objects does not wait for an object that does not exist any more:
        the quota of a deleted job is free although nothing is left to be stopped.
        """
        versions: dict[str, str] = {}
        deleted: dict[str, ObjectDeletedError] = {}
        for action in actions:
            about = action.about if isinstance(action, writes.Event) else action.object
            uid = about["metadata"].get("uid", "")
            if uid and uid in deleted:
                continue
            if isinstance(action, writes.Event):
                self.record(action)
                continue
            try:
                written = await self.write(action, versions.get(uid))
            except ObjectDeletedError as error:
                deleted[uid] = error
                continue
            if isinstance(action, writes.Update | writes.RemoveFinalizer):
                versions[uid] = written["metadata"].get("resourceVersion", "")
        if deleted:
            raise next(iter(deleted.values()))

    async def run(self, sync: writes.Sync) -> writes.Done:
        """Perform the batches of a sync; a refusal is the result of its write."""
        try:
            batch = next(sync)
            while True:
                batch = sync.send(await self._perform(batch))
        except StopIteration as stop:
            done: writes.Done = stop.value
            return done

    def record(self, event: writes.Event) -> None:
        self._recorder.record(
            event.about, event_type=event.type, reason=event.reason, message=event.message, component=self._component
        )

    async def _perform(self, batch: writes.Batch) -> list[writes.Result]:
        """Perform the writes of one batch at the same time, those to one object in their order."""
        if len(batch) == 1:
            return [await self._result(batch[0])]
        results: dict[int, writes.Result] = {}
        by_object: dict[str, list[int]] = {}
        for number, action in enumerate(batch):
            by_object.setdefault(_address(action, number), []).append(number)

        async def in_order(numbers: Sequence[int]) -> None:
            for number in numbers:
                results[number] = await self._result(batch[number])

        await asyncio.gather(*map(in_order, by_object.values()))
        return [results[number] for number in range(len(batch))]

    async def _result(self, action: writes.Action) -> writes.Result:
        if isinstance(action, writes.Event):
            self.record(action)
            return {}
        kind = action.resource.kind
        try:
            written = await self.write(action)
        except ApiError as error:
            self._log.info("%s %s: %s", type(action).__name__, kind, error.message)
            return writes.Refused(error)
        if self._log.isEnabledFor(logging.INFO):
            name = f"{objects.namespace(written)}/{objects.name(written)}"
            self._log.info("%s %s %s", type(action).__name__, kind, name)
        return written

    async def write(self, write: writes.Write, version: str | None = None) -> Object:
        """Send one write and return the object as written; raise ApiError if it is refused.

        `version` is the version to update when an earlier write of the plan changed the object.
        """
        try:
            written = await self._send(write, version)
        except ApiError as error:
            self._count_failure(write, error.message)
            if error.code == 404 and not isinstance(write, writes.Create) and await self._is_deleted(write):
                raise ObjectDeletedError(error.code, error.reason, error.message, error.details) from error
            raise
        except OSError as error:
            self._count_failure(write, str(error))
            raise
        if self._failures:
            self._failures.pop(_identity(write), None)
        return written

    async def _is_deleted(self, write: writes.Write) -> bool:
        """Whether the object of a write exists no more; the cache then hears of it."""
        obj, resource = write.object, write.resource
        try:
            present = await self._client.get(resource, objects.name(obj), objects.namespace(obj))
        except ApiError as error:
            if error.code == 404:
                self._cache.forget(resource, obj)
            return error.code == 404
        if objects.uid(present) == objects.uid(obj):
            return False
        self._cache.forget(resource, obj)
        self._cache.observe(resource, present)
        return True

    def _count_failure(self, write: writes.Write, message: str) -> None:
        identity = _identity(write)
        count = self._failures.pop(identity, 0) + 1
        self._failures[identity] = count
        if len(self._failures) > MOST_FAILING_WRITES:
            self._failures.popitem(last=False)
        if not is_reported(count):
            return
        verb, kind = type(write).__name__, write.resource.kind
        self._log.warning("%s of %s %s failed %s times in a row: %s", verb, kind, identity[-1], count, message)
        about = _existing_object(write)
        if about is not None:
            reason = _EVENT_REASONS.get(type(write), "FailedUpdate")
            text = f"{verb} of {kind} {identity[-1]} failed {count} times in a row: {message}"
            self.record(writes.Event(about=about, type="Warning", reason=reason, message=text))

    async def _send(self, write: writes.Write, version: str | None) -> Object:
        name, namespace = write.object["metadata"].get("name", ""), objects.namespace(write.object)
        match write:
            case writes.Create():
                written = await self._client.create(write.resource, write.object, namespace, self._options)
            case writes.Delete():
                await self._delete(write, name, namespace, version)
                return write.object
            case writes.RemoveFinalizer():
                if write.finalizer not in objects.finalizers(write.object):
                    return write.object
                patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [write.finalizer]}}
                try:
                    written = await self._patch(write, patch, patch_type=PatchType.STRATEGIC)
                except ApiError as error:
                    if error.code != 404:
                        raise
                    self._cache.forget(write.resource, write.object)
                    return write.object
            case writes.Update():
                subresource = "status" if write.status else ""
                written = await self._patch(write, _guarded(write, version), subresource=subresource)
            case writes.Patch():
                body = _guarded(write) if write.guarded else write.patch
                patch_type = PatchType.STRATEGIC if write.by_key else PatchType.MERGE
                written = await self._patch(write, body, patch_type=patch_type, subresource=write.subresource)
        self._cache.observe(write.resource, written)
        return written

    async def _patch(
        self, write: writes.Write, body: Object, *, patch_type: PatchType = PatchType.MERGE, subresource: str = ""
    ) -> Object:
        return await self._client.patch(
            write.resource,
            objects.name(write.object),
            objects.namespace(write.object),
            body,
            patch_type=patch_type,
            subresource=subresource,
            options=self._options,
        )

    async def _delete(self, write: writes.Delete, name: str, namespace: str, version: str | None) -> None:
        """Delete this very object; that it is gone already is no error."""
        preconditions = {"uid": objects.uid(write.object)}
        if write.only_if_unchanged:
            preconditions["resourceVersion"] = version or write.object["metadata"]["resourceVersion"]
        options = DeleteOptions(
            propagation_policy=write.propagation_policy,
            grace_period_seconds=write.grace_period_seconds,
            preconditions=preconditions,
        )
        try:
            await self._client.delete(write.resource, name, namespace, options)
        except ApiError as error:
            if error.code != 404:
                raise
            self._cache.forget(write.resource, write.object)
        else:
            self._cache.mark_deleted(write.resource, write.object)


def is_reported(failures: int) -> bool:
    """Whether this failure in a row is reported: the 10th, 20th, 40th, and so on."""
    times, rest = divmod(failures, FAILURES_REPORTED)
    return times > 0 and rest == 0 and times & (times - 1) == 0


def _identity(write: writes.Write) -> tuple[str, ...]:
    metadata = write.object["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    title = f"{metadata.get('namespace', '')}/{name}".strip("/")
    return type(write).__name__, write.resource.plural, metadata.get("uid", ""), title


def _existing_object(write: writes.Write) -> Object | None:
    """The object of a write, or the controller of an object that cannot be created."""
    if not isinstance(write, writes.Create):
        return write.object
    owner = objects.controller_of(write.object)
    if owner is None:
        return None
    metadata = {"name": owner["name"], "uid": owner["uid"], "namespace": objects.namespace(write.object)}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": metadata}


def _guarded(write: writes.Update | writes.Patch, version: str | None = None) -> Object:
    """The patch with the version that it is valid for."""
    patch = write.patch
    version = version or write.object["metadata"].get("resourceVersion", "")
    return patch | {"metadata": patch.get("metadata", {}) | {"resourceVersion": version}}


def _address(action: writes.Action, number: int) -> str:
    if isinstance(action, writes.Event):
        return "events"
    return str(action.object["metadata"].get("uid") or f"new {number}")


class _Turns:
    """Lets a few at a time go on, the others in the next turns of the event loop."""

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._left = per_turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def come(self) -> None:
        if self._left == self._per_turn:
            asyncio.get_running_loop().call_soon(self._next)
        if self._left > 0:
            self._left -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _next(self) -> None:
        self._left = self._per_turn
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        while self._waiting and self._left > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():  # cancelled
                waiter.set_result(None)
                self._left -= 1


class OrderedWrites:
    """Runs writes in the background, side by side, but one after another for the same key.

    Few begin in one turn of the event loop, because a cycle may decide hundreds at once.
    """

    def __init__(self, limit: int = 64, *, per_turn: int = 8) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._turns = _Turns(per_turn)
        self._last: dict[Hashable, asyncio.Task[None]] = {}
        self._begun: dict[asyncio.Task[None], None] = {}
        self._is_ended = False

    def submit(self, key: Hashable, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last[key] = task = asyncio.get_running_loop().create_task(self._run(self._last.get(key), write))
        self._begun[task] = None
        task.add_done_callback(lambda done: self._forget(key, done))

    async def end(self, seconds: float) -> bool:
        """Send no further write; return whether all that were sent end within this time."""
        self._is_ended = True
        unfinished = {*self._begun}
        try:
            if unfinished:
                _, unfinished = await asyncio.wait(unfinished, timeout=seconds)
        finally:
            for task in unfinished:
                task.cancel()
        return not unfinished

    async def _run(self, previous: asyncio.Task[None] | None, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        async with self._slots:
            await self._turns.come()
            if not self._is_ended:
                await write()

    def _forget(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._begun[task]
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
