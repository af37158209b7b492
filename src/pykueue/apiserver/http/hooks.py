"""How other parts add to the API: subresources such as `pods/log`, and whole groups such as the visibility API.

A part registers a handler; it gets a `Call` that was authenticated and authorised, and returns a `Reply` or raises
`ApiError`. Nothing in a handler depends on how the request came in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pykueue.api.scheme import Object
from pykueue.apiserver.calls import User
from pykueue.apiserver.http.routes import Route

JSON = "application/json"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    route: Route
    user: User
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: Object = msgspec.field(default_factory=dict)
    """The decoded body; empty when there was none."""
    target: str = ""
    """The path and query as they came, for parameters that repeat."""


class Line(Protocol):
    """A connection on which both sides speak, in whole messages, until one of them hangs up."""

    protocol: str
    """The one of the dialogue's that the client chose."""

    async def receive(self) -> bytes | None:
        """None when the client has gone."""
        ...

    async def send(self, message: bytes) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What to do on a WebSocket; refused without one."""

    protocols: tuple[str, ...]
    """In the order of preference."""
    speak: Callable[[Line], Awaitable[None]]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is an object (sent as JSON), bytes (sent as they are), a stream (sent as it comes) or a dialogue."""

    body: Object | bytes | AsyncIterator[bytes] | Upgrade
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraResource:
    """A line of discovery. `name` may be a subresource (`clusterqueues/pendingworkloads`)."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    kind_group: str = ""
    """The API group of `kind`; "" means the group that serves it."""
    kind_version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraGroup:
    """One version of an API group whose objects are not stored but answered by `handler`."""

    group: str
    version: str
    resources: tuple[ExtraResource, ...]
    handler: Handler


class Hooks:
    """The register of what parts have added."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], ExtraGroup] = {}
        self.subresources: dict[tuple[str, str, str], tuple[ExtraResource, Handler]] = {}
        self.pages: dict[str, Handler] = {}
        self.generation = 0

    def add_group(self, group: ExtraGroup) -> None:
        self.groups[group.group, group.version] = group
        self.generation += 1

    def add_subresource(self, group: str, resource: ExtraResource, handler: Handler) -> None:
        """Serve `resource.name` (as in `pods/log`) of a kind that is stored."""
        plural, _, subresource = resource.name.partition("/")
        assert subresource, "a subresource is named plural/subresource"
        self.subresources[group, plural, subresource] = (resource, handler)
        self.generation += 1

    def add_page(self, path: str, handler: Handler) -> None:
        """Serve a path that is no resource, such as `/metrics`."""
        self.pages[path] = handler

    def handler(self, route: Route) -> Handler | None:
        found = self.subresources.get((route.group, route.plural, route.subresource)) if route.subresource else None
        if found:
            return found[1]
        extra = self.groups.get((route.group, route.version))
        if extra is None:
            return None
        name = f"{route.plural}/{route.subresource}" if route.subresource else route.plural
        return extra.handler if any(resource.name == name for resource in extra.resources) else None
