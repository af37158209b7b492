"""The objects of the API as this process last saw them, by kind and name, with the indexes that controllers need.

Filled by informers (`feeds`) and by the answers to our own writes, so that a controller sees what it wrote at once. An older version
never replaces a newer one. Handlers are called with the object before and after.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable

from pykueue.api.scheme import Object, Resource

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

Handler = Callable[[Object | None, Object | None], None]
IndexFunction = Callable[[Object], Iterable[str]]


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def named(resource: Resource, obj: Object) -> Object:
    """Items of a list of builtin kinds do not say what they are."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


_LOOKED_INTO = ("LocalQueue", "Workload")


def completed(obj: Object) -> Object:
    """With the parts that every controller looks for; the API requires neither a spec nor what a pod template runs."""
    if "spec" not in obj:
        return {**obj, "spec": {}}
    pod_sets = obj["spec"].get("podSets") if isinstance(obj["spec"], dict) else None
    if not isinstance(pod_sets, list) or all("spec" in pod_set.get("template", ()) for pod_set in pod_sets):
        return obj
    whole = [{**each, "template": {"spec": {}, **each.get("template", {})}} for each in pod_sets]
    return {**obj, "spec": {**obj["spec"], "podSets": whole}}


def version_of(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class ObjectCache:
    def __init__(self) -> None:
        self._objects: dict[Resource, dict[Key, Object]] = defaultdict(dict)
        self._handlers: dict[Resource, list[Handler]] = defaultdict(list)
        self._indexes: dict[Resource, dict[str, tuple[IndexFunction, dict[str, dict[Key, None]]]]] = defaultdict(dict)
        self._gone: dict[Resource, dict[Key, int]] = defaultdict(dict)
        self._listed: dict[Resource, asyncio.Event] = defaultdict(asyncio.Event)

    def on_change(self, resource: Resource, handler: Handler) -> None:
        self._handlers[resource].append(handler)

    def add_index(self, resource: Resource, name: str, function: IndexFunction) -> None:
        self._indexes[resource][name] = (function, defaultdict(dict))

    def is_listed(self, resource: Resource) -> bool:
        """Seen in full at least once."""
        return self._listed[resource].is_set()

    async def listed(self, resources: Iterable[Resource]) -> None:
        """Wait until all are seen in full: before that, what is not here may well exist."""
        for resource in resources:
            await self._listed[resource].wait()

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return self._objects[resource].get((namespace, name))

    def all(self, resource: Resource) -> list[Object]:
        return list(self._objects[resource].values())

    def by_name(self, resource: Resource) -> dict[str, Object]:
        """Of a cluster-scoped kind."""
        return {name: obj for (_, name), obj in self._objects[resource].items()}

    def indexed(self, resource: Resource, index: str, value: str) -> list[Object]:
        objects = self._objects[resource]
        return [objects[key] for key in self._indexes[resource][index][1].get(value, ())]

    def count(self, resource: Resource, index: str, value: str) -> int:
        return len(self._indexes[resource][index][1].get(value, ()))

    def set_listed(self, resource: Resource) -> None:
        self._listed[resource].set()

    def observe(self, resource: Resource, obj: Object) -> None:
        key, version = key_of(obj), version_of(obj)
        old = self._objects[resource].get(key)
        if old is not None and version_of(old) >= version:
            return
        if self._gone[resource].get(key, -1) >= version:
            return
        if _is_finalized(obj):
            self._gone[resource][key] = version
            if old is not None:
                self._change(resource, key, None)
            return
        self._change(resource, key, completed(obj) if resource.kind in _LOOKED_INTO else obj)

    def share(self, resource: Resource, obj: Object) -> None:
        """Hold this copy of what is here already: informers' copies may be shared by the whole process."""
        old = self._objects[resource].get(key_of(obj))
        if old is not None and version_of(old) == version_of(obj):
            self._objects[resource][key_of(obj)] = obj

    def forget(self, resource: Resource, obj: Object) -> bool:
        """False if a newer version of it has been seen, so that it may still be there."""
        key, version = key_of(obj), version_of(obj)
        old = self._objects[resource].get(key)
        if old is None:
            self._gone[resource].pop(key, None)
        elif version_of(old) <= version:
            self._change(resource, key, None)
        else:
            return False
        return True

    def _change(self, resource: Resource, key: Key, new: Object | None) -> None:
        objects = self._objects[resource]
        old = objects.get(key)
        if new is None:
            del objects[key]
        else:
            objects[key] = new
        for function, entries in self._indexes[resource].values():
            if old is not None:
                for value in function(old):
                    entries[value].pop(key, None)
            if new is not None:
                for value in function(new):
                    entries[value][key] = None
        for handler in self._handlers[resource]:
            try:
                handler(old, new)
            except Exception:  # one faulty handler must not stop the others
                log.exception("a handler failed on %s %s", resource.plural, "/".join(key))


def _is_finalized(obj: Object) -> bool:
    """The answer to the write that took the last finalizer of a deleted object: it is gone with it."""
    metadata = obj["metadata"]
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and (metadata.get("deletionGracePeriodSeconds", 0) == 0)
    )
