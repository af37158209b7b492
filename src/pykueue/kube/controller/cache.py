"""The objects of the API as this process knows them, with indexes and change handlers.

Two sources fill the cache, in no order between them: list and watch (`InformerSet`), and the
answers to our own writes (`observe`), which show a controller at once what it wrote.

Invariant: an older version never replaces a newer one, and an answer never brings back an object
whose deletion the watch has shown. The watch shows the versions of a kind in order, so an answer
that is not newer than the latest event is dropped: the watch has shown that version already, or
its deletion. tests/kube/controller/test_cache_orders.py runs all orders.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.informer import Key, Reflector, key_of

__all__ = ["InformerSet", "Key", "ObjectCache", "call_handlers", "key_of", "latest", "version_of"]

log = logging.getLogger(__name__)

Handler = Callable[[Object | None, Object | None], None]
"""Called with the object before and after a change; None where there is none."""
IndexFunction = Callable[[Object], Sequence[str]]
Transform = Callable[[Object], Object]

MOST_DELETED_UIDS = 4096
BY_CONTROLLER = "controller"
"""The index of `controlled_by`."""


def latest(old: Object | None, new: Object | None) -> Object:
    """The object that a handler is called about: as it is, or as it was before its deletion."""
    obj = new or old
    assert obj is not None
    return obj


def call_handlers(handlers: Iterable[Handler], resource: Resource, old: Object | None, new: Object | None) -> None:
    """Call all handlers of a change; one that fails does not stop the others."""
    for handler in handlers:
        try:
            handler(old, new)
        except Exception:
            log.exception("a handler failed on %s %s", resource.plural, "/".join(key_of(latest(old, new))))


def version_of(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class ObjectCache:
    """Objects are shared by all readers: copy one before you change it."""

    def __init__(self) -> None:
        self.kinds: dict[Resource, None] = {}
        """The kinds that somebody asked for by `add_kind`."""
        self._objects: dict[Resource, dict[Key, Object]] = defaultdict(dict)
        self._handlers: dict[Resource, list[Handler]] = defaultdict(list)
        self._indexes: dict[Resource, dict[str, _Index]] = defaultdict(dict)
        self._transforms: dict[Resource, Transform] = {}
        self._watched: dict[Resource, int] = {}
        """The version up to which list and watch of a kind have shown everything."""
        self._finalized: dict[Resource, dict[Key, int]] = defaultdict(dict)
        """Versions of objects that ended with a write of ours, until the watch reaches them."""
        self._deleted_uids: dict[Resource, OrderedDict[Key, str]] = defaultdict(OrderedDict)
        """Uids of objects that the API has no more, although the watch has not shown their end."""
        self._listed: dict[Resource, asyncio.Event] = defaultdict(asyncio.Event)

    # Setting up

    def add_kind(self, resource: Resource) -> None:
        """Ask for the objects of a kind, indexed by their controller."""
        if resource not in self.kinds:
            self.kinds[resource] = None
            self.add_index(resource, BY_CONTROLLER, _controller_uids)

    def on_change(self, resource: Resource, handler: Handler) -> None:
        self._handlers[resource].append(handler)

    def add_index(self, resource: Resource, name: str, function: IndexFunction) -> None:
        self._indexes[resource][name] = _Index(function)

    def set_transform(self, resource: Resource, transform: Transform) -> None:
        """Change every object of a kind before it is stored."""
        self._transforms[resource] = transform

    # Reading

    def is_listed(self, resource: Resource) -> bool:
        """Whether all objects of the kind have been read at least once."""
        return self._listed[resource].is_set()

    def listed_kinds(self) -> list[Resource]:
        return [resource for resource, event in self._listed.items() if event.is_set()]

    async def listed(self, resources: Iterable[Resource]) -> None:
        """Wait until all kinds are listed; before that, an object that is not cached may exist."""
        for resource in resources:
            await self._listed[resource].wait()

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return self._objects[resource].get((namespace, name))

    def is_empty(self, resource: Resource) -> bool:
        return not self._objects[resource]

    def all(self, resource: Resource) -> list[Object]:
        return list(self._objects[resource].values())

    def by_name(self, resource: Resource) -> dict[str, Object]:
        """The objects of a cluster-scoped kind."""
        return {name: obj for (_, name), obj in self._objects[resource].items()}

    def indexed(self, resource: Resource, index: str, value: str) -> list[Object]:
        cached = self._objects[resource]
        return [cached[key] for key in self._indexes[resource][index].keys.get(value, ())]

    def count(self, resource: Resource, index: str, value: str) -> int:
        return len(self._indexes[resource][index].keys.get(value, ()))

    def controlled_by(self, resource: Resource, uid: str) -> list[Object]:
        """The objects whose controller has this uid; only of kinds asked for by `add_kind`."""
        return self.indexed(resource, BY_CONTROLLER, uid)

    # Filling

    def observe(self, resource: Resource, obj: Object) -> None:
        """Store the answer to a write or a read of ours, unless the watch has shown as much."""
        if version_of(obj) > self._watched.get(resource, -1):
            self._put(resource, obj)

    def forget(self, resource: Resource, obj: Object) -> None:
        """Remove an object that does not exist any more: the API has answered so.

        Events of it that the watch still has to show do not bring it back.
        """
        key, uid = key_of(obj), obj["metadata"].get("uid", "")
        deleted = self._deleted_uids[resource]
        deleted[key] = uid
        if len(deleted) > MOST_DELETED_UIDS:
            deleted.popitem(last=False)
        cached = self._objects[resource].get(key)
        if cached is not None and cached["metadata"].get("uid", "") == uid:
            self._change(resource, key, None)

    def repair(self, resource: Resource, key: Key, obj: Object | None) -> None:
        """Store an object as the API has it now, whatever the watch has shown; None: it has
        none.
        """
        cached = self._objects[resource].get(key)
        if cached is not None and (obj is None or objects.uid(cached) != objects.uid(obj)):
            self.forget(resource, cached)
        if obj is not None:
            transform = self._transforms.get(resource)
            self._change(resource, key, obj if transform is None else transform(obj))

    def mark_deleted(self, resource: Resource, obj: Object) -> None:
        """Set a deletionTimestamp after our own delete, until the watch shows the object again."""
        key = key_of(obj)
        cached = self._objects[resource].get(key)
        if cached is None or cached["metadata"].get("uid") != obj["metadata"].get("uid") or objects.is_deleted(cached):
            return
        metadata = cached["metadata"]
        stamp = {"deletionTimestamp": metadata.get("creationTimestamp", "1970-01-01T00:00:00Z")}
        self._objects[resource][key] = cached | {"metadata": metadata | stamp}

    def apply_event(self, resource: Resource, event_type: str, obj: Object) -> None:
        """Store one event of the watch: ADDED, MODIFIED or DELETED."""
        self._apply(resource, event_type, obj)
        self._set_watched(resource, version_of(obj))

    def replace(self, resource: Resource, items: Iterable[Object], list_version: str) -> None:
        """Store a list of all objects, which shows what existed at `list_version`."""
        version = int(list_version or 0)
        present = {key_of(obj): obj for obj in items}
        for key in [key for key in self._objects[resource] if key not in present]:
            self._remove(resource, key, version)
        for obj in present.values():
            self._apply(resource, "MODIFIED", obj)
        self._set_watched(resource, version)
        self._listed[resource].set()

    def _apply(self, resource: Resource, event_type: str, obj: Object) -> None:
        """Store one event; a malformed object must not stop the watch."""
        try:
            if event_type == "DELETED":
                self._remove(resource, key_of(obj), version_of(obj))
            else:
                self._put(resource, obj)
        except Exception:
            log.exception("%s %s could not be cached", resource.plural, "/".join(key_of(obj)))

    def _set_watched(self, resource: Resource, version: int) -> None:
        self._watched[resource] = version
        finalized = self._finalized[resource]
        while finalized and finalized[key := next(iter(finalized))] <= version:
            del finalized[key]

    def _put(self, resource: Resource, obj: Object) -> None:
        key, version = key_of(obj), version_of(obj)
        uid = obj["metadata"].get("uid")
        if uid and self._deleted_uids[resource].get(key) == uid:
            return
        cached = self._objects[resource].get(key)
        if cached is not None:
            cached_version = version_of(cached)
            if cached_version > version:
                return
            if cached_version == version:
                self._share(resource, key, cached, obj)
                return
            if cached["metadata"].get("uid") != obj["metadata"].get("uid"):
                self._change(resource, key, None)
        elif version <= self._finalized[resource].get(key, -1):
            return
        if _is_finalized(obj):
            self._finalized[resource][key] = version
            self._remove(resource, key, version)
            return
        transform = self._transforms.get(resource)
        self._change(resource, key, obj if transform is None else transform(obj))

    def _share(self, resource: Resource, key: Key, cached: Object, obj: Object) -> None:
        """Store this copy of the same version, which the whole process may share."""
        if objects.is_deleted(obj) or not objects.is_deleted(cached):
            transform = self._transforms.get(resource)
            self._objects[resource][key] = obj if transform is None else transform(obj)

    def _remove(self, resource: Resource, key: Key, version: int) -> None:
        """Remove the object, unless a newer one took its name."""
        cached = self._objects[resource].get(key)
        if cached is not None and version_of(cached) <= version:
            self._change(resource, key, None)

    def _change(self, resource: Resource, key: Key, new: Object | None) -> None:
        cached = self._objects[resource]
        old = cached.get(key)
        if new is None:
            del cached[key]
        else:
            cached[key] = new
        for index in self._indexes[resource].values():
            index.change(key, new)
        call_handlers(self._handlers[resource], resource, old, new)


class _Index:
    """The keys of objects by a value, in the order in which the objects changed."""

    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self._values: dict[Key, Sequence[str]] = {}
        """The values of each object that has any, so that nobody computes them again."""
        self.keys: dict[str, dict[Key, None]] = {}

    def change(self, key: Key, obj: Object | None) -> None:
        """Set the values of an object; none for an object that the index cannot read."""
        values: Sequence[str] = ()
        if obj is not None:
            try:
                values = self._function(obj)
            except Exception:
                log.exception("%s %s could not be indexed", obj.get("kind", "object"), "/".join(key))
        former = self._values.get(key)
        if former is None and not values:
            return
        if values != former:
            self._replace(key, values)
            return
        for value in values:  # the object that changed becomes the last one
            keys = self.keys[value]
            del keys[key]
            keys[key] = None

    def _replace(self, key: Key, values: Sequence[str]) -> None:
        for value in self._values.pop(key, ()):
            keys = self.keys.get(value, {})
            keys.pop(key, None)
            if not keys:
                self.keys.pop(value, None)
        for value in values:
            self.keys.setdefault(value, {})[key] = None
        if values:
            self._values[key] = values


def _controller_uids(obj: Object) -> list[str]:
    reference = objects.controller_of(obj)
    return [] if reference is None else [reference["uid"]]


def _is_finalized(obj: Object) -> bool:
    """Whether a write removed the last finalizer of a deleted object, and with it the object.

    A Namespace also has finalizers in its spec, while its contents are deleted.
    """
    metadata = obj["metadata"]
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not objects.nested(obj, "spec").get("finalizers")
        and (metadata.get("deletionGracePeriodSeconds", 0) == 0)
    )


class InformerSet:
    """Keeps a cache in step with the API: one list and watch for each kind."""

    def __init__(self, client: Client, cache: ObjectCache, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock

    async def run(self, resources: Iterable[Resource]) -> None:
        async with asyncio.TaskGroup() as group:
            for resource in dict.fromkeys(resources):
                reflector = Reflector(
                    self._client,
                    resource,
                    on_list=partial(self._cache.replace, resource),
                    on_event=partial(self._cache.apply_event, resource),
                    sleep=self._clock.sleep,
                )
                group.create_task(reflector.run())
