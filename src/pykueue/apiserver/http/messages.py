"""HTTP requests and responses as handlers see them, without a transport.

`listener` builds an `HttpRequest` from a socket and sends the `HttpResponse`. Handlers are plain
functions from one to the other; `hooks` registers those of other packages.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import bodies, negotiation
from pykueue.apiserver.http.routes import Route


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of an authenticated user."""

    method: str
    route: Route
    user: UserInfo
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    data: bytes = b""
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    decoded: bodies.Decoded | None = None
    """The value of a large body, which was decoded in a thread."""
    most_values: int = bodies.MOST_VALUES
    """Fields and items that the body may have."""
    target: str = ""
    """The path and the query as the client sent them, for parameters that repeat."""

    @property
    def form(self) -> negotiation.Form:
        return negotiation.form(self.accept)

    @property
    def body(self) -> Object:
        """The decoded body, {} if there is none. Decoded on every access."""
        return bodies.expect_object(self.decode()[0]) if self.data else {}

    def decode(self) -> bodies.Decoded:
        """The value of the body, which the caller may change, and faults of its text."""
        if self.decoded is None:
            return bodies.decode(self.content_type, self.data, self.most_values)
        value, faults = self.decoded
        return copied(value), faults


class MessageStream(Protocol):
    """A connection on which both sides send whole messages until one of them closes it."""

    protocol: str
    """The subprotocol of the `Upgrade` that the client chose."""

    async def receive(self) -> bytes | None:
        """The next message, or None after the client has closed the connection."""
        ...

    async def send(self, message: bytes) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A response that upgrades the connection to a WebSocket. Other connections are refused."""

    protocols: tuple[str, ...]
    """Subprotocols in the order of preference."""
    serve: Callable[[MessageStream], Awaitable[None]]


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is an object (sent as JSON), bytes, parts of them, a stream, or an upgrade."""

    body: Object | bytes | list[bytes] | AsyncIterator[bytes] | Upgrade
    status: int = 200
    content_type: str = negotiation.JSON
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
