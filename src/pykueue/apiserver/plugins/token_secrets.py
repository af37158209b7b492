"""Writes tokens into Secrets of the type `kubernetes.io/service-account-token`.

In Kubernetes a controller does it after the write. Here the write does it, because then the token
can end with the user who requested it. The answer shows the token, so its user must have the
permission to get the Secret.
"""

import base64
from collections.abc import Callable, Sequence

from pykueue.api import objects
from pykueue.api.rules import reading
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver.admission import Mutator
from pykueue.apiserver.calls import UserInfo, WriteCall
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.kube.delegation import AccessRequest

TOKEN_SECRET = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret
_ACCOUNT = "kubernetes.io/service-account.name"
_ACCOUNT_UID = "kubernetes.io/service-account.uid"

IssueToken = Callable[[Object, str, UserInfo], tuple[str, str] | None]
"""The uid of the service account with this name, and its token, which is bound to the Secret; None
if there is no such account. The last argument is the user who requests it."""


class TokenSecrets:
    """The admission plugin, and its only mutator."""

    is_reinvocable = False

    def __init__(self, issue: IssueToken, authorizer: Authorizer, authority: Callable[[], bytes]) -> None:
        self._issue = issue
        self._authorizer = authorizer
        self._authority = authority

    def mutators(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Sequence[Mutator]:
        if kind.kind != "Secret" or kind.group or request.object.get("type") != TOKEN_SECRET:
            return ()
        return () if has_token(request.object) or not self._may_get(request.object, call.user) else (self,)

    def mutate(self, _kind: Kind, request: AdmissionRequest, call: WriteCall) -> Object | None:
        secret = request.object
        annotations = objects.annotations(secret)
        issued = self._issue(secret, annotations.get(_ACCOUNT, ""), call.user)
        if issued is None:
            return None
        uid, token = issued
        content = {
            "token": token.encode(),
            "ca.crt": self._authority(),
            "namespace": objects.namespace(secret).encode(),
        }
        data = {name: base64.b64encode(value).decode() for name, value in content.items()}
        metadata = secret["metadata"] | {"annotations": {**annotations, _ACCOUNT_UID: uid}}
        return secret | {"metadata": metadata, "data": reading.mapping(secret.get("data")) | data}

    def _may_get(self, secret: Object, user: UserInfo) -> bool:
        namespace, name = objects.namespace(secret), objects.name(secret)
        access = AccessRequest(verb="get", group="", resource="secrets", namespace=namespace, name=name)
        return self._authorizer.allows(user, access)


def has_token(secret: Object) -> bool:
    return bool(reading.mapping(secret.get("data")).get("token"))
