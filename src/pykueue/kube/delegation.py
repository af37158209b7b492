"""Who asks, and may they? As an extension of another API server finds out: that one vouches for users, or judges tokens, and decides.

The API server that passes requests on shows a certificate of its own and names the user in headers; which authority signed
it stands in a ConfigMap. Used by servers that clusters reach by an APIService.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.client import Client

log = logging.getLogger(__name__)

_CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
_NAME, _NAMESPACE = "extension-apiserver-authentication", "kube-system"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALL_POWERFUL = "system:masters"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants to read."""

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderAuth:
    """How the other API server shows itself, and names users."""

    authority: str = ""
    """PEM; "" if it vouches for nobody."""
    names: tuple[str, ...] = ()
    """Common names of its certificate; empty: any."""
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)


class Delegation:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.vouching = RequestHeaderAuth()

    async def learn(self) -> None:
        """Who vouches for users; without the right to know, only tokens count."""
        try:
            found = await self._client.get(_CONFIG_MAP, _NAME, _NAMESPACE)
        except ApiError as error:
            log.debug("ConfigMap %s/%s cannot be read: %s; only tokens are accepted", _NAMESPACE, _NAME, error)
            return
        self.vouching = _vouching(found.get("data") or {})

    async def user(self, peer: str | None, headers: Mapping[str, Sequence[str]]) -> User | None:
        """`peer` is the common name of the certificate that the connection was opened with, if any. None: unknown."""
        if peer is not None and (not self.vouching.names or peer in self.vouching.names):
            name = next(iter(_all(headers, self.vouching.user_headers)), "")
            if name:
                return User(name=name, groups=tuple(_all(headers, self.vouching.group_headers)))
        (authorization, *_) = [*_all(headers, ("Authorization",)), ""]
        scheme, _, token = authorization.partition(" ")
        return await self._bearer(token.strip()) if scheme.lower() == "bearer" and token else None

    async def _bearer(self, token: str) -> User | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._client.raw("POST", _TOKEN_REVIEWS, review)).get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        return User(name=user["username"], groups=tuple(user.get("groups") or ()))

    async def may_read(self, user: User, wish: Wish) -> bool:
        if _ALL_POWERFUL in user.groups:
            return True
        attributes = {
            "verb": "get",
            "group": wish.group,
            "resource": wish.resource,
            "subresource": wish.subresource,
            "name": wish.name,
            **({"namespace": wish.namespace} if wish.namespace else {}),
        }
        spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
        review: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = (await self._client.raw("POST", _ACCESS_REVIEWS, review)).get("status") or {}
        return bool(status.get("allowed"))


def _vouching(data: Mapping[str, str]) -> RequestHeaderAuth:
    usual = RequestHeaderAuth()
    return RequestHeaderAuth(
        authority=data.get("requestheader-client-ca-file", ""),
        names=tuple(json.loads(data.get("requestheader-allowed-names") or "[]")),
        user_headers=tuple(json.loads(data.get("requestheader-username-headers") or "[]")) or usual.user_headers,
        group_headers=tuple(json.loads(data.get("requestheader-group-headers") or "[]")) or usual.group_headers,
    )


def _all(headers: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    wanted = {name.lower() for name in names}
    return [value for name, values in headers.items() if name.lower() in wanted for value in values]
