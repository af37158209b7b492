"""The interface of the embedded API without a transport: targets, options, responses, the verbs.

`core.Core` implements `Verbs`. Its two callers are the HTTP application and `LocalClient`: each
converts its own requests to these values and the responses back. Errors are raised as
`api.errors.ApiError`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.review_session import ReviewSession
from pykueue.apiserver.store.rows import Stored
from pykueue.kube.client import PatchType


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


ADMIN = UserInfo(name="system:admin", groups=("system:masters", "system:authenticated"))


class ResourceTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The resource or object that a request is about. `kind` is in the requested version.

    `subresource` is "", "status", "scale", "finalize", "binding", "ephemeralcontainers" or
    "resize". An empty `namespace` of a namespaced kind means all namespaces (list, watch,
    delete_collection only).
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
    """`resource_version` "" or "0" starts with an ADDED event for each existing object."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float = 0
    """0 means no timeout."""


class WriteCall(msgspec.Struct, frozen=True, kw_only=True):
    """Options of create, update and patch."""

    user: UserInfo = ADMIN
    field_manager: str = ""
    """"" means the part of `user_agent` before the first slash, as in Kubernetes."""
    user_agent: str = ""
    is_component: bool = False
    """Whether a component inside pykueue writes: only it may write `api.reserved_keys`."""
    dry_run: bool = False
    force: bool = False
    field_validation: str = ""
    """Strict, Warn or Ignore; "" means Warn."""
    decoding_faults: tuple[str, ...] = ()
    """Faults of the decoder, such as `duplicate field "spec.a"`. Handled like unknown fields."""
    is_trusted: bool = False
    """The writer is a controller of this process."""
    requested_kind: Kind | None = None
    """The kind in the version of the request. The verb sets it for admission plugins."""
    reviews: ReviewSession | None = None
    """The answers of webhooks."""


class DeleteCall(msgspec.Struct, frozen=True, kw_only=True):
    """`propagation_policy` is Background, Foreground, Orphan or "" (the default of the kind)."""

    user: UserInfo = ADMIN
    propagation_policy: str = ""
    grace_period_seconds: int | None = None
    precondition_uid: str = ""
    precondition_resource_version: str = ""
    dry_run: bool = False
    reviews: ReviewSession | None = None
    """The answers of webhooks."""


class PatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is decoded JSON or YAML: a list of operations for a JSON patch, else an object."""

    type: PatchType
    body: Any


class ObjectResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One object, or a Status. A stored object is encoded only if somebody asks for it."""

    encoded: bytes = b""
    """The JSON of what is not stored: a Status, a Scale."""
    kind: Kind | None = None
    """The kind in the requested version."""
    stored: Stored | None = None
    warnings: tuple[str, ...] = ()
    is_created: bool = False
    """The request created the object: HTTP answers 201."""
    is_accepted: bool = False
    """The object is being deleted but still exists. HTTP answers 200 with the object."""

    @property
    def data(self) -> bytes:
        """The object as JSON, in the requested version."""
        if self.stored is None or self.kind is None:
            return self.encoded
        return versions.encode_as(self.kind, self.stored)

    def decode(self) -> Object:
        """A new copy, which the caller may change."""
        obj: Object = msgspec.json.decode(self.data)
        return obj

    def shared(self) -> Object:
        """The object without `managedFields`, which all readers may share. Do not change it."""
        if self.stored is None or self.kind is None:
            return self.decode()
        if versions.is_storage_version(self.kind):
            return self.stored.shared()
        return versions.from_storage(self.kind, self.stored.decode_unmanaged())


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A list, or one page of it. `items` are encoded objects in the requested version."""

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

    def parts(self) -> list[bytes]:
        """The list as JSON, in parts. The items are neither decoded nor copied."""
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version, "metadata": self.metadata()}
        parts = [msgspec.json.encode(head)[:-1] + b',"items":[']
        for item in self.items:
            parts += (item, b",")
        if self.items:
            parts.pop()
        return [*parts, b"]}"]

    def encode(self) -> bytes:
        return b"".join(self.parts())

    def decode(self) -> list[Object]:
        return [msgspec.json.decode(item) for item in self.items]


class WatchFrame:
    """One watch event in one version of its kind, shared by all watchers of that version.

    `data` is the object as JSON. `stored` is set if the object is shown exactly as it is stored.
    """

    __slots__ = ("_forms", "_line", "_object", "_stored", "data", "type")

    def __init__(self, event_type: str, data: bytes, stored: Stored | None = None) -> None:
        self.type = event_type  # ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
        self.data = data
        self._line = b""
        self._stored = stored
        self._object: Object | None = None
        self._forms: dict[Hashable, bytes] | None = None

    def in_form(self, form: Hashable, encode: Callable[[Object], bytes]) -> bytes:
        """The event as a line in another form, such as a Table, encoded once for all watchers."""
        if self._forms is None:
            self._forms = {}
        if form not in self._forms:
            self._forms[form] = encode(self.decode())
        return self._forms[form]

    @property
    def line(self) -> bytes:
        """The event as one line of JSON (`{"type":…,"object":…}`), encoded once."""
        if not self._line:
            self._line = b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.data)
        return self._line

    def decode(self) -> Object:
        """A new copy of the object, which the caller may change."""
        obj: Object = msgspec.json.decode(self.data)
        return obj

    def shared(self) -> Object:
        """The object without `managedFields`, decoded once for all readers. Do not change it."""
        if self._stored is not None:
            return self._stored.shared()
        if self._object is None:
            self._object = self.decode()
            self._object["metadata"].pop("managedFields", None)
        return self._object


FirstFrames = Iterator[WatchFrame | int]
"""The first frames of a watch. A number is the size of an object that is not selected."""


class Sink(Protocol):
    """The receiver of a watch. Called on the event loop; must neither block nor raise."""

    def send(self, frame: WatchFrame) -> None: ...

    def send_first(self, frames: FirstFrames) -> None:
        """Send the first frames, now or as the client reads them."""
        for frame in frames:
            if isinstance(frame, WatchFrame):
                self.send(frame)

    def close(self) -> None:
        """Called once when the watch ends (timeout, shutdown, or after an ERROR frame)."""
        ...


class Subscription(Protocol):
    def cancel(self) -> None:
        """Stop delivering; `close` is not called. May be called at any time and more than once."""
        ...


class Verbs(Protocol):
    async def get(self, target: ResourceTarget, *, resource_version: str = "") -> ObjectResponse: ...

    async def list(self, target: ResourceTarget, call: ListCall) -> Page: ...

    async def watch(self, target: ResourceTarget, call: WatchCall, sink: Sink) -> Subscription:
        """Start a watch, of one object if `target.name` is set.

        ApiError 400 or 410 is raised before the first frame is sent.
        """
        ...

    async def create(self, target: ResourceTarget, body: Object, call: WriteCall) -> ObjectResponse: ...

    async def create_events(self, kind: Kind, events: Sequence[Object], call: WriteCall) -> None:
        """Create events of a controller of this process. What is refused is dropped."""
        ...

    async def update(self, target: ResourceTarget, body: Object, call: WriteCall) -> ObjectResponse: ...

    async def patch(self, target: ResourceTarget, patch: PatchBody, call: WriteCall) -> ObjectResponse:
        """All four patch types. Server-side apply creates the object if it does not exist."""
        ...

    async def delete(self, target: ResourceTarget, call: DeleteCall) -> ObjectResponse:
        """The object if finalizers or a grace period keep it for now, else a Status of Success."""
        ...

    async def delete_collection(self, target: ResourceTarget, selection: ListCall, call: DeleteCall) -> Page: ...
