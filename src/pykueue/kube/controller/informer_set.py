"""Keeps the mirror in step with the API: one informer a kind.

An informer may report that something went while the mirror has seen a newer version of it in the answer to a write of ours:
then the API is asked which is true.
"""

import asyncio
from collections.abc import Iterable

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, named, version_of
from pykueue.kube.informer import Change, Informer


class InformerSet:
    def __init__(self, client: Client, mirror: ObjectCache, clock: Clock) -> None:
        self._client = client
        self._mirror = mirror
        self._clock = clock
        self._checks: set[asyncio.Task[None]] = set()

    async def run(self, resources: Iterable[Resource]) -> None:
        async with asyncio.TaskGroup() as group:
            for resource in dict.fromkeys(resources):
                group.create_task(self._follow(resource))

    async def _follow(self, resource: Resource) -> None:
        informer = Informer(self._client, resource, sleep=self._clock.sleep)

        def changed(change: Change) -> None:
            obj = named(resource, change.object)
            if change.type != "DELETED":
                self._mirror.observe(resource, obj)
                self._mirror.share(resource, obj)
            elif not self._mirror.forget(resource, obj):
                self._check(resource, obj)

        informer.add_handler(changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.synced()
            self._mirror.set_listed(resource)

    def _check(self, resource: Resource, obj: Object) -> None:
        task = asyncio.create_task(self._ask(resource, obj))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _ask(self, resource: Resource, obj: Object) -> None:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        seen = self._mirror.get(resource, name, namespace)
        try:
            self._mirror.observe(resource, named(resource, await self._client.get(resource, name, namespace)))
        except ApiError as error:
            if error.code == 404 and seen is not None and seen is self._mirror.get(resource, name, namespace):
                metadata = {**obj["metadata"], "resourceVersion": str(version_of(seen))}
                self._mirror.forget(resource, {**obj, "metadata": metadata})
