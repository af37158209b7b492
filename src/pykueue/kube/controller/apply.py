"""Carries out plans: the only place where controllers write to the API.

Each write is a merge patch of what differs, guarded by the version that was read. A refused write raises, and the object is
looked at again; what was written is in the mirror before the next action.
"""

from collections.abc import Iterable
from typing import Protocol

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.client import Client, DeleteOptions, PatchType, WriteOptions
from pykueue.kube.controller.cache import ObjectCache, named
from pykueue.kube.controller.plan import Action, Create, Delete, Event, Write, merge_patch


class Recorder(Protocol):
    """Records events about objects; never waits."""

    def record(self, about: Object, *, reason: str, message: str, warning: bool, controller: str) -> None: ...


class Applier:
    """`name` is the controller that writes: it shows as field manager and as the source of events."""

    def __init__(self, client: Client, mirror: ObjectCache, recorder: Recorder, name: str) -> None:
        self._client = client
        self._name = name
        self._mirror = mirror
        self._recorder = recorder

    async def carry_out(self, actions: Iterable[Action]) -> None:
        versions: dict[str, str] = {}
        for action in actions:
            match action:
                case Write():
                    written = await self.write(action, versions.get(action.old["metadata"].get("uid", "")))
                    versions[written["metadata"].get("uid", "")] = written["metadata"].get("resourceVersion", "")
                case Create():
                    await self._create(action)
                case Delete():
                    await self._delete(action)
                case Event():
                    self.tell(action)

    async def write(self, action: Write, version: str | None = None) -> Object:
        """`version` is newer than the one in `old` when an earlier action of the plan wrote the object."""
        metadata = action.old["metadata"]
        patch = self._patch(action)
        patch.setdefault("metadata", {})["resourceVersion"] = version or metadata.get("resourceVersion", "")
        written = await self._client.patch(
            action.resource,
            metadata["name"],
            metadata.get("namespace", ""),
            patch,
            patch_type=PatchType.MERGE,
            subresource="status" if action.status else "",
            options=WriteOptions(field_manager=self._name),
        )
        written = named(action.resource, written)
        self._mirror.observe(action.resource, written)
        return written

    @staticmethod
    def _patch(action: Write) -> Object:
        if action.status:
            return {"status": merge_patch(action.old.get("status") or {}, action.new.get("status") or {})}
        old = {name: value for name, value in action.old.items() if name != "status"}
        new = {name: value for name, value in action.new.items() if name != "status"}
        return merge_patch(old, new)

    async def _create(self, action: Create) -> None:
        metadata = action.object["metadata"]
        created = await self._client.create(
            action.resource,
            action.object,
            metadata.get("namespace", ""),
            WriteOptions(field_manager=self._name),
        )
        self._mirror.observe(action.resource, named(action.resource, created))

    async def _delete(self, action: Delete) -> None:
        metadata = action.object["metadata"]
        options = DeleteOptions(propagation_policy=action.propagation_policy, preconditions={"uid": metadata["uid"]})
        try:
            await self._client.delete(action.resource, metadata["name"], metadata.get("namespace", ""), options)
        except ApiError as error:
            if error.code != 404:
                raise

    def tell(self, action: Event) -> None:
        self._recorder.record(
            action.about, reason=action.reason, message=action.message, warning=action.warning, controller=self._name
        )
