"""Tokens of service accounts, for programs inside the cluster and `kubectl create token`.

A token is a JWT signed with a key of this cluster. It is valid until it expires or its account is
deleted. `request` serves the `serviceaccounts/token` subresource; `user` authenticates a token.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api import errors, times
from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.hooks import ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.security import files, tokens

TOKEN = ExtraResource(
    name="serviceaccounts/token",
    kind="TokenRequest",
    namespaced=True,
    verbs=("create",),
    kind_group="authentication.k8s.io",
    kind_version="v1",
)
ISSUER = "https://kubernetes.default.svc"
_SHORTEST_SECONDS = 600
_DEFAULT_SECONDS = 3600
_LONGEST_SECONDS = 366 * 24 * 3600
_HEADER = {"alg": "HS256", "typ": "JWT"}

UidOf = Callable[[str, str], str]
"""The uid of the service account of a namespace and name; "" if there is none."""


def signing_key(path: Path) -> bytes:
    """The signing key of this cluster, created on first use."""
    if not path.exists():
        files.write_private(path, secrets.token_bytes(32))
    return path.read_bytes()


class ServiceAccounts:
    def __init__(self, key: bytes, uid_of: UidOf) -> None:
        self._key = key
        self._uid_of = uid_of

    def user(self, token: str) -> UserInfo | None:
        """The user of a token; None if it is invalid, has expired, or its account was deleted."""
        claims = self._verified(token)
        if claims is None or not isinstance(claims.get("exp"), int) or claims["exp"] < time.time():
            return None
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        if self._uid_of(namespace, account["name"]) != account["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", tokens.AUTHENTICATED)
        return UserInfo(name=claims["sub"], uid=account["uid"], groups=groups)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Answer a TokenRequest."""
        if request.method != "POST":
            raise routes.method_not_allowed()
        namespace, name = request.route.namespace, request.route.name
        uid = self._uid_of(namespace, name)
        if not uid:
            raise errors.not_found("", "serviceaccounts", name)
        spec = reading.mapping(request.body.get("spec"))
        seconds = _lifetime(spec, name)
        now = int(time.time())
        claims: dict[str, Any] = {
            "aud": spec.get("audiences") or [ISSUER],
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": secrets.token_hex(16),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        status = {
            "token": self._signed(claims),
            "expirationTimestamp": times.from_ns(claims["exp"] * times.SECOND_NS),
        }
        token_request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": times.from_ns(time.time_ns())},
            "spec": {**spec, "audiences": claims["aud"], "expirationSeconds": seconds},
            "status": status,
        }
        return HttpResponse(status=201, body=token_request)

    def _signed(self, claims: dict[str, Any]) -> str:
        content = f"{_encoded(msgspec.json.encode(_HEADER))}.{_encoded(msgspec.json.encode(claims))}"
        return f"{content}.{_encoded(self._signature(content))}"

    def _signature(self, content: str) -> bytes:
        return hmac.new(self._key, content.encode(), hashlib.sha256).digest()

    def _verified(self, token: str) -> dict[str, Any] | None:
        content, _, signature = token.rpartition(".")
        if content.count(".") != 1 or not token.isascii():
            return None
        if not hmac.compare_digest(_encoded(self._signature(content)), signature):
            return None
        try:
            claims = msgspec.json.decode(_decoded(content.partition(".")[2]))
        except (msgspec.DecodeError, binascii.Error):
            return None
        return claims if isinstance(claims, dict) else None


def _lifetime(spec: dict[str, Any], name: str) -> int:
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _DEFAULT_SECONDS
    if not isinstance(seconds, int) or seconds < _SHORTEST_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        fault = FieldError("FieldValueInvalid", "spec.expirationSeconds", detail, seconds)
        raise errors.invalid("authentication.k8s.io", "TokenRequest", name, [fault])
    return min(seconds, _LONGEST_SECONDS)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
