"""Delegated authentication and authorization, for servers that are not the API server.

The API server that forwards a request presents a client certificate and names the user in request
headers; a ConfigMap has the authority of that certificate. Bearer tokens are checked by
TokenReview, and access is checked by SubjectAccessReview.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.client import Client

log = logging.getLogger(__name__)

_NAME, _NAMESPACE = "extension-apiserver-authentication", "kube-system"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALL_POWERFUL = "system:masters"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedUser:
    name: str
    groups: tuple[str, ...] = ()


class AccessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks to do: a verb on a resource, or on a path when `path` is set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refusal(self, user: str) -> str:
        """The message of an API server that forbids the request."""
        if self.path:
            return f'User "{user}" cannot {self.verb} path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'User "{user}" cannot {self.verb} resource "{self.qualified}" in API group "{self.group}" {where}'


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderAuth:
    """How the forwarding API server identifies itself and its users."""

    authority: str = ""
    """PEM of the authority of its client certificate; "" if request headers are not accepted."""
    names: tuple[str, ...] = ()
    """The accepted common names of its certificate; empty: any."""
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)


class DelegatedAuth:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.request_header = RequestHeaderAuth()

    async def read_request_header_auth(self) -> None:
        """Read the ConfigMap; without access to it only tokens are accepted."""
        try:
            config_map = await self._client.get(resources.CONFIG_MAP, _NAME, _NAMESPACE)
        except ApiError as error:
            log.debug("ConfigMap %s/%s cannot be read: %s; only tokens are accepted", _NAMESPACE, _NAME, error)
            return
        self.request_header = _request_header_auth(config_map.get("data") or {})

    async def user(self, peer: str | None, headers: Mapping[str, Sequence[str]]) -> AuthenticatedUser | None:
        """The user of a request; `peer` is the common name of the client certificate."""
        if peer is not None and (not self.request_header.names or peer in self.request_header.names):
            name = next(iter(_all(headers, self.request_header.user_headers)), "")
            if name:
                return AuthenticatedUser(name=name, groups=tuple(_all(headers, self.request_header.group_headers)))
        (authorization, *_) = [*_all(headers, ("Authorization",)), ""]
        scheme, _, token = authorization.partition(" ")
        return await self._bearer(token.strip()) if scheme.lower() == "bearer" and token else None

    async def _bearer(self, token: str) -> AuthenticatedUser | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._client.raw("POST", _TOKEN_REVIEWS, review)).get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        return AuthenticatedUser(name=user["username"], groups=tuple(user.get("groups") or ()))

    async def is_allowed(self, user: AuthenticatedUser, request: AccessRequest) -> bool:
        if _ALL_POWERFUL in user.groups:
            return True
        attributes: Object = {"verb": request.verb}
        if request.path:
            kind = "nonResourceAttributes"
            attributes["path"] = request.path
        else:
            kind = "resourceAttributes"
            for name in ("group", "resource", "subresource", "name"):
                attributes[name] = getattr(request, name)
            if request.namespace:
                attributes["namespace"] = request.namespace
        spec = {"user": user.name, "groups": list(user.groups), kind: attributes}
        review: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = (await self._client.raw("POST", _ACCESS_REVIEWS, review)).get("status") or {}
        return bool(status.get("allowed"))


def _request_header_auth(data: Mapping[str, str]) -> RequestHeaderAuth:
    default = RequestHeaderAuth()
    return RequestHeaderAuth(
        authority=data.get("requestheader-client-ca-file", ""),
        names=tuple(json.loads(data.get("requestheader-allowed-names") or "[]")),
        user_headers=tuple(json.loads(data.get("requestheader-username-headers") or "[]")) or default.user_headers,
        group_headers=tuple(json.loads(data.get("requestheader-group-headers") or "[]")) or default.group_headers,
    )


def _all(headers: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    lower = {name.lower() for name in names}
    return [value for name, values in headers.items() if name.lower() in lower for value in values]
