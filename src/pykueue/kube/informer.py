"""A local copy of one resource, kept up to date by list and watch, that tells handlers what changed.

    listing ──ok──▶ watching ──stream ends──▶ watching again from the last version seen
       ▲                │
       └─── 410 Gone ───┘        any other failure: wait a little longer each time, then go on where it was

Controllers and the machine room read from it instead of asking the API, and put keys into their queues from handlers.
Objects handed out are shared: read them, never change them.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from pykueue.api import entropy
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client, ListOptions, WatchEvent

log = logging.getLogger(__name__)

_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 30.0
_PAGE = 500


class Key(NamedTuple):
    namespace: str
    name: str


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is ADDED, MODIFIED or DELETED. A resync is a MODIFIED whose `old` is the object itself."""

    type: str
    object: Object
    old: Object | None = None

    @property
    def key(self) -> Key:
        return key_of(self.object)


Handler = Callable[[Change], None]
Indexer = Callable[[Object], Iterable[str]]
Sleep = Callable[[float], Awaitable[None]]


class Informer:
    """`run` keeps it going until it is cancelled; `synced` returns when the first list has been handed over."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resync_seconds: float = 0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.resource_version = ""
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._resync_seconds = resync_seconds
        self._sleep = sleep
        self._objects: dict[Key, Object] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}
        self._handlers: list[Handler] = []
        self._is_synced = asyncio.Event()
        self._failures = 0

    # Reading

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._objects.get(Key(namespace, name))

    def items(self, namespace: str = "") -> list[Object]:
        if not namespace:
            return list(self._objects.values())
        return [obj for key, obj in self._objects.items() if key.namespace == namespace]

    def indexed(self, index: str, value: str) -> list[Object]:
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    @property
    def is_synced(self) -> bool:
        return self._is_synced.is_set()

    async def synced(self) -> None:
        await self._is_synced.wait()

    # Setting up

    def add_handler(self, handler: Handler) -> None:
        """Call the handler for every change; a late one first hears of everything that is there."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            _call(handler, Change(type="ADDED", object=obj))

    def add_index(self, name: str, indexer: Indexer) -> None:
        self._indexers[name] = indexer
        self._indexes[name] = defaultdict(dict)
        for obj in self._objects.values():
            self._index(name, obj)

    # Running

    async def run(self) -> None:
        resync = asyncio.create_task(self._resync_forever()) if self._resync_seconds else None
        try:
            while True:
                await self._step()
        finally:
            if resync:
                resync.cancel()

    async def _step(self) -> None:
        """One list if there is no version to go on from, else one watch until it ends."""
        try:
            if self.resource_version:
                await self._watch()
            else:
                await self._list()
            self._failures = 0
        except ApiError as error:
            if error.code == 410:
                self.resource_version = ""
                return
            await self._wait_after(error)
        except (TimeoutError, OSError) as error:
            await self._wait_after(error)

    async def _wait_after(self, error: Exception) -> None:
        self._failures += 1
        longest = min(_SHORTEST_WAIT * 2**self._failures, _LONGEST_WAIT)
        wait = longest * entropy.uniform(0.5, 1.0)
        if isinstance(error, ApiError) and error.code == 404:
            self._tell_missing()
        else:
            log.warning("%s of %s failed, next try in %.1f s: %s", self._doing(), self.resource.plural, wait, error)
        await self._sleep(wait)

    def _tell_missing(self) -> None:
        """Once: a kind whose definition is not there yet is waited for."""
        if self._failures == 1:
            log.info("the API server has no %s of %s yet", self.resource.plural, self.resource.api_version)

    def _doing(self) -> str:
        return "watch" if self.resource_version else "list"

    async def _list(self) -> None:
        found: dict[Key, Object] = {}
        token = ""
        while True:
            page = await self._client.list(self.resource, self._namespace, self._options(token))
            found.update((key_of(obj), obj) for obj in page.items)
            token = page.continue_token
            if not token:
                break
        self._replace(found)
        self.resource_version = page.resource_version
        self._is_synced.set()

    def _options(self, token: str) -> ListOptions:
        return ListOptions(
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=_PAGE,
            continue_token=token,
        )

    async def _watch(self) -> None:
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        try:
            async for event in events:
                self._failures = 0
                self._take(event)
        finally:
            if isinstance(events, AsyncGenerator):
                with contextlib.suppress(OSError):
                    await events.aclose()

    def _take(self, event: WatchEvent) -> None:
        self.resource_version = event.object["metadata"]["resourceVersion"]
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED":
            self._remove(key_of(event.object), event.object)
        else:
            self._set(event.object)

    async def _resync_forever(self) -> None:
        while True:
            await self._sleep(self._resync_seconds)
            for obj in list(self._objects.values()):
                self._tell(Change(type="MODIFIED", object=obj, old=obj))

    # The copy

    def _replace(self, found: dict[Key, Object]) -> None:
        """After a list: what is new, what changed, and what went away unseen."""
        for key in [key for key in self._objects if key not in found]:
            self._remove(key, self._objects[key])
        for key, obj in found.items():
            old = self._objects.get(key)
            if old is None or old["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                self._set(obj)

    def _set(self, obj: Object) -> None:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = obj
        for name in self._indexers:
            self._index(name, obj)
        if old is not None and old["metadata"].get("uid") != obj["metadata"].get("uid"):
            self._tell(Change(type="DELETED", object=old))
            old = None
        self._tell(Change(type="MODIFIED" if old is not None else "ADDED", object=obj, old=old))

    def _remove(self, key: Key, last: Object) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._unindex(key, old)
            self._tell(Change(type="DELETED", object=last, old=old))

    def _index(self, name: str, obj: Object) -> None:
        for value in self._indexers[name](obj):
            self._indexes[name][value][key_of(obj)] = None

    def _unindex(self, key: Key, obj: Object) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(obj):
                keys = self._indexes[name].get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del self._indexes[name][value]

    def _tell(self, change: Change) -> None:
        for handler in self._handlers:
            _call(handler, change)


def _call(handler: Handler, change: Change) -> None:
    """One faulty handler must not stop the copy, nor the other handlers."""
    try:
        handler(change)
    except Exception:
        log.exception("a handler failed on %s %s", change.type, "/".join(change.key))
