"""What one open page receives: the rows that its user may list, then every change of them.

The stream is JSON lines. `{"rows": PLURAL, "set": [[KEY, ROW], …], "del": [KEY, …]}` changes a
table of the page, with `"reset": true` it replaces the table. Workloads and pods may be many:
their rows follow as the server reads them, until `{"listed": [PLURAL, …]}`. The page knows by
`{"ping": …}` that the connection works. Changes are sent four times a second at most, so that the
cost of a page does not grow with the number of changes of one object.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

import pykueue
from pykueue.api.scheme import Object
from pykueue.dashboard import rows
from pykueue.dashboard.feed import PREEMPTIONS, Feed, Subscriber
from pykueue.dashboard.history import History
from pykueue.kube.delegation import AccessRequest
from pykueue.kube.informer import Key

MayAccess = Callable[[AccessRequest], Awaitable[bool]]
"""Whether the user of a page may do something."""

BATCH_SECONDS = 0.25
_PING_SECONDS = 5.0
_CHUNK_ROWS = 1000
_LIST_SECONDS = 5.0
_PLURALS = (*(resource.plural for resource, _ in rows.KINDS), PREEMPTIONS)
_RESOURCES = {resource.plural: resource for resource, _ in rows.KINDS}
_QUEUES = "clusterqueues"
_MANY = ("workloads", "pods")
"""Kinds whose list may take long: a page is shown before it is complete."""


class ListScope:
    """What one user may list: a kind in all namespaces, or in some of them."""

    def __init__(self, may_access: MayAccess) -> None:
        self._may_access = may_access
        self._everywhere: dict[str, bool] = {}
        self._namespaces: dict[str, dict[str, bool]] = {}

    async def check(self, plural: str, namespaces: Iterable[str]) -> None:
        """Ask for the namespaces that were not asked for yet."""
        plural = _listed_as(plural)
        if plural not in self._everywhere:
            self._everywhere[plural] = await self._may_list(plural, "")
        if self._everywhere[plural] or not _RESOURCES[plural].namespaced:
            return
        allowed = self._namespaces.setdefault(plural, {})
        for namespace in {*namespaces} - allowed.keys():
            allowed[namespace] = await self._may_list(plural, namespace)

    async def _may_list(self, plural: str, namespace: str) -> bool:
        group = _RESOURCES[plural].group
        return await self._may_access(AccessRequest(verb="list", group=group, resource=plural, namespace=namespace))

    def shows(self, plural: str, namespace: str) -> bool:
        plural = _listed_as(plural)
        return self._everywhere.get(plural, False) or self._namespaces.get(plural, {}).get(namespace, False)

    def summary(self) -> dict[str, bool | list[str]]:
        """For each kind: true, false, or the namespaces."""
        return {
            plural: sorted(name for name, is_allowed in self._namespaces[plural].items() if is_allowed)
            if not is_everywhere and plural in self._namespaces
            else is_everywhere
            for plural, is_everywhere in self._everywhere.items()
        }


def _listed_as(plural: str) -> str:
    """Who may list Workloads sees their preemptions."""
    return "workloads" if plural == PREEMPTIONS else plural


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStream:
    feed: Feed
    history: History
    may_access: MayAccess
    user: str
    mode: str
    """`up` or `controller`."""
    scope_seconds: float = 10.0
    """How long an answer of `may_access` is used."""
    is_still_valid: Callable[[], Awaitable[bool]] | None = None
    """Asked again and again; the stream ends when the user is no longer valid."""
    _asked_at: list[float] = field(default_factory=list)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        subscriber = self.feed.subscribe()
        try:
            yield _ping()
            scope = await self._new_scope()
            yield _line({"hello": self._hello(scope)})
            for plural in _PLURALS:
                subscriber.forget(plural)
                async for line in self._snapshot(plural, scope):
                    yield line
            async for line in self._history(scope):
                yield line
            yield _line({"ready": True})
            pinged_at, sampled = time.monotonic(), self.history.count
            unlisted = set(_MANY)
            while True:
                await asyncio.sleep(BATCH_SECONDS)
                if time.monotonic() - self._asked_at[-1] > self.scope_seconds:
                    if self.is_still_valid is not None and not await self.is_still_valid():
                        return
                    before, scope = scope, await self._new_scope()
                    async for line in self._changed_scope(before, scope):
                        yield line
                async for line in self._changes(subscriber, scope, unlisted):
                    yield line
                if self.history.count != sampled and scope.shows(_QUEUES, ""):
                    sampled = self.history.count
                    yield _line({"sample": self.history.latest()})
                if time.monotonic() - pinged_at > _PING_SECONDS:
                    pinged_at = time.monotonic()
                    yield _ping()
        finally:
            self.feed.unsubscribe(subscriber)

    def _hello(self, scope: ListScope) -> Object:
        return {
            "user": self.user,
            "mode": self.mode,
            "version": pykueue.__version__,
            "fields": rows.WORKLOAD_FIELDS,
            "scope": scope.summary(),
            "now": time.time(),
        }

    async def _new_scope(self) -> ListScope:
        self._asked_at[:] = [time.monotonic()]
        scope = ListScope(self.may_access)
        for plural in _PLURALS:
            table = self.feed.tables[plural]
            if plural not in (*_MANY, PREEMPTIONS) and not table.is_listed.is_set():
                try:
                    async with asyncio.timeout(_LIST_SECONDS):
                        await table.is_listed.wait()
                except TimeoutError:
                    pass  # a kind that the cluster does not have
            await scope.check(plural, [*table.namespaces])
        return scope

    async def _snapshot(self, plural: str, scope: ListScope) -> AsyncIterator[bytes]:
        visible = [(key, row) for key, row in self.feed.tables[plural].rows.items() if scope.shows(plural, key[0])]
        for start in range(0, len(visible) or 1, _CHUNK_ROWS):
            chunk = visible[start : start + _CHUNK_ROWS]
            yield _rows_line(plural, dict(chunk), is_reset=start == 0)
            await asyncio.sleep(0)

    async def _history(self, scope: ListScope) -> AsyncIterator[bytes]:
        if scope.shows(_QUEUES, ""):
            yield _line({"history": self.history.as_json()})

    async def _changed_scope(self, before: ListScope, after: ListScope) -> AsyncIterator[bytes]:
        """If the user may list more or less than before, send these kinds again."""
        old, new = before.summary(), after.summary()
        if old == new:
            return
        yield _line({"hello": self._hello(after)})
        for plural in _PLURALS:
            if old.get(_listed_as(plural)) != new.get(_listed_as(plural)):
                async for line in self._snapshot(plural, after):
                    yield line

    async def _changes(self, subscriber: Subscriber, scope: ListScope, unlisted: set[str]) -> AsyncIterator[bytes]:
        """What has changed since the last time, and which kinds are complete now."""
        listed = {plural for plural in unlisted if self.feed.tables[plural].is_listed.is_set()}
        for plural, changes in subscriber.take().items():
            await scope.check(plural, {namespace for namespace, _ in changes})
            visible = [(key, row) for key, row in changes.items() if scope.shows(plural, key[0])]
            for start in range(0, len(visible), _CHUNK_ROWS):
                yield _rows_line(plural, dict(visible[start : start + _CHUNK_ROWS]))
                await asyncio.sleep(0)
        if listed:
            unlisted -= listed
            yield _line({"listed": sorted(listed)})


def _rows_line(plural: str, changes: Mapping[Key, bytes | None], *, is_reset: bool = False) -> bytes:
    encode = msgspec.json.encode
    rows_set = b",".join(b"[%b,%b]" % (encode(_name(key)), row) for key, row in changes.items() if row is not None)
    removed = encode([_name(key) for key, row in changes.items() if row is None])
    reset = b',"reset":true' if is_reset else b""
    return b'{"rows":%b%b,"set":[%b],"del":%b}\n' % (encode(plural), reset, rows_set, removed)


def _ping() -> bytes:
    return _line({"ping": round(time.time(), 1)})


def _name(key: Key) -> str:
    return "/".join(filter(None, key))


def _line(value: Object) -> bytes:
    return msgspec.json.encode(value) + b"\n"
