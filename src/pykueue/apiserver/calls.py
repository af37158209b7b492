"""What may be asked of the embedded API, free of any transport: targets, options, answers and the verbs.

`core.Core` implements `Verbs`. The HTTP application and the in-process client are its two callers: they turn their own
form of a request into these values, and answer with what comes back. A refusal is raised as `api.errors.ApiError`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.store.rows import Stored
from pykueue.kube.client import PatchType


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


ADMIN = User(name="system:admin", groups=("system:masters", "system:authenticated"))


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a request. `kind` carries the version asked for; `subresource` is "", "status" or "scale".

    An empty `namespace` of a namespaced kind means all namespaces (list, watch, delete_collection only).
    """

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class ListCall(msgspec.Struct, frozen=True, kw_only=True):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


class WatchCall(msgspec.Struct, frozen=True, kw_only=True):
    """`resource_version` "" or "0" starts with an ADDED event for each object that is there."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float = 0
    """0 means: until the watcher goes away."""


class WriteCall(msgspec.Struct, frozen=True, kw_only=True):
    """Options of create, update and patch."""

    user: User = ADMIN
    field_manager: str = ""
    """"" lets the core take the first word of `user_agent`, as an API server does."""
    user_agent: str = ""
    dry_run: bool = False
    force: bool = False
    field_validation: str = ""
    """Strict, Warn or Ignore; "" means Warn."""
    decoding_faults: tuple[str, ...] = ()
    """What the reader of the body noticed (`duplicate field "spec.a"`): refused or warned of like unknown fields."""


class DeleteCall(msgspec.Struct, frozen=True, kw_only=True):
    """`propagation_policy` is Background, Foreground, Orphan or "" (the default of the kind)."""

    user: User = ADMIN
    propagation_policy: str = ""
    grace_period_seconds: int | None = None
    precondition_uid: str = ""
    precondition_resource_version: str = ""
    dry_run: bool = False


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is decoded JSON (for APPLY also decoded YAML): a list of operations for JSON patches, else an object."""

    type: PatchType
    body: Any


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One object (or a Status) as JSON, ready to send."""

    data: bytes
    warnings: tuple[str, ...] = ()
    is_created: bool = False
    """The object did not exist before: HTTP answers 201."""
    is_accepted: bool = False
    """Deletion began and is not over: what `delete` returns is the object, HTTP still answers 200."""
    stored: Stored | None = None
    """What it shows, if it shows an object as it is stored."""

    def decode(self) -> Object:
        """A fresh copy: yours to change."""
        obj: Object = msgspec.json.decode(self.data)
        return obj

    def decode_unmanaged(self) -> Object:
        """As `decode`, without `managedFields`."""
        if self.stored is not None:
            return self.stored.decode_unmanaged()
        obj = self.decode()
        (obj.get("metadata") or {}).pop("managedFields", None)
        return obj


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A list, or one page of it; `items` are encoded objects in the version asked for."""

    kind: Kind
    items: list[bytes]
    resource_version: str
    continue_token: str = ""
    remaining_item_count: int | None = None
    warnings: tuple[str, ...] = ()

    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": self.resource_version}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining_item_count is not None:
            metadata["remainingItemCount"] = self.remaining_item_count
        return metadata

    def encode(self) -> bytes:
        """The whole list as JSON, without decoding an item."""
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version, "metadata": self.metadata()}
        return b'%s,"items":[%s]}' % (msgspec.json.encode(head)[:-1], b",".join(self.items))

    def decode(self) -> list[Object]:
        return [msgspec.json.decode(item) for item in self.items]


class Frame(Protocol):
    """One watch event. It is shared by all watchers of a version, so whatever it gives is made once."""

    type: str
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    data: bytes
    """The object as JSON."""

    @property
    def line(self) -> bytes:
        """The event as the wire has it: `{"type":…,"object":…}` and a newline."""
        ...

    def decode(self) -> Object: ...

    def shared(self) -> Object:
        """The object without `managedFields`, decoded once for all who only read it."""
        ...


class Sink(Protocol):
    """Where a watch delivers. Called on the event loop; must neither block nor raise."""

    def send(self, frame: Frame) -> None: ...

    def close(self) -> None:
        """The watch is over (timeout, shutdown, or after an ERROR frame). Called once."""
        ...


class Subscription(Protocol):
    def cancel(self) -> None:
        """Stop delivering, without a call of `close`. May be called at any time, more than once."""
        ...


class Verbs(Protocol):
    async def get(self, target: Target, *, resource_version: str = "") -> Answer: ...

    async def list(self, target: Target, call: ListCall) -> Page: ...

    async def watch(self, target: Target, call: WatchCall, sink: Sink) -> Subscription:
        """Begin a watch. `target.name` narrows it to one object. Raises 400 and 410 before anything is sent."""
        ...

    async def create(self, target: Target, body: Object, call: WriteCall) -> Answer: ...

    async def update(self, target: Target, body: Object, call: WriteCall) -> Answer: ...

    async def patch(self, target: Target, patch: Patch, call: WriteCall) -> Answer:
        """All four patch types; server-side apply creates what is not there."""
        ...

    async def delete(self, target: Target, call: DeleteCall) -> Answer:
        """The object if it stays for a while (finalizers, grace period), else a Status of Success."""
        ...

    async def delete_collection(self, target: Target, selection: ListCall, call: DeleteCall) -> Page: ...
