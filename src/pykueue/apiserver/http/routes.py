"""Paths of the Kubernetes API: method and path to a verb on a resource.

Used for requests over HTTP and by `LocalClient.raw`.
"""

import urllib.parse
from collections.abc import Mapping, Sequence

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import ResourceTarget
from pykueue.kube.delegation import AccessRequest

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_OTHER_METHODS = ("HEAD", "OPTIONS", "TRACE", "CONNECT")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
POD_SUBRESOURCES = ("ephemeralcontainers", "resize")
"""Subresources through which the spec of a pod changes."""
_CONNECT_SUBRESOURCES = ("exec", "attach", "portforward")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of a stored kind."""
SUBRESOURCE_VERBS = ("get", "patch", "update")
_VERBS_ON_SUBRESOURCES = ("create", *SUBRESOURCE_VERBS)
_COLLECTION_VERBS = ("list", "watch", "create", "deletecollection")
_NAMED_VERBS = ("get", "watch", "update", "patch", "delete")
_ALL_NAMESPACES_VERBS = ("list", "watch")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")

Query = Mapping[str, str]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`plural` is "" for a non-resource path such as `/version`."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_namespace: bool = False
    """Whether the path is that of a namespace itself. `namespace` is then its name, too."""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)

    def access_request(self) -> AccessRequest:
        """What must be allowed. exec, attach and port-forward need `create`, even as a GET.

        The result is the scope that a handler acts upon only if `check` has accepted the route.
        """
        if not self.is_resource:
            return AccessRequest(verb=self.verb, path=self.path)
        is_connect = self.plural == "pods" and self.subresource in _CONNECT_SUBRESOURCES
        return AccessRequest(
            verb="create" if is_connect else self.verb,
            group=self.group,
            resource=self.plural,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Split a request target into path and query. The first value of a parameter counts."""
    path, _, text = target.partition("?")
    query: dict[str, str] = {}
    if text:
        for key, value in urllib.parse.parse_qsl(text, keep_blank_values=True):
            query.setdefault(key, value)
    return path, query


def is_set(query: Query, name: str) -> bool:
    return query.get(name, "") in _TRUE


def parse(method: str, path: str, query: Query) -> Route:
    parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
    verb = method.lower() if method in _OTHER_METHODS else _VERBS.get(method, "")
    group, version, rest = _group_and_rest(parts)
    if not all((version, *rest)) or not rest:
        return Route(verb=verb, path="/" + path.strip("/"))
    is_watch = is_set(query, "watch")
    if rest[0] == "watch" and len(rest) > 1 and verb == "get":
        is_watch, rest = True, rest[1:]
    namespace, plural, name, subresource = _resource(rest)
    if any("/" in part for part in (group, version, namespace, plural)):
        return Route(verb=verb, path="/" + path.strip("/"))
    if verb == "get":
        verb = "watch" if is_watch and not subresource else "get" if name else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Route(
        verb=verb,
        path=path,
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        is_namespace=rest[:2] == ["namespaces", name] and len(rest) - bool(subresource) == 2,
    )


def _group_and_rest(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3 and parts[1]:
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _resource(rest: list[str]) -> tuple[str, str, str, str]:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) == 2 or (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            return namespace, "namespaces", namespace, "/".join(rest[2:])
        rest = rest[2:]
    return namespace, rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])


def not_found() -> errors.ApiError:
    return errors.ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> errors.ApiError:
    message = "the server does not allow this method on the requested resource"
    return errors.ApiError(405, "MethodNotAllowed", message, {})


def check(route: Route, verbs: Sequence[str], *, namespaced: bool) -> None:
    """ApiError 404 if the path has another scope than the resource, 405 if the verb is not served.

    `verbs` are those of the resource. A route that passes names exactly what a handler acts upon,
    so that `access_request` is the access to authorize.
    """
    if route.namespace and not namespaced and not route.is_namespace:
        raise not_found()
    if namespaced and not route.namespace and route.name:
        raise not_found()
    if route.subresource:
        allowed: tuple[str, ...] = _VERBS_ON_SUBRESOURCES
    elif namespaced and not route.namespace:
        allowed = _ALL_NAMESPACES_VERBS
    else:
        allowed = _NAMED_VERBS if route.name else _COLLECTION_VERBS
    if route.verb not in allowed or route.verb not in verbs:
        raise method_not_allowed()


def find_target(scheme: Scheme, route: Route) -> ResourceTarget:
    """The kind and object of a route; ApiError 404 or 405 if path or verb do not fit the kind."""
    kind = scheme.for_path(route.group, route.version, route.plural)
    if kind is None or (route.subresource and not _has_subresource(kind, route.subresource)):
        raise not_found()
    check(route, SUBRESOURCE_VERBS if route.subresource else verbs_of(kind), namespaced=kind.namespaced)
    namespace = route.namespace if kind.namespaced else ""
    return ResourceTarget(kind=kind, namespace=namespace, name=route.name, subresource=route.subresource)


def verbs_of(kind: Kind) -> tuple[str, ...]:
    """The verbs of a stored kind. Namespaces are deleted one by one, as in Kubernetes."""
    is_namespace = (kind.group, kind.kind) == ("", "Namespace")
    return tuple(verb for verb in VERBS if not (is_namespace and verb == "deletecollection"))


def _has_subresource(kind: Kind, name: str) -> bool:
    is_namespace = (kind.group, kind.kind) == ("", "Namespace")
    return (
        (name == "status" and kind.has_status)
        or (name == "scale" and kind.scale is not None)
        or (name == "finalize" and is_namespace)
        or (name in POD_SUBRESOURCES and (kind.group, kind.kind) == ("", "Pod"))
    )
