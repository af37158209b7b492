"""Tokens of service accounts, for programs inside the cluster and `kubectl create token`.

A token is a JWT signed with a key of this cluster. It is valid for its audiences until it expires,
until its account, or the object that it is bound to, is deleted or created again, and until the
user who requested it is removed. `request` serves the `serviceaccounts/token` subresource;
`secret_token` issues the token of a Secret, which does not expire; `user` authenticates a token.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api import errors, objects, times
from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http.hooks import ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.security import files, tokens
from pykueue.apiserver.store.rows import Stored

TOKEN = ExtraResource(
    name="serviceaccounts/token",
    kind="TokenRequest",
    namespaced=True,
    verbs=("create",),
    kind_group="authentication.k8s.io",
    kind_version="v1",
)
ISSUER = "https://kubernetes.default.svc"
API_AUDIENCES = (ISSUER,)
"""The audiences of this API. A token for other audiences only is not valid here."""

_SHORTEST_SECONDS = 600
_DEFAULT_SECONDS = 3600
_LONGEST_SECONDS = 366 * 24 * 3600
_LARGEST_REQUEST_SECONDS = 2**32
_LEEWAY_SECONDS = 60
"""How long clocks may differ, and how long an object counts after its deletion is due."""
_BINDABLE = ("Pod", "Secret", "Node")
_EXTRA = "authentication.kubernetes.io/"
_REQUESTER = "pykueue.dev/requester-uid"
_HEADER = {"alg": "HS256", "typ": "JWT"}

GetObject = Callable[[str, str, str], Stored | None]
"""The object of the core group with this plural, namespace and name; None if there is none."""

IsUser = Callable[[str], bool]
"""Whether there is a user with this uid in the token file."""

Authenticated = tuple[UserInfo, tuple[str, ...]]
"""A user, and the audiences for which the token of the user is valid."""


class ClaimedObject(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str


class PrivateClaims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kubernetes' claims: the account, and the object that the token is bound to."""

    namespace: str
    account: ClaimedObject = msgspec.field(name="serviceaccount")
    pod: ClaimedObject | None = None
    secret: ClaimedObject | None = None
    node: ClaimedObject | None = None

    def bound_objects(self) -> Iterator[tuple[str, str, ClaimedObject]]:
        """Plural, namespace and reference."""
        if self.pod:
            yield "pods", self.namespace, self.pod
        if self.secret:
            yield "secrets", self.namespace, self.secret
        if self.node:
            yield "nodes", "", self.node


