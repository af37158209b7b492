"""What a request acts upon: the stored kind or the handler of a route, and the access it needs.

`app` resolves every request before it authorizes it, so that the access that is authorized is the
one that is acted upon: a path with another scope than its resource does not exist, and a method
that the resource does not serve is refused, whoever asks.
"""

from dataclasses import dataclass

from pykueue.api.scheme import Scheme
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import Handler
from pykueue.apiserver.http.routes import Route
from pykueue.kube.delegation import AccessRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRoute:
    """`target` is set for a stored kind, `handler` for a resource of `hooks`."""

    access: AccessRequest
    target: ResourceTarget | None = None
    handler: Handler | None = None


def resolve(scheme: Scheme, hooks: Hooks, route: Route) -> ResolvedRoute:
    """The endpoint of a route; ApiError 404 or 405 if there is none."""
    access = route.access_request()
    if not route.is_resource:
        return ResolvedRoute(access=access)
    if extra := hooks.find(route):
        resource, handler = extra
        routes.check(route, resource.verbs, namespaced=resource.namespaced)
        return ResolvedRoute(access=access, handler=handler)
    return ResolvedRoute(access=access, target=routes.find_target(scheme, route))
