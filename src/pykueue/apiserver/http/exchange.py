"""One request as the handlers see it, whichever way it came in."""

from collections.abc import Mapping

import msgspec

from pykueue.apiserver.calls import User
from pykueue.apiserver.http import bodies, negotiation
from pykueue.apiserver.http.hooks import Call
from pykueue.apiserver.http.routes import Route


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    route: Route
    user: User
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    data: bytes = b""
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    target: str = ""
    """The path and query as they came."""

    @property
    def form(self) -> negotiation.Form:
        return negotiation.form(self.accept)

    def call(self) -> Call:
        """The same, for a hook: body decoded, transport forgotten."""
        body = bodies.decode_object(self.content_type, self.data)[0] if self.data else {}
        return Call(
            method=self.method, route=self.route, user=self.user, query=self.query, body=body, target=self.target
        )
