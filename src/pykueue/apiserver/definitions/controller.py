"""Keeps the scheme in step with CustomResourceDefinitions: a kind is served from the moment its definition is stored.

Follows the definitions by a watch; writes their conditions; empties a kind before its definition goes.
"""

import asyncio
import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.calls import (
    DeleteCall,
    Frame,
    ListCall,
    Patch,
    Subscription,
    Target,
    User,
    Verbs,
    WatchCall,
    WriteCall,
)
from pykueue.apiserver.definitions import kinds, rules
from pykueue.kube.client import PatchType

log = logging.getLogger(__name__)

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
GROUP = "apiextensions.k8s.io"
_WRITER = WriteCall(user=User(name="system:apiserver", groups=("system:masters",)), field_manager="kube-apiserver")


class DefinitionController:
    def __init__(self, verbs: Verbs, scheme: Scheme, changed: Callable[[], None]) -> None:
        self._verbs = verbs
        self._scheme = scheme
        self._changed = changed
        self._ours = frozenset((kind.group, kind.plural) for kind in scheme)
        self._served: dict[str, list[Kind]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None
        found = scheme.for_path(GROUP, "v1", "customresourcedefinitions")
        assert found is not None, "customresourcedefinitions must be registered"
        self._kind = dataclasses.replace(found, defaulter=rules.default, validator=rules.validate)
        scheme.register(self._kind)

    async def start(self) -> None:
        self._subscription = await self._verbs.watch(Target(kind=self._kind), WatchCall(), self)

    async def stop(self) -> None:
        if self._subscription:
            self._subscription.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def send(self, frame: Frame) -> None:
        if frame.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
        definition = frame.decode()
        name = definition["metadata"]["name"]
        if frame.type == "DELETED":
            self._serve(name, [])
        elif definition["metadata"].get("deletionTimestamp"):
            self._spawn(self._empty(definition))
        else:
            is_ours = (definition["spec"]["group"], definition["spec"]["names"]["plural"]) in self._ours
            self._serve(name, [] if is_ours else kinds.of(definition))
            self._spawn(self._establish(definition))

    def close(self) -> None:
        """The server is stopping: kinds stay as they are."""

    def _serve(self, name: str, wanted: list[Kind]) -> None:
        before = self._served.pop(name, [])
        for kind in before:
            self._scheme.unregister(kind)
        for kind in wanted:
            self._scheme.register(kind)
        if wanted:
            self._served[name] = wanted
        if before or wanted:
            self._changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _establish(self, definition: Object) -> None:
        """Write the conditions that clients wait for, and hold the definition until its objects are gone."""
        name = definition["metadata"]["name"]
        if FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            held = [*(definition["metadata"].get("finalizers") or ()), FINALIZER]
            await self._patch(name, {"metadata": {"finalizers": held}})
        status = definition.get("status") or {}
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        wanted = {
            "acceptedNames": kinds.preferred_names(definition),
            "storedVersions": list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored])),
        }
        is_new = not any(each.get("type") == "Established" for each in status.get("conditions") or ())
        if is_new:
            wanted["conditions"] = _conditions()
        if is_new or any(status.get(key) != value for key, value in wanted.items()):
            await self._patch(name, {"status": wanted}, subresource="status")

    async def _empty(self, definition: Object) -> None:
        """Delete every object of the kind, then let the definition go."""
        name = definition["metadata"]["name"]
        for kind in self._served.get(name, [])[:1]:
            await self._verbs.delete_collection(Target(kind=kind), ListCall(), DeleteCall(user=_WRITER.user))
            await self._drained(kind)
        kept = [each for each in definition["metadata"].get("finalizers") or () if each != FINALIZER]
        await self._patch(name, {"metadata": {"finalizers": kept or None}})

    async def _drained(self, kind: Kind) -> None:
        """Wait until the last object is gone: finalizers may hold some of them back."""
        bell = _Bell()
        subscription = await self._verbs.watch(Target(kind=kind), WatchCall(), bell)
        try:
            while (await self._verbs.list(Target(kind=kind), ListCall(limit=1))).items:
                await bell.rung.wait()
                bell.rung.clear()
        finally:
            subscription.cancel()

    async def _patch(self, name: str, body: Object, subresource: str = "") -> None:
        target = Target(kind=self._kind, name=name, subresource=subresource)
        await self._verbs.patch(target, Patch(type=PatchType.MERGE, body=body), _WRITER)


class _Bell:
    """A sink that only says that something was deleted."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def send(self, frame: Frame) -> None:
        if frame.type == "DELETED":
            self.rung.set()

    def close(self) -> None:
        self.rung.set()


def _conditions() -> list[dict[str, str]]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    accepted = {
        "type": "NamesAccepted",
        "status": "True",
        "reason": "NoConflicts",
        "message": "no conflicts found",
        "lastTransitionTime": now,
    }
    established = {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
        "lastTransitionTime": now,
    }
    return [accepted, established]


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """A definition may change or go while we write about it; the next event brings the rest."""
    try:
        await work
    except ApiError as error:
        if error.code not in (404, 409):
            log.warning("a custom resource definition could not be kept up: %s", error)
