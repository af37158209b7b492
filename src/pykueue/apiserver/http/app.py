"""The HTTP application: authenticates, authorizes and answers requests, without a transport.

`listener` passes it the requests of aiohttp; tests may call it without a socket. Other packages
extend it through `hooks`.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pykueue.api import errors
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import UserInfo, Verbs
from pykueue.apiserver.http import endpoints, resources
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.endpoints import ResolvedRoute
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.non_resource_paths import NonResourcePaths, is_public, page_not_found
from pykueue.apiserver.http.openapi import OpenApi
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.security.impersonation import effective_user

MUTATING = ("POST", "PUT", "PATCH", "DELETE")
ANONYMOUS = UserInfo(name="system:anonymous", groups=("system:unauthenticated",))

Authenticate = Callable[[str], UserInfo | None]
"""Returns the user of a bearer token, None if the token is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest numbers of concurrent requests. Watches do not count."""

    reads: int = 400
    writes: int = 200


class InFlight:
    """Counts concurrent requests and refuses those above the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = {False: limits.reads, True: limits.writes}
        self._active = {False: 0, True: 0}

    @contextlib.contextmanager
    def admit(self, method: str) -> Iterator[None]:
        is_write = method in MUTATING
        if self._active[is_write] >= self._limits[is_write]:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        self._active[is_write] += 1
        try:
            yield
        finally:
            self._active[is_write] -= 1


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
        self.discovery = Discovery(scheme, self.hooks)
        self.openapi = OpenApi(scheme)
        self.non_resource_paths = NonResourcePaths(self.discovery, self.openapi, self.hooks)
        self.in_flight = InFlight(limits or Limits())
        self.address = ""
        self._authenticate = authenticate
        self.resources = resources.Resources(verbs)

    def kinds_changed(self) -> None:
        """Called when a CustomResourceDefinition changes. The documents are built again."""
        self.discovery.changed()
        self.openapi.changed()

    def identify(self, path: str, headers: Mapping[str, list[str]]) -> UserInfo:
        """The user of a request; ApiError 401 without a valid token, except on public paths."""
        scheme, _, token = "".join(headers.get("authorization", [])[:1]).partition(" ")
        if not scheme and is_public(path):
            return ANONYMOUS
        user = self._authenticate(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.unauthorized()
        return effective_user(user, headers, self.authorizer)

    def authorize(self, request: HttpRequest) -> ResolvedRoute:
        """What the request acts upon, if its user may; ApiError 403, 404 or 405 otherwise."""
        route = request.route
        if route.is_resource and not self.discovery.has_version(route.group, route.version):
            endpoint = ResolvedRoute(access=route.access_request(), handler=page_not_found)
        else:
            endpoint = endpoints.resolve(self.scheme, self.hooks, route)
        if not route.is_resource and is_public(route.path):
            return endpoint
        access = endpoint.access
        if self.authorizer.allows(request.user, access):
            return endpoint
        refusal = access.refusal(request.user.name)
        if access.path:
            raise errors.ApiError(403, "Forbidden", f"forbidden: {refusal}", {})
        raise errors.forbidden(access.group, access.resource, access.name, refusal)

    async def respond(self, request: HttpRequest, endpoint: ResolvedRoute, *, etag: str = "") -> HttpResponse:
        """Answer any request but a watch."""
        if endpoint.handler is not None:
            return await endpoint.handler(request)
        if endpoint.target is None:
            return await self.non_resource_paths.handle(request, etag=etag, address=self.address)
        return await self.resources.handle(request, endpoint.target)
