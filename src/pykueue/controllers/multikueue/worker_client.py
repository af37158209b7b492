"""The client of a worker, which is another cluster: what it answers is not trusted.

Controllers read objects without a look at their types, because an API server has checked them. A
worker may be an old, broken or hostile server. An object of other types than its kind has, or of
another manager, or a list without end makes the connection fail, as a cut cable does: the jobs of
other workers are not affected. Created by `remote` for each connection.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

from pykueue.api import fast_validation, objects, registry, schema_validation
from pykueue.api.labels import MULTI_KUEUE_ORIGIN
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client, DeleteOptions, ListOptions, ObjectList, PatchType, WatchEvent, WriteOptions

LARGEST_LIST_BYTES = 256 * 1024 * 1024
MOST_OBJECTS = 200_000
"""In one list, however many pages it has."""


class _Metadata(msgspec.Struct):
    name: str
    resourceVersion: str  # noqa: N815 - JSON name
    uid: str
    namespace: str = ""
    generation: int = 0
    creationTimestamp: str = ""  # noqa: N815 - JSON name
    deletionTimestamp: str = ""  # noqa: N815 - JSON name
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[dict[str, str | bool]] = []  # noqa: N815 - JSON name
    finalizers: list[str] = []


class WorkerError(ConnectionError):
    """The worker sent what no API server sends."""


class WorkerClient:
    def __init__(self, client: Client, *, origin: str, unlabelled: tuple[Resource, ...]) -> None:
        """`unlabelled` are the kinds whose objects have no label of their manager."""
        self._client = client
        self._origin = origin
        self._unlabelled = unlabelled
        self._scheme = registry.scheme()
        self._listed: dict[Resource, tuple[int, int]] = {}
        """Objects and bytes of the pages so far, by kind."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._checked(resource, await self._client.get(resource, name, namespace))

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList:
        page = await self._client.list(resource, namespace, options)
        count, size = self._listed.get(resource, (0, 0)) if options and options.continue_token else (0, 0)
        self._listed[resource] = count, size = count + len(page.items), size + page.size_bytes
        if count > MOST_OBJECTS or size > LARGEST_LIST_BYTES or (page.continue_token and not page.items):
            raise WorkerError(f"the list of {resource.plural} does not end: {count} objects, {size} bytes")
        _check_version(resource, page.resource_version)
        for item in page.items:
            self._check_own(resource, item)
        return page

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        events = self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        try:
            async for event in events:
                if event.type == "BOOKMARK":
                    _check_version(resource, objects.nested(event.object, "metadata").get("resourceVersion"))
                else:
                    self._check_own(resource, event.object)
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                with contextlib.suppress(OSError):
                    await events.aclose()

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object:
        return self._checked(resource, await self._client.create(resource, obj, namespace, options))

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object:
        updated = await self._client.update(resource, obj, subresource=subresource, options=options)
        return self._checked(resource, updated)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Object:
        patched = await self._client.patch(
            resource, name, namespace, patch, patch_type=patch_type, subresource=subresource, options=options
        )
        return self._checked(resource, patched)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        await self._client.delete(resource, name, namespace, options)

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        return await self._client.raw(method, path, body)

    async def close(self) -> None:
        await self._client.close()

    def _check_own(self, resource: Resource, obj: Any) -> None:
        """The object is one that this manager created, as the selector of the request says."""
        self._checked(resource, obj)
        if resource not in self._unlabelled and objects.labels(obj).get(MULTI_KUEUE_ORIGIN) != self._origin:
            raise WorkerError(f"{resource.kind} {objects.name(obj)} is of another manager")

    def _checked(self, resource: Resource, obj: Any) -> Object:
        """The object, if it has the types of its kind."""
        if not isinstance(obj, dict):
            raise WorkerError(f"a {resource.kind} that is no object")
        try:
            metadata = msgspec.convert(obj.get("metadata"), _Metadata)
        except msgspec.ValidationError as error:
            raise WorkerError(f"{resource.kind} with other metadata: {error}") from None
        _check_version(resource, metadata.resourceVersion)
        kind = self._scheme.for_kind(resource.api_version, resource.kind)
        schema = kind.schema if kind is not None else {"type": "object", "properties": _UNKNOWN_KIND}
        if not fast_validation.is_certainly_valid(schema, obj):
            body = {name: value for name, value in obj.items() if name != "metadata"}
            faults = schema_validation.structure_faults(schema, body, "")
            types = [fault for fault in faults if fault.reason == "FieldValueTypeInvalid"]
            if types:
                raise WorkerError(f"{resource.kind} {metadata.name}: {types[0].detail}")
        return obj


_UNKNOWN_KIND = {name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in ("spec", "status")}


def _check_version(resource: Resource, version: Any) -> None:
    if not isinstance(version, str) or not version.isdecimal() or len(version) > 20:
        raise WorkerError(f"{resource.plural} with the version {version!r:.40}, which is no number")
