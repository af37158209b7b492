"""The other objects that rules ask for: queues and namespaces as informers know them, owners as the API server has them.

Rules are plain functions and cannot wait. One that asks for an object not read yet is interrupted; the object is read,
and the rule starts again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Lookup, Object, Resource
from pykueue.kube.client import Client
from pykueue.kube.informer import Informer

Answer = TypeVar("Answer")
_KUEUE = ("kueue.x-k8s.io", "v1beta2")
FOLLOWED = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource(*_KUEUE, "localqueues", "LocalQueue", namespaced=True),
    Resource(*_KUEUE, "clusterqueues", "ClusterQueue", namespaced=False),
    Resource(*_KUEUE, "admissionchecks", "AdmissionCheck", namespaced=False),
    Resource(*_KUEUE, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False),
)
"""Few, small, and asked for with every job."""


class _UnreadError(Exception):
    def __init__(self, resource: Resource, namespace: str, name: str) -> None:
        super().__init__(f"{resource.plural} {namespace}/{name}")
        self.resource, self.namespace, self.name = resource, namespace, name


class LookupCache:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers = {resource: Informer(client, resource) for resource in FOLLOWED}

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

    async def consulted(self, decide: Callable[[Lookup], Answer]) -> Answer:
        """What `decide` answers when it sees its neighbours."""
        seen = _Seen(self._informers)
        while True:
            try:
                return decide(seen)
            except _UnreadError as unread:
                await self._read(unread, seen)

    async def _read(self, unread: _UnreadError, seen: "_Seen") -> None:
        resource, namespace, name = unread.resource, unread.namespace, unread.name
        if not name:
            seen.lists[resource, namespace] = (await self._client.list(resource, namespace)).items
            return
        try:
            found: Object | None = await self._client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            found = None
        seen.objects[resource, namespace, name] = found


class _Seen:
    """`Lookup` for one decision."""

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
