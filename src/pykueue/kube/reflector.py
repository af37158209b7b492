"""Keeps a sink in step with one kind of the API: list, then watch; list again whenever the watch cannot go on.

A small state machine: LIST → WATCH → (expired or broken) → LIST. What the sink sees is level-based: it may miss steps in
between, never the last state. Called by whoever mirrors objects (controllers, the machine room).
"""

import logging
from collections.abc import Iterable
from typing import Protocol

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client, ListOptions
from pykueue.kube.clock import Clock

log = logging.getLogger(__name__)

PAGE_SIZE = 5000
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0


class Sink(Protocol):
    """What a reflector fills. Objects always carry apiVersion and kind."""

    def replace(self, resource: Resource, objects: Iterable[Object], version: str) -> None:
        """Exactly these existed at that version."""

    def observe(self, resource: Resource, obj: Object) -> None: ...

    def forget(self, resource: Resource, obj: Object) -> None: ...


async def reflect(client: Client, resource: Resource, sink: Sink, clock: Clock) -> None:
    """Runs until cancelled."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            version = await _list(client, resource, sink)
            pause = FIRST_PAUSE_SECONDS
            while True:
                version = await _watch(client, resource, sink, version)
        except ApiError as error:
            if error.code == 410:
                continue
            log.debug("%s: %s", resource.plural, error.message)
        except (TimeoutError, OSError) as error:
            log.debug("%s: %s", resource.plural, error)
        await clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def _list(client: Client, resource: Resource, sink: Sink) -> str:
    objects: list[Object] = []
    token = ""
    while True:
        page = await client.list(resource, options=ListOptions(limit=PAGE_SIZE, continue_token=token))
        objects += page.items
        token = page.continue_token
        if not token:
            break
    sink.replace(resource, [named(resource, obj) for obj in objects], page.resource_version)
    return page.resource_version


async def _watch(client: Client, resource: Resource, sink: Sink, version: str) -> str:
    """Follows the watch until the server ends it; returns the version to go on from."""
    async for event in client.watch(resource, resource_version=version):
        version = event.object["metadata"].get("resourceVersion", version)
        if event.type == "DELETED":
            sink.forget(resource, named(resource, event.object))
        elif event.type != "BOOKMARK":
            sink.observe(resource, named(resource, event.object))
    return version


def named(resource: Resource, obj: Object) -> Object:
    """Items of a list of builtin kinds do not say what they are."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