class Requester(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user of the token file who requested a token; its `uid` is "" for other users."""

    uid: str = ""


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    audiences: list[str] = msgspec.field(name="aud")
    end: int | msgspec.UnsetType = msgspec.field(name="exp", default=msgspec.UNSET)
    """Not set if the token does not expire."""
    issued_at: int = msgspec.field(name="iat", default=0)
    issuer: str = msgspec.field(name="iss", default=ISSUER)
    id: str = msgspec.field(name="jti", default="")
    private: PrivateClaims = msgspec.field(name="kubernetes.io")
    begin: int = msgspec.field(name="nbf")
    subject: str = msgspec.field(name="sub")
    requester: Requester = msgspec.field(name="pykueue.dev", default_factory=Requester)


def signing_key(path: Path) -> bytes:
    """The signing key of this cluster, created on first use."""
    if not path.exists():
        files.write_private(path, secrets.token_bytes(32))
    return path.read_bytes()


class ServiceAccounts:
    def __init__(self, key: bytes, get: GetObject, is_user: IsUser) -> None:
        self._key = key
        self._get = get
        self._is_user = is_user

    def user(self, token: str, audiences: tuple[str, ...] = API_AUDIENCES) -> Authenticated | None:
        """The user of a token, and those of `audiences` that it is for; None if it is invalid."""
        claims = self._verified(token)
        now = time.time()
        if claims is None or not claims.begin <= now + _LEEWAY_SECONDS:
            return None
        if claims.end is not msgspec.UNSET and claims.end < now:
            return None
        accepted = tuple(audience for audience in audiences if audience in claims.audiences)
        private = claims.private
        account = self._present("serviceaccounts", private.namespace, private.account)
        if not accepted or claims.issuer != ISSUER or account is None:
            return None
        if claims.requester.uid and not self._is_user(claims.requester.uid):
            return None
        extra: dict[str, list[str]] = {_EXTRA + "credential-id": [f"JTI={claims.id}"]}
        for plural, namespace, reference in private.bound_objects():
            if self._present(plural, namespace, reference) is None:
                return None
            extra[f"{_EXTRA}{plural[:-1]}-name"] = [reference.name]
            extra[f"{_EXTRA}{plural[:-1]}-uid"] = [reference.uid]
        if claims.requester.uid:
            extra[_REQUESTER] = [claims.requester.uid]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{private.namespace}", tokens.AUTHENTICATED)
        name = f"system:serviceaccount:{private.namespace}:{private.account.name}"
        return UserInfo(name=name, uid=private.account.uid, groups=groups, extra=extra), accepted

    def _present(self, plural: str, namespace: str, reference: ClaimedObject) -> Stored | None:
        """The object of a reference, unless it is another one or its deletion is overdue."""
        stored = self._get(plural, namespace, reference.name)
        if stored is None or stored.meta.uid != reference.uid:
            return None
        end = stored.meta.deletion_timestamp
        is_overdue = end is not None and times.to_ns(end) < (time.time() - _LEEWAY_SECONDS) * times.SECOND_NS
        return None if is_overdue else stored

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Answer a TokenRequest."""
        namespace, name, body = request.route.namespace, request.route.name, request.body
        account = self._get("serviceaccounts", namespace, name)
        if account is None:
            raise errors.not_found("", "serviceaccounts", name)
        _check_metadata(body, namespace, account)
        spec = reading.mapping(body.get("spec"))
        seconds, warnings = _lifetime(spec)
        audiences = reading.texts(spec.get("audiences")) or list(API_AUDIENCES)
        private = self._private_claims(reading.mapping(spec.get("boundObjectRef")), account)
        claims = self._claims(private, audiences, request.user)
        end = claims.begin + seconds
        token = self._signed(msgspec.structs.replace(claims, end=end))
        status = {"token": token, "expirationTimestamp": times.from_ns(end * times.SECOND_NS)}
        created = {"creationTimestamp": times.from_ns(time.time_ns()), "uid": account.meta.uid}
        token_request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, **created},
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": status,
        }
        return HttpResponse(status=201, body=token_request, warnings=warnings)

    def secret_token(self, secret: Object, name: str, user: UserInfo) -> tuple[str, str] | None:
        """The uid of the account, and its token for as long as the Secret exists."""
        account = self._get("serviceaccounts", objects.namespace(secret), name)
        if account is None:
            return None
        private = PrivateClaims(
            namespace=account.key.namespace,
            account=ClaimedObject(name=name, uid=account.meta.uid),
            secret=ClaimedObject(name=objects.name(secret), uid=objects.uid(secret)),
        )
        return account.meta.uid, self._signed(self._claims(private, list(API_AUDIENCES), user))

    def _claims(self, private: PrivateClaims, audiences: list[str], user: UserInfo) -> Claims:
        now = int(time.time())
        return Claims(
            audiences=audiences,
            begin=now,
            issued_at=now,
            id=str(uuid.uuid4()),
            subject=f"system:serviceaccount:{private.namespace}:{private.account.name}",
            private=private,
            requester=_requester(user, is_user=self._is_user),
        )

    def _private_claims(self, reference: dict[str, Any], account: Stored) -> PrivateClaims:
        """The claims about the account and the object that a token is bound to."""
        claims = PrivateClaims(
            namespace=account.key.namespace, account=ClaimedObject(name=account.key.name, uid=account.meta.uid)
        )
        if not reference:
            return claims
        kind, name = (reading.text(reference.get(field)) for field in ("kind", "name"))
        if kind not in _BINDABLE or reading.text(reference.get("apiVersion")) not in ("", "v1"):
            group_kind = f"{reading.text(reference.get('apiVersion')) or 'v1'}, Kind={kind}"
            raise errors.bad_request(f"cannot bind token to object of type {group_kind}")
        plural = f"{kind.lower()}s"
        stored = self._get(plural, "" if kind == "Node" else claims.namespace, name)
        if stored is None:
            raise errors.not_found("", plural, name)
        bound = ClaimedObject(name=name, uid=stored.meta.uid)
        if reference.get("uid") and reference["uid"] != bound.uid:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict("", kind, name, why)
        pod_account = objects.spec(stored.decode()).get("serviceAccountName") if kind == "Pod" else account.key.name
        if pod_account != account.key.name:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{account.key.name}" to pod running with different '
                "serviceaccount name."
            )
        return msgspec.structs.replace(claims, **{kind.lower(): bound})

    def _signed(self, claims: Claims) -> str:
        content = f"{_encoded(msgspec.json.encode(_HEADER))}.{_encoded(msgspec.json.encode(claims))}"
        return f"{content}.{_encoded(self._signature(content))}"

    def _signature(self, content: str) -> bytes:
        return hmac.new(self._key, content.encode(), hashlib.sha256).digest()

    def _verified(self, token: str) -> Claims | None:
        content, _, signature = token.rpartition(".")
        if content.count(".") != 1 or not token.isascii():
            return None
        if not hmac.compare_digest(_encoded(self._signature(content)), signature):
            return None
        try:
            return msgspec.json.decode(_decoded(content.partition(".")[2]), type=Claims)
        except (msgspec.DecodeError, binascii.Error):
            return None


