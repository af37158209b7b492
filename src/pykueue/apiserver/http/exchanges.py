"""A request and its response on a connection, the same for HTTP/1.1 and HTTP/2."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from multidict import CIMultiDict, MultiMapping

from pykueue.apiserver.http.messages import Upgrade

LARGE_BYTES = 64 * 1024
"""A response of this size may have to wait for the client, and keeps its seat until then."""
SEND_SECONDS = 60.0
"""A client that takes longer to read a response is disconnected."""


class BodyError(Exception):
    """The body of a request cannot be read."""


class ByteStream(Protocol):
    """The body of a response that is written bit by bit."""

    def write(self, data: bytes) -> None: ...

    def get_write_buffer_size(self) -> int:
        """How many bytes wait for the client."""
        ...

    def drain(self) -> Awaitable[None]:
        """Wait for the client to read; ConnectionError if it is gone."""
        ...

    def is_closing(self) -> bool: ...

    def abort(self) -> None: ...


class Exchange(Protocol):
    connection: object
    """The connection in `Connections`."""

    @property
    def method(self) -> str: ...

    @property
    def target(self) -> str:
        """The path and the query, as sent."""
        ...

    @property
    def headers(self) -> MultiMapping[str]: ...

    @property
    def remote(self) -> str:
        """The address of the client."""
        ...

    # The body of the request

    @property
    def has_body(self) -> bool: ...

    @property
    def content_length(self) -> int | None: ...

    def arrived_body(self) -> bytes | None:
        """The body, if all of it has arrived."""
        ...

    def expect_body(self, limit: int) -> None:
        """Let the client send a body of this size."""
        ...

    async def read(self) -> bytes:
        """What has arrived, b"" at the end; BodyError or ConnectionError."""
        ...

    # The response

    @property
    def has_started(self) -> bool:
        """Whether the client may have received a part of a response."""
        ...

    async def respond(self, status: int, headers: CIMultiDict[str], data: bytes) -> None:
        """Send a whole response, at the speed of the client if it is large."""
        ...

    async def start(self, status: int, headers: CIMultiDict[str]) -> ByteStream:
        """Begin a response without a known end."""
        ...

    async def end(self) -> None:
        """Complete a response that was started."""
        ...

    async def upgrade(self, upgrade: Upgrade) -> None:
        """Serve a WebSocket until the handler returns; ApiError if the client wants none."""
        ...

    # Its end

    def is_closed(self) -> bool:
        """Whether the client no longer waits for the response."""
        ...

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call it when the client is gone, at once if it is gone already. One callback at most."""
        ...

    def cancel(self) -> None:
        """Cancel the task that answers."""
        ...

    def abort(self) -> None:
        """End the response in the middle."""
        ...
