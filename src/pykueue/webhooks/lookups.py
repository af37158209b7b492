"""The other objects that rules look up: from informers or from the API server.

Rules are plain functions and cannot await. A rule that asks for an object that was not read yet is
interrupted; the object is read, and the rule runs again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from pykueue.api import resources
from pykueue.api.scheme import Lookup, Object, Resource
from pykueue.kube.client import Client, get_or_none
from pykueue.kube.informer import Informer

Answer = TypeVar("Answer")
CACHED = (
    resources.NAMESPACE,
    resources.LOCAL_QUEUE,
    resources.CLUSTER_QUEUE,
    resources.ADMISSION_CHECK,
    resources.WORKLOAD_PRIORITY_CLASS,
)
"""Kinds with few, small objects that the rules of every job look up."""


class _UnreadError(Exception):
    def __init__(self, resource: Resource, namespace: str, name: str) -> None:
        super().__init__(f"{resource.plural} {namespace}/{name}")
        self.resource, self.namespace, self.name = resource, namespace, name


class LookupCache:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers = {resource: Informer(client, resource) for resource in CACHED}

    @property
    def is_synced(self) -> bool:
        return all(informer.is_synced for informer in self._informers.values())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())

    async def synced(self) -> None:
        for informer in self._informers.values():
            await informer.synced()

    async def run_with_lookups(self, decide: Callable[[Lookup], Answer]) -> Answer:
        """The result of `decide`, which is called again after each object that had to be read."""
        lookup = _RequestLookup(self._informers)
        while True:
            try:
                return decide(lookup)
            except _UnreadError as unread:
                await self._read(unread, lookup)

    async def _read(self, unread: _UnreadError, lookup: "_RequestLookup") -> None:
        resource, namespace, name = unread.resource, unread.namespace, unread.name
        if not name:
            lookup.lists[resource, namespace] = (await self._client.list(resource, namespace)).items
            return
        lookup.objects[resource, namespace, name] = await get_or_none(self._client, resource, name, namespace)


class _RequestLookup:
    """The `Lookup` of one review, so that its rules see each object in one version only."""

    def __init__(self, informers: dict[Resource, Informer]) -> None:
        self.objects: dict[tuple[Resource, str, str], Object | None] = {}
        self.lists: dict[tuple[Resource, str], list[Object]] = {}
        self._informers = informers

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        informer = self._informers.get(resource)
        if informer is not None:
            return informer.get(name, namespace)
        if (resource, namespace, name) not in self.objects:
            raise _UnreadError(resource, namespace, name)
        return self.objects[resource, namespace, name]

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        informer = self._informers.get(resource)
        if informer is not None:
            return informer.items(namespace)
        if (resource, namespace) not in self.lists:
            raise _UnreadError(resource, namespace, "")
        return self.lists[resource, namespace]
