"""The `kube.client.Client` inside the server's own process: the same answers as over HTTP, without HTTP.

The embedded controllers and the machine room use it. Objects go in and come out as copies, as a wire would make them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import msgspec

from pykueue.api import errors
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Object, Resource, Scheme
from pykueue.apiserver.calls import (
    ADMIN,
    Answer,
    DeleteCall,
    Frame,
    ListCall,
    Patch,
    Target,
    User,
    Verbs,
    WatchCall,
    WriteCall,
)
from pykueue.kube.client import DeleteOptions, ListOptions, ObjectList, PatchType, WatchEvent, WriteOptions

_MOST_UNREAD = 100_000


class _Mailbox:
    """A sink that keeps frames until they are read; a reader that falls too far behind is cut off."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._is_open = True
        self._arrival = asyncio.Event()

    def send(self, frame: Frame) -> None:
        if len(self._frames) >= _MOST_UNREAD:
            self.close()
        elif self._is_open:
            self._frames.append(frame)
            self._arrival.set()

    def close(self) -> None:
        self._is_open = False
        self._arrival.set()

    async def read(self) -> Frame | None:
        """The next frame, None when there will be no more."""
        while not self._frames:
            if not self._is_open:
                return None
            self._arrival.clear()
            await self._arrival.wait()
        return self._frames.popleft()


class LocalClient:
    """Without `shows_managers` objects come without `managedFields`, which half their text often is and no controller reads;
    those of a watch are then the server's own, shared by all who watch, and must not be changed.
    """

    def __init__(self, core: Verbs, scheme: Scheme, *, user: User = ADMIN, shows_managers: bool = True) -> None:
        self._core = core
        self._shows_managers = shows_managers
        self._scheme = scheme
        self._user = user

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._taken(await self._core.get(self._target(resource, namespace, name)))

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList:
        asked = options or ListOptions()
        call = ListCall(
            label_selector=asked.label_selector,
            field_selector=asked.field_selector,
            limit=asked.limit,
            continue_token=asked.continue_token,
            resource_version=asked.resource_version,
        )
        page = await self._core.list(self._target(resource, namespace), call)
        items = page.decode()
        if not self._shows_managers:
            for item in items:
                item["metadata"].pop("managedFields", None)
        return ObjectList(items=items, resource_version=page.resource_version, continue_token=page.continue_token)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        call = WatchCall(
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            allow_bookmarks=True,
        )
        mailbox = _Mailbox()
        subscription = await self._core.watch(self._target(resource, namespace), call, mailbox)
        try:
            while (frame := await mailbox.read()) is not None:
                if frame.type == "ERROR":
                    raise ApiError.from_status(frame.decode())
                obj = frame.decode() if self._shows_managers else frame.shared()
                yield WatchEvent(type=frame.type, object=obj)
        finally:
            subscription.cancel()

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object:
        inside = namespace or (obj.get("metadata") or {}).get("namespace", "")
        return self._taken(await self._core.create(self._target(resource, inside), _copy(obj), self._call(options)))

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object:
        place = obj["metadata"]
        target = self._target(resource, place.get("namespace", ""), place["name"], subresource)
        return self._taken(await self._core.update(target, _copy(obj), self._call(options)))

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
        target = self._target(resource, namespace, name, subresource)
        body = Patch(type=patch_type, body=_copy(patch))
        return self._taken(await self._core.patch(target, body, self._call(options)))

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        asked = options or DeleteOptions()
        call = DeleteCall(
            user=self._user,
            propagation_policy=asked.propagation_policy,
            grace_period_seconds=asked.grace_period_seconds,
            precondition_uid=asked.preconditions.get("uid", ""),
            precondition_resource_version=asked.preconditions.get("resourceVersion", ""),
            dry_run=asked.dry_run,
        )
        await self._core.delete(self._target(resource, namespace, name), call)

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        """A request by its path, for what the other methods have no words for."""
        target = self._parse(path)
        match method:
            case "GET" if target.name:
                return (await self._core.get(target)).decode()
            case "GET":
                return msgspec.json.decode((await self._core.list(target, ListCall())).encode())
            case "POST":
                return (await self._core.create(target, _copy(body), self._call(None))).decode()
            case "PUT":
                return (await self._core.update(target, _copy(body), self._call(None))).decode()
            case "PATCH":
                patch = Patch(type=PatchType.MERGE, body=_copy(body))
                return (await self._core.patch(target, patch, self._call(None))).decode()
            case "DELETE":
                return (await self._core.delete(target, DeleteCall(user=self._user))).decode()
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    async def close(self) -> None:
        """Nothing to give back: the server goes on."""

    def _taken(self, answer: Answer) -> Object:
        return answer.decode() if self._shows_managers else answer.decode_unmanaged()

    def _target(self, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> Target:
        kind = self._scheme.for_path(resource.group, resource.version, resource.plural)
        if kind is None:
            raise _unknown_path()
        return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)

    def _parse(self, path: str) -> Target:
        match [unquote(part) for part in path.split("?", maxsplit=1)[0].strip("/").split("/")]:
            case ["api", "v1", *rest]:
                group, version = "", "v1"
            case ["apis", group, version, *rest]:
                pass
            case _:
                raise _unknown_path()
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and self._kind(group, version, rest[2]) is not None:
            _, namespace, *rest = rest
        plural, name, subresource = [*rest, "", "", ""][:3]
        kind = self._kind(group, version, plural)
        if kind is None:
            raise _unknown_path()
        return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)

    def _kind(self, group: str, version: str, plural: str) -> Kind | None:
        return self._scheme.for_path(group, version, plural)

    def _call(self, options: WriteOptions | None) -> WriteCall:
        asked = options or WriteOptions()
        return WriteCall(
            user=self._user,
            field_manager=asked.field_manager,
            dry_run=asked.dry_run,
            force=asked.force,
            field_validation=asked.field_validation,
        )


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _unknown_path() -> ApiError:
    return errors.ApiError(404, "NotFound", "the server could not find the requested resource")
