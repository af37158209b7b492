"""The address of a request: which verb on which resource a method and a path mean, as an API server reads them."""

import urllib.parse
from collections.abc import Mapping

import msgspec

from pykueue.apiserver.security.rules import AccessRequest

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_TALKS = ("exec", "attach", "portforward")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")

Query = Mapping[str, str]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`plural` is "" for paths that are no resource (`/version`); such a path is authorised as a path."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)

    def ask(self) -> AccessRequest:
        """To talk to a pod's processes is never just reading, though it begins with a GET."""
        if not self.is_resource:
            return AccessRequest(verb=self.verb, path=self.path)
        is_talk = self.plural == "pods" and self.subresource in _TALKS
        return AccessRequest(
            verb="create" if is_talk else self.verb,
            group=self.group,
            resource=self.plural,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """A request target as path and query; the first value of a repeated parameter counts."""
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
    verb = _VERBS.get(method, method.lower())
    group, version, rest = _group_and_rest(parts)
    if not version or not rest:
        return Route(verb=verb, path=path)
    is_watch = is_set(query, "watch")
    if rest[0] == "watch" and len(rest) > 1:
        is_watch, rest = True, rest[1:]
    namespace, plural, name, subresource = _resource(rest)
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
    )


def _group_and_rest(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
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
