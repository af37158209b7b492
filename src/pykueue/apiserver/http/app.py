"""The HTTP application: authenticates, authorizes and answers requests, without a transport.

`listener` passes it the requests of aiohttp; tests may call it without a socket. Other packages
extend it through `hooks`.
"""

from collections.abc import Callable, Mapping

from pykueue.api import errors
from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import UserInfo, Verbs
from pykueue.apiserver.http import bodies, endpoints, resources, routes
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.endpoints import ResolvedRoute
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.non_resource_paths import NonResourcePaths, is_public, page_not_found
from pykueue.apiserver.http.openapi import OpenApi
from pykueue.apiserver.http.slow_thread import SlowThread
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.security.impersonation import effective_user

_STORING_VERBS = ("create", "update", "patch")
ANONYMOUS = UserInfo(name="system:anonymous", groups=("system:unauthenticated",))

Authenticate = Callable[[str], UserInfo | None]
"""Returns the user of a bearer token, None if the token is not valid."""


class Application:
    def __init__(
        self,
        *,
        scheme: Scheme,
        verbs: Verbs,
        authorizer: Authorizer,
        authenticate: Authenticate,
    ) -> None:
        self.scheme = scheme
        self.verbs = verbs
        self.authorizer = authorizer
        self.hooks = Hooks()
        self.discovery = Discovery(scheme, self.hooks)
        self.openapi = OpenApi(scheme)
        self.non_resource_paths = NonResourcePaths(self.discovery, self.openapi, self.hooks)
        self.address = ""
        self._authenticate = authenticate
        self.slow_thread = SlowThread()
        self.resources = resources.Resources(verbs, self.slow_thread)

    def kinds_changed(self) -> None:
        """Called when a CustomResourceDefinition changes. The documents are built again."""
        self.discovery.changed()
        self.openapi.changed()

    def identify(self, path: str, headers: Mapping[str, list[str]]) -> UserInfo:
        """The user of a request; ApiError 401 without a valid token, except on public paths."""
        scheme, _, token = "".join(headers.get("authorization", [])[:1]).partition(" ")
        if not scheme and self._is_public(path):
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
        if not route.is_resource and self._is_public(route.path):
            return endpoint
        access = endpoint.access
        if self.authorizer.allows(request.user, access):
            return endpoint
        refusal = access.refusal(request.user.name)
        if access.path:
            raise errors.ApiError(403, "Forbidden", f"forbidden: {refusal}", {})
        raise errors.forbidden(access.group, access.resource, access.name, refusal)

    def _is_public(self, path: str) -> bool:
        return is_public(path) or path in self.hooks.public_pages

    def body_limit(self, route: routes.Route) -> int:
        """The largest body of a request: large only if it is stored."""
        is_stored = route.verb in _STORING_VERBS and route.is_resource and self.hooks.find(route) is None
        return bodies.LIMIT_BYTES if is_stored else bodies.SMALL_LIMIT_BYTES

    async def respond(self, request: HttpRequest, endpoint: ResolvedRoute, *, etag: str = "") -> HttpResponse:
        """Answer any request but a watch."""
        if endpoint.handler is not None:
            return await endpoint.handler(request)
        if endpoint.target is None:
            return await self.non_resource_paths.handle(request, etag=etag, address=self.address)
        return await self.resources.handle(request, endpoint.target)
