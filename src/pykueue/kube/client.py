"""The client of a Kubernetes API: one protocol, two implementations, one contract suite.

`kube.http_client` calls a server over HTTP; `apiserver.local_client` calls the embedded server in
this process. Both raise `api.errors.ApiError` with the same codes, reasons and messages.
"""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource


class PatchType(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR event raises ApiError."""

    type: str
    object: Object


class ObjectList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Object]
    resource_version: str
    continue_token: str = ""
    size_bytes: int = 0
    """Of the response; 0 if there was none."""


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    field_manager: str = "pykueue"
    dry_run: bool = False
    force: bool = False
    """Server-side apply only: take fields over from other managers."""
    field_validation: str = ""


STRICT = WriteOptions(field_validation="Strict")
"""Refuse fields that the kind does not have, as kubectl does."""


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    propagation_policy: str = ""
    """Background, Foreground or Orphan; "" leaves it to the server."""
    grace_period_seconds: int | None = None
    preconditions: dict[str, str] = msgspec.field(default_factory=dict)
    dry_run: bool = False


class Client(Protocol):
    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList: ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]: ...

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object: ...

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object: ...

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
    ) -> Object: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None: ...

    async def raw(self, method: str, path: str, body: Any = None) -> Any: ...

    async def close(self) -> None: ...


async def get_or_none(client: Client, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """The object as the API has it now; None if there is none of this name."""
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return None
