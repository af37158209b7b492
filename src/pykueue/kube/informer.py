"""List and watch one resource (`Reflector`); a local copy with handlers (`Informer`).

    listing ──ok──▶ watching ──stream ends──▶ watching again from the last version read
       ▲                │
       └─── 410 Gone ───┘        any other failure: back off, then continue in the same state

Controllers read from an `ObjectCache`, which reflectors fill. Webhooks and commands that need one
or two kinds use an `Informer`. Its objects are shared: never change them.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

import msgspec

from pykueue.api import entropy
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client, ListOptions

log = logging.getLogger(__name__)

_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 30.0
_PAGE = 500


Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is ADDED, MODIFIED or DELETED; a resync is a MODIFIED with the same `old`."""

    type: str
    object: Object
    old: Object | None = None

    @property
    def key(self) -> Key:
        return key_of(self.object)


Handler = Callable[[Change], None]
Indexer = Callable[[Object], Iterable[str]]
Sleep = Callable[[float], Awaitable[None]]
ListHandler = Callable[[list[Object], str], None]
"""Called with all objects and the version at which they were listed."""
PageHandler = Callable[[list[Object]], None]
"""Called with the objects of each page of a list, before the list is complete."""
EventHandler = Callable[[str, Object], None]
"""Called with the type (ADDED, MODIFIED, DELETED) and the object of a watch event."""


class Reflector:
    """Lists one resource and watches it until `run` is cancelled; it keeps no objects."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        on_list: ListHandler,
        on_event: EventHandler,
        on_page: PageHandler | None = None,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.resource_version = ""
        self._client = client
        self._on_list = on_list
        self._on_event = on_event
        self._on_page = on_page
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._sleep = sleep
        self._failures = 0

    async def run(self) -> None:
        while True:
            await self._step()

    async def _step(self) -> None:
        """List once if there is no version to continue from, else watch until the stream ends."""
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
            await self._back_off(error)
        except (TimeoutError, OSError) as error:
            await self._back_off(error)

    async def _back_off(self, error: Exception) -> None:
        self._failures += 1
        longest = min(_SHORTEST_WAIT * 2**self._failures, _LONGEST_WAIT)
        wait = longest * entropy.uniform(0.5, 1.0)
        if isinstance(error, ApiError) and error.code == 404:
            self._log_missing_kind()
        else:
            verb = "watch" if self.resource_version else "list"
            log.warning("%s of %s failed, next try in %.1f s: %s", verb, self.resource.plural, wait, error)
        await self._sleep(wait)

    def _log_missing_kind(self) -> None:
        """Log once: a kind may wait for its CustomResourceDefinition for long."""
        if self._failures == 1:
            log.info("the API server has no %s of %s yet", self.resource.plural, self.resource.api_version)

    async def _list(self) -> None:
        items: list[Object] = []
        version, token = "", ""
        while True:
            page = await self._client.list(self.resource, self._namespace, self._options(token))
            version = version or page.resource_version
            items += page.items
            if self._on_page is not None:
                self._on_page(page.items)
            token = page.continue_token
            if not token:
                break
            # A client in the server's own process answers without a pause.
            await asyncio.sleep(0)
        self._on_list(items, version)
        self.resource_version = page.resource_version

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
                self.resource_version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    self._on_event(event.type, event.object)
        finally:
            if isinstance(events, AsyncGenerator):
                with contextlib.suppress(OSError):
                    await events.aclose()


class Informer:
    """A local copy of one resource, filled by `run`; `synced` waits for the first list."""

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
        self._reflector = Reflector(
            client,
            resource,
            on_list=self._replace,
            on_event=self._apply_event,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            sleep=sleep,
        )
        self._resync_seconds = resync_seconds
        self._sleep = sleep
        self._objects: dict[Key, Object] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}
        self._handlers: list[Handler] = []
        self._is_synced = asyncio.Event()

    # Reading

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._objects.get((namespace, name))

    def items(self, namespace: str = "") -> list[Object]:
        if not namespace:
            return list(self._objects.values())
        return [obj for key, obj in self._objects.items() if key[0] == namespace]

    def indexed(self, index: str, value: str) -> list[Object]:
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    @property
    def is_synced(self) -> bool:
        return self._is_synced.is_set()

    async def synced(self) -> None:
        await self._is_synced.wait()

    # Setting up

    def add_handler(self, handler: Handler) -> None:
        """Call the handler for every object in the copy, then for every change."""
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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            if self._resync_seconds:
                group.create_task(self._resync_forever())

    async def _resync_forever(self) -> None:
        while True:
            await self._sleep(self._resync_seconds)
            for obj in list(self._objects.values()):
                self._notify(Change(type="MODIFIED", object=obj, old=obj))

    # The copy

    def _replace(self, items: list[Object], _version: str) -> None:
        """Replace the copy by a list, and notify of the differences."""
        listed = {key_of(obj): obj for obj in items}
        for key in [key for key in self._objects if key not in listed]:
            self._remove(key, self._objects[key])
        for key, obj in listed.items():
            old = self._objects.get(key)
            if old is None or old["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                self._set(obj)
        self._is_synced.set()

    def _apply_event(self, event_type: str, obj: Object) -> None:
        if event_type == "DELETED":
            self._remove(key_of(obj), obj)
        else:
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
            self._notify(Change(type="DELETED", object=old))
            old = None
        self._notify(Change(type="MODIFIED" if old is not None else "ADDED", object=obj, old=old))

    def _remove(self, key: Key, last: Object) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._unindex(key, old)
            self._notify(Change(type="DELETED", object=last, old=old))

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

    def _notify(self, change: Change) -> None:
        for handler in self._handlers:
            _call(handler, change)


def _call(handler: Handler, change: Change) -> None:
    """One faulty handler must not stop the copy, nor the other handlers."""
    try:
        handler(change)
    except Exception:
        log.exception("a handler failed on %s %s", change.type, "/".join(change.key))
