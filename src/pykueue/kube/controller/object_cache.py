"""An informer's copy together with our own writes that it has not seen yet.

A controller that has just created a pod must not create it again because the watch is behind. So every object that a
write returned is kept here until the informer shows it, or something newer. The answer to a write may also come after the
watch has told that the object is gone: then it is not kept.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client
from pykueue.kube.informer import Change, Handler, Informer, Key, key_of

_FORGET_SECONDS = 60.0
"""What an informer has not shown by then was created and deleted while it was away."""
_MOST_GONE = 4096
_BY_CONTROLLER = "controller"


@dataclass(slots=True)
class _Written:
    object: Object
    at: float


class View:
    def __init__(self, informer: Informer, now: Callable[[], float] = time.monotonic) -> None:
        self.informer = informer
        self._now = now
        self._written: dict[Key, _Written] = {}
        self._by_controller: dict[str, dict[Key, None]] = {}
        self._gone: dict[Key, int] = {}
        """Which version of an object was the last, of those deleted of late."""
        informer.add_index(_BY_CONTROLLER, _controllers)
        informer.add_handler(self._saw)

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._newest(Key(namespace, name), self.informer.get(name, namespace))

    def items(self) -> list[Object]:
        seen = {key_of(obj): obj for obj in self.informer.items()}
        return [obj for key in {**seen, **self._written} if (obj := self._newest(key, seen.get(key))) is not None]

    def controlled_by(self, uid: str) -> list[Object]:
        """The objects whose controller has this uid."""
        seen = {key_of(obj): obj for obj in self.informer.indexed(_BY_CONTROLLER, uid)}
        keys = {**seen, **dict.fromkeys(self._by_controller.get(uid, ()))}
        return [obj for key in keys if (obj := self._newest(key, seen.get(key))) is not None]

    def wrote(self, obj: Object) -> None:
        """The informer may have been faster: then there is nothing to add to its copy."""
        key = key_of(obj)
        if _version(obj) <= self._gone.get(key, -1):
            return
        seen = self.informer.get(key.name, key.namespace)
        if seen is not None and objects.uid(seen) == objects.uid(obj) and _version(seen) >= _version(obj):
            self._forget(key)
        else:
            self._keep(key, obj)

    def _keep(self, key: Key, obj: Object) -> None:
        self._written[key] = _Written(obj, self._now())
        for uid in _controllers(obj):
            self._by_controller.setdefault(uid, {})[key] = None

    def deleted(self, obj: Object) -> None:
        """We asked for its deletion: until the informer shows what became of it, it is on its way out."""
        current = self.get(objects.name(obj), objects.namespace(obj))
        if current is not None and objects.uid(current) == objects.uid(obj) and not objects.is_deleted(current):
            stamp = {"deletionTimestamp": current["metadata"].get("creationTimestamp", "1970-01-01T00:00:00Z")}
            self._keep(key_of(obj), current | {"metadata": current["metadata"] | stamp})

    def add_handler(self, handler: Handler) -> None:
        self.informer.add_handler(handler)

    def _newest(self, key: Key, seen: Object | None) -> Object | None:
        written = self._written.get(key)
        if written is None:
            return seen
        if self._now() - written.at > _FORGET_SECONDS:
            self._forget(key)
            return seen
        if seen is not None and _version(seen) > _version(written.object):
            return seen
        return written.object

    def _saw(self, change: Change) -> None:
        key = change.key
        if change.type == "DELETED":
            self._gone[key] = _version(change.object)
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        written = self._written.get(key)
        if written is None:
            return
        is_same = objects.uid(written.object) == objects.uid(change.object)
        if change.type == "DELETED":
            if is_same:
                self._forget(key)
        elif not is_same or _version(change.object) > _version(written.object) or change.object == written.object:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        written = self._written.pop(key, None)
        if written is not None:
            for uid in _controllers(written.object):
                keys = self._by_controller.get(uid, {})
                keys.pop(key, None)
                if not keys:
                    self._by_controller.pop(uid, None)


def _controllers(obj: Object) -> Iterable[str]:
    reference = objects.controller_of(obj)
    return [] if reference is None else [reference["uid"]]


def _version(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class Views:
    """One view a resource, made when first asked for, shared by all controllers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._views: dict[Resource, View] = {}

    def of(self, resource: Resource) -> View:
        if resource not in self._views:
            self._views[resource] = View(Informer(self._client, resource))
        return self._views[resource]

    def find(self, resource: Resource) -> View | None:
        return self._views.get(resource)

    def informers(self) -> list[Informer]:
        return [view.informer for view in self._views.values()]