def _lifetime(spec: dict[str, Any]) -> tuple[int, tuple[str, ...]]:
    """The seconds that a token is valid, and the warning if they are fewer than requested."""
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _DEFAULT_SECONDS, ()
    detail = ""
    if not isinstance(seconds, int) or seconds < _SHORTEST_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
    elif seconds > _LARGEST_REQUEST_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        raise _invalid_request(FieldError("FieldValueInvalid", "spec.expirationSeconds", detail, seconds))
    if seconds <= _LONGEST_SECONDS:
        return seconds, ()
    return _LONGEST_SECONDS, (f"requested expiration of {seconds} seconds shortened to {_LONGEST_SECONDS} seconds",)


def _check_metadata(body: dict[str, Any], namespace: str, account: Stored) -> None:
    """Name, namespace and uid of the body, if they are set, must be those of the account."""
    metadata = reading.mapping(body.get("metadata"))
    for field, expected in (("name", account.key.name), ("namespace", namespace)):
        if metadata.get(field) and metadata[field] != expected:
            detail = f"must match the service account {field} if specified"
            raise _invalid_request(FieldError("FieldValueInvalid", f"metadata.{field}", detail, metadata[field]))
    if metadata.get("uid") and metadata["uid"] != account.meta.uid:
        why = (
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
            f"({account.meta.uid})"
        )
        raise errors.conflict("authentication.k8s.io", "TokenRequest", account.key.name, why)


def _invalid_request(error: FieldError) -> errors.ApiError:
    return errors.invalid("authentication.k8s.io", "TokenRequest", "", [error])


def _requester(user: UserInfo, *, is_user: IsUser) -> Requester:
    """The user who requests a token, or who requested the token of a service account that does."""
    inherited = [*user.extra.get(_REQUESTER, ())]
    if inherited and user.name.startswith("system:serviceaccount:"):
        return Requester(uid=inherited[0])
    return Requester(uid=user.uid if is_user(user.uid) else "")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
