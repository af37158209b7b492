"""The `kube.client.Client` of the server's own process: the same results as over HTTP.

The embedded controllers and the embedded cluster use it. Objects are copied in both directions,
as HTTP would copy them, with one exception: without `shows_managers`, watch events and the answers
to writes carry the server's shared objects, which must not be changed.
"""

import asyncio
import builtins
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource, Scheme
from pykueue.apiserver.calls import (
    ADMIN,
    DeleteCall,
    ListCall,
    ObjectResponse,
    PatchBody,
    ResourceTarget,
    Sink,
    UserInfo,
    Verbs,
    WatchCall,
    WatchFrame,
    WriteCall,
)
from pykueue.apiserver.http import routes
from pykueue.apiserver.slices import Slices
from pykueue.kube.client import DeleteOptions, ListOptions, ObjectList, PatchType, WatchEvent, WriteOptions

_LONGEST_BACKLOG = 100_000
_FRAMES_PER_TURN = 8
"""A reader of frames handles many of one commit; others get their turns of the event loop."""


class FrameQueue(Sink):
    """A sink that queues frames until they are read. It closes when its backlog gets too long."""

    def __init__(self) -> None:
        self._frames: deque[WatchFrame] = deque()
        self._is_open = True
        self._arrival = asyncio.Event()
        self._read_in_turn = 0

    def send(self, frame: WatchFrame) -> None:
        if len(self._frames) >= _LONGEST_BACKLOG:
            self.close()
        elif self._is_open:
            self._frames.append(frame)
            self._arrival.set()

    def close(self) -> None:
        self._is_open = False
        self._arrival.set()

    async def read(self) -> WatchFrame | None:
        """The next frame, or None after the watch has ended."""
        while not self._frames:
            if not self._is_open:
                return None
            self._arrival.clear()
            await self._arrival.wait()
            self._read_in_turn = 0
        self._read_in_turn += 1
        if self._read_in_turn > _FRAMES_PER_TURN:
            await asyncio.sleep(0)
            self._read_in_turn = 1
        return self._frames.popleft()


class LocalClient:
    """Without `shows_managers`, objects have no `managedFields`, which no controller reads.

    The objects of watch events and of answers to writes are then shared by all readers and must
    not be changed. With `is_trusted` the rules of statuses are not checked again.
    """

    def __init__(
        self,
        core: Verbs,
        scheme: Scheme,
        *,
        user: UserInfo = ADMIN,
        shows_managers: bool = True,
        is_trusted: bool = False,
    ) -> None:
        self._core = core
        self._is_trusted = is_trusted
        self._shows_managers = shows_managers
        self._scheme = scheme
        self._slices = Slices()
        self._user = user

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        obj = (await self._core.get(self._target(resource, namespace, name))).decode()
        if not self._shows_managers:
            obj["metadata"].pop("managedFields", None)
        return obj

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList:
        options = options or ListOptions()
        call = ListCall(
            label_selector=options.label_selector,
            field_selector=options.field_selector,
            limit=options.limit,
            continue_token=options.continue_token,
            resource_version=options.resource_version,
        )
        page = await self._core.list(self._target(resource, namespace), call)
        items: builtins.list[Object] = []
        await self._slices.run(self._decode(page.items, items), namespace)
        return ObjectList(items=items, resource_version=page.resource_version, continue_token=page.continue_token)

    def _decode(self, encoded: Sequence[bytes], items: builtins.list[Object]) -> Iterator[int]:
        """Steps that decode the objects of a list."""
        for data in encoded:
            items.append(msgspec.json.decode(data))
            if not self._shows_managers:
                items[-1]["metadata"].pop("managedFields", None)
            yield len(data)

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
        frames = FrameQueue()
        subscription = await self._core.watch(self._target(resource, namespace), call, frames)
        try:
            while (frame := await frames.read()) is not None:
                if frame.type == "ERROR":
                    raise ApiError.from_status(frame.decode())
                obj = frame.decode() if self._shows_managers else frame.shared()
                yield WatchEvent(type=frame.type, object=obj)
        finally:
            subscription.cancel()

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object:
        namespace = namespace or objects.nested(obj, "metadata").get("namespace", "")
        return self._written(
            await self._core.create(self._target(resource, namespace), _copy(obj), self._call(options))
        )

    async def create_events(self, resource: Resource, events: Sequence[Object]) -> None:
        """Create events of `kube.controller.event_recorder`. What is refused is dropped."""
        await self._core.create_events(self._target(resource).kind, events, self._call(None))

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object:
        target = self._target(resource, objects.namespace(obj), objects.name(obj), subresource)
        return self._written(await self._core.update(target, _copy(obj), self._call(options)))

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
        body = PatchBody(type=patch_type, body=_copy(patch))
        return self._written(await self._core.patch(target, body, self._call(options)))

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        options = options or DeleteOptions()
        call = DeleteCall(
            user=self._user,
            propagation_policy=options.propagation_policy,
            grace_period_seconds=options.grace_period_seconds,
            precondition_uid=options.preconditions.get("uid", ""),
            precondition_resource_version=options.preconditions.get("resourceVersion", ""),
            dry_run=options.dry_run,
        )
        await self._core.delete(self._target(resource, namespace, name), call)

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        """A request by its path, for what no other method offers."""
        route = routes.parse(method, *routes.split_target(path))
        target = routes.find_target(self._scheme, route)
        match route.verb:
            case "get":
                return (await self._core.get(target)).decode()
            case "list":
                return msgspec.json.decode((await self._core.list(target, ListCall())).encode())
            case "create":
                return (await self._core.create(target, _copy(body), self._call(None))).decode()
            case "update":
                return (await self._core.update(target, _copy(body), self._call(None))).decode()
            case "patch":
                patch = PatchBody(type=PatchType.MERGE, body=_copy(body))
                return (await self._core.patch(target, patch, self._call(None))).decode()
            case "delete":
                return (await self._core.delete(target, DeleteCall(user=self._user))).decode()
        raise routes.method_not_allowed()

    async def close(self) -> None:
        """There is nothing to close: the server keeps running."""

    def _written(self, response: ObjectResponse) -> Object:
        return response.decode() if self._shows_managers else response.shared()

    def _target(self, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> ResourceTarget:
        kind = self._scheme.for_path(resource.group, resource.version, resource.plural)
        if kind is None:
            raise routes.not_found()
        return ResourceTarget(kind=kind, namespace=namespace, name=name, subresource=subresource)

    def _call(self, options: WriteOptions | None) -> WriteCall:
        options = options or WriteOptions()
        return WriteCall(
            user=self._user,
            is_component=self._user is ADMIN,
            field_manager=options.field_manager,
            dry_run=options.dry_run,
            force=options.force,
            field_validation=options.field_validation,
            is_trusted=self._is_trusted,
        )


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
