"""Registers the kinds of CustomResourceDefinitions in the scheme, as soon as they are stored.

It watches the definitions, sets their conditions, and deletes all objects of a kind before its
definition is deleted.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import structs

from pykueue.api import conditions, objects, times
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.calls import (
    DeleteCall,
    ListCall,
    PatchBody,
    ResourceTarget,
    Sink,
    Subscription,
    UserInfo,
    Verbs,
    WatchCall,
    WatchFrame,
    WriteCall,
)
from pykueue.apiserver.definitions import custom_kinds, validation
from pykueue.kube.client import PatchType
from pykueue.kube.supervisor import BackgroundTasks

log = logging.getLogger(__name__)

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
GROUP = "apiextensions.k8s.io"
_WRITER = WriteCall(user=UserInfo(name="system:apiserver", groups=("system:masters",)), field_manager="kube-apiserver")


class DefinitionController(Sink):
    def __init__(self, verbs: Verbs, scheme: Scheme, changed: Callable[[], None]) -> None:
        self._verbs = verbs
        self._scheme = scheme
        self._changed = changed
        self._builtin = frozenset((kind.group, kind.plural) for kind in scheme)
        self._served: dict[str, list[Kind]] = {}
        self._tasks = BackgroundTasks()
        self._subscription: Subscription | None = None
        kind = scheme.for_path(GROUP, "v1", "customresourcedefinitions")
        assert kind is not None, "customresourcedefinitions must be registered"
        self._kind = structs.replace(kind, defaulter=validation.default, validator=validation.validate)
        scheme.register(self._kind)

    async def start(self) -> None:
        self._subscription = await self._verbs.watch(ResourceTarget(kind=self._kind), WatchCall(), self)

    async def stop(self) -> None:
        if self._subscription:
            self._subscription.cancel()
        await self._tasks.stop()

    def send(self, frame: WatchFrame) -> None:
        if frame.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
        definition = frame.decode()
        name = objects.name(definition)
        if frame.type == "DELETED":
            self._serve(name, [])
        elif objects.is_deleted(definition):
            self._tasks.start(_log_errors(self._finalize(definition)))
        else:
            is_builtin = (definition["spec"]["group"], definition["spec"]["names"]["plural"]) in self._builtin
            self._serve(name, [] if is_builtin else custom_kinds.of(definition))
            self._tasks.start(_log_errors(self._establish(definition)))

    def close(self) -> None:
        """The server stops. The kinds stay registered."""

    def _serve(self, name: str, kinds: list[Kind]) -> None:
        """Replace the registered kinds of a definition."""
        before = self._served.pop(name, [])
        for kind in before:
            self._scheme.unregister(kind)
        for kind in kinds:
            self._scheme.register(kind)
        if kinds:
            self._served[name] = kinds
        if before or kinds:
            self._changed()

    async def _establish(self, definition: Object) -> None:
        """Set the conditions that clients wait for, and the finalizer."""
        name = objects.name(definition)
        finalizers = objects.finalizers(definition)
        if FINALIZER not in finalizers:
            await self._patch(name, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        status = objects.status(definition)
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        new_status = {
            "acceptedNames": custom_kinds.preferred_names(definition),
            "storedVersions": list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored])),
        }
        is_new = conditions.find(definition, "Established") is None
        if is_new:
            new_status["conditions"] = _conditions()
        if is_new or any(status.get(key) != value for key, value in new_status.items()):
            await self._patch(name, {"status": new_status}, subresource="status")

    async def _finalize(self, definition: Object) -> None:
        """Delete all objects of the kind, then remove the finalizer of the definition."""
        name = objects.name(definition)
        for kind in self._served.get(name, [])[:1]:
            await self._verbs.delete_collection(ResourceTarget(kind=kind), ListCall(), DeleteCall(user=_WRITER.user))
            await self._wait_until_empty(kind)
        remaining = [finalizer for finalizer in objects.finalizers(definition) if finalizer != FINALIZER]
        await self._patch(name, {"metadata": {"finalizers": remaining or None}})

    async def _wait_until_empty(self, kind: Kind) -> None:
        """Wait until no object is left. Finalizers may delay this."""
        deletions = _DeletionSignal()
        subscription = await self._verbs.watch(ResourceTarget(kind=kind), WatchCall(), deletions)
        try:
            while (await self._verbs.list(ResourceTarget(kind=kind), ListCall(limit=1))).items:
                await deletions.event.wait()
                deletions.event.clear()
        finally:
            subscription.cancel()

    async def _patch(self, name: str, body: Object, subresource: str = "") -> None:
        target = ResourceTarget(kind=self._kind, name=name, subresource=subresource)
        await self._verbs.patch(target, PatchBody(type=PatchType.MERGE, body=body), _WRITER)


class _DeletionSignal(Sink):
    """A sink that sets an event when an object is deleted."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def send(self, frame: WatchFrame) -> None:
        if frame.type == "DELETED":
            self.event.set()

    def close(self) -> None:
        self.event.set()


def _conditions() -> list[dict[str, str]]:
    now = times.to_text(dt.datetime.now(dt.UTC))
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


async def _log_errors(work: Coroutine[Any, Any, None]) -> None:
    """Ignore 404 and 409: the definition has changed meanwhile, and its next event is handled."""
    try:
        await work
    except ApiError as error:
        if error.code not in (404, 409):
            log.warning("a custom resource definition could not be kept up: %s", error)
