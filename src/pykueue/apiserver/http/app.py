"""The application: authenticates, authorises and answers every request, whichever listener it came from.

`listener` feeds it from aiohttp and streams its watches; tests may call it without a socket. Parts add to it through
`hooks`. Started by `pykueue up`.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from pykueue.api import errors
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import Target, User, Verbs
from pykueue.apiserver.http import resources
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.exchange import Incoming
from pykueue.apiserver.http.hooks import Hooks, Reply
from pykueue.apiserver.http.openapi import OpenApi
from pykueue.apiserver.http.pages import NOT_FOUND, Pages, is_open
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.security.impersonation import effective_user

MUTATING = ("POST", "PUT", "PATCH", "DELETE")
ANONYMOUS = User(name="system:anonymous", groups=("system:unauthenticated",))

Authenticate = Callable[[str], User | None]
"""A bearer token to its user."""

Guard = Callable[[Incoming, Target], Awaitable[None]]
"""Raises ApiError for what RBAC alone cannot judge, such as handing on rights that one does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests may be at work at once; watches do not count."""

    reads: int = 400
    writes: int = 200


class InFlight:
    def __init__(self, limits: Limits) -> None:
        self._limits = {False: limits.reads, True: limits.writes}
        self._at_work = {False: 0, True: 0}

    @contextlib.contextmanager
    def admit(self, method: str) -> Iterator[None]:
        is_write = method in MUTATING
        if self._at_work[is_write] >= self._limits[is_write]:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        self._at_work[is_write] += 1
        try:
            yield
        finally:
            self._at_work[is_write] -= 1


class Application:
    def __init__(
        self,
        *,
        scheme: Scheme,
        verbs: Verbs,
        authorizer: Authorizer,
        authenticate: Authenticate,
        limits: Limits | None = None,
    ) -> None:
        self.scheme = scheme
        self.verbs = verbs
        self.authorizer = authorizer
        self.hooks = Hooks()
        self.guards: list[Guard] = []
        self.discovery = Discovery(scheme, self.hooks)
        self.openapi = OpenApi(scheme)
        self.pages = Pages(self.discovery, self.openapi, self.hooks)
        self.in_flight = InFlight(limits or Limits())
        self.address = ""
        self._authenticate = authenticate
        self.resources = resources.Resources(verbs)

    def kinds_changed(self) -> None:
        """A CustomResourceDefinition came or went: documents are made anew."""
        self.discovery.changed()
        self.openapi.changed()

    def identify(self, path: str, headers: Mapping[str, list[str]]) -> User:
        """Who is asking: 401 without a good token, except where anybody may look."""
        scheme, _, token = "".join(headers.get("authorization", [])[:1]).partition(" ")
        if not scheme and is_open(path):
            return ANONYMOUS
        user = self._authenticate(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.unauthorized()
        return effective_user(user, headers, self.authorizer)

    def authorise(self, request: Incoming) -> None:
        route = request.route
        if not route.is_resource and (is_open(route.path) or request.user is ANONYMOUS):
            return
        ask = route.ask()
        if self.authorizer.allows(request.user, ask):
            return
        refusal = ask.refusal(request.user.name)
        if ask.path:
            raise errors.ApiError(403, "Forbidden", f"forbidden: {refusal}", {})
        raise errors.forbidden(ask.group, ask.resource, ask.name, refusal)

    def watch_target(self, request: Incoming) -> Target | None:
        """What to watch, if the request is a watch of a stored kind."""
        if request.route.verb != "watch" or self.hooks.handler(request.route) is not None:
            return None
        return resources.find_target(self.scheme, request)

    async def respond(self, request: Incoming, *, etag: str = "") -> Reply:
        """Answer anything but a watch."""
        route = request.route
        if not route.is_resource:
            return await self.pages.handle(request, etag=etag, address=self.address)
        if handler := self.hooks.handler(route):
            return await handler(request.call())
        if not self.discovery.has_version(route.group, route.version):
            return NOT_FOUND
        target = resources.find_target(self.scheme, request)
        for guard in self.guards:
            await guard(request, target)
        return await self.resources.handle(request, target)
