"""Access and token reviews, which are computed and not stored (`kubectl auth can-i`, `whoami`)."""

from collections.abc import Callable

from pykueue.api import errors
from pykueue.api.rules import reading
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import negotiation
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.service_accounts import API_AUDIENCES, Authenticated
from pykueue.apiserver.security import tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.kube.delegation import AccessRequest

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"

AuthenticateFor = Callable[[str, tuple[str, ...]], Authenticated | None]
"""The user of a token, and those of the audiences that it is valid for; None if there are none."""


def groups(authorizer: Authorizer, authenticate: AuthenticateFor) -> list[ExtraGroup]:
    reviews = Reviews(authorizer, authenticate)
    authorization = (
        _review("LocalSubjectAccessReview", namespaced=True),
        _review("SelfSubjectAccessReview"),
        _review("SelfSubjectRulesReview"),
        _review("SubjectAccessReview"),
    )
    authentication = (_review("SelfSubjectReview"), _review("TokenReview"))
    return [
        ExtraGroup(group=AUTHORIZATION, version="v1", resources=authorization, handler=reviews.handle),
        ExtraGroup(group=AUTHENTICATION, version="v1", resources=authentication, handler=reviews.handle),
    ]


def _review(kind: str, *, namespaced: bool = False) -> ExtraResource:
    name = kind.lower()
    return ExtraResource(name=f"{name}s", kind=kind, namespaced=namespaced, verbs=("create",), singular=name)


class Reviews:
    def __init__(self, authorizer: Authorizer, authenticate: AuthenticateFor) -> None:
        self._authorizer = authorizer
        self._authenticate = authenticate

    async def handle(self, request: HttpRequest) -> HttpResponse:
        handlers = {
            "localsubjectaccessreviews": self._local_subject_access,
            "selfsubjectaccessreviews": self._self_access,
            "selfsubjectrulesreviews": self._self_rules,
            "subjectaccessreviews": self._subject_access,
            "selfsubjectreviews": self._self,
            "tokenreviews": self._token,
        }
        negotiation.check_plain(request.accept)
        kinds = {f"{kind.lower()}s": kind for kind in _KINDS}
        spec = reading.mapping(request.body.get("spec"))
        status = handlers[request.route.plural](request, spec)
        review = {
            "kind": kinds[request.route.plural],
            "apiVersion": f"{request.route.group}/{request.route.version}",
            "metadata": {"creationTimestamp": None},
            "spec": spec,
            "status": status,
        }
        return HttpResponse(status=201, body=review)

    def _self_access(self, request: HttpRequest, spec: Object) -> Object:
        return self._decide(request.user, spec)

    def _local_subject_access(self, request: HttpRequest, spec: Object) -> Object:
        """A review about the namespace of the path alone."""
        namespace = request.route.namespace
        if not isinstance(spec.get("resourceAttributes"), dict) or spec.get("nonResourceAttributes") is not None:
            raise errors.bad_request("a LocalSubjectAccessReview needs spec.resourceAttributes and no other attributes")
        if spec["resourceAttributes"].get("namespace") != namespace:
            raise errors.bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        return self._subject_access(request, spec)

    def _subject_access(self, _request: HttpRequest, spec: Object) -> Object:
        if not spec.get("user") and not spec.get("groups"):
            raise errors.bad_request("at least one of user or groups must be specified")
        user = UserInfo(name=str(spec.get("user") or ""), groups=tuple(map(str, reading.sequence(spec.get("groups")))))
        return self._decide(user, spec)

    def _decide(self, user: UserInfo, spec: Object) -> Object:
        if self._authorizer.allows(user, _access_request(spec)):
            return {"allowed": True, "reason": "RBAC: allowed by a role bound to the user"}
        return {"allowed": False}

    def _self_rules(self, request: HttpRequest, spec: Object) -> Object:
        namespace = spec.get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        if tokens.MASTERS in request.user.groups:
            return {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        rules = self._authorizer.rules_of(request.user, str(namespace))
        return {
            "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }

    def _self(self, request: HttpRequest, _spec: Object) -> Object:
        return {"userInfo": _user_info(request.user)}

    def _token(self, _request: HttpRequest, spec: Object) -> Object:
        """The user of a token, and those of the requested audiences that the token is for."""
        audiences = tuple(map(str, reading.sequence(spec.get("audiences"))))
        result = self._authenticate(str(spec.get("token") or ""), audiences or API_AUDIENCES)
        if result is None:
            return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
        user, accepted = result
        return {"authenticated": True, "user": _user_info(user), "audiences": list(accepted)}


_KINDS = (
    "LocalSubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
    "SelfSubjectReview",
    "TokenReview",
)


def _access_request(spec: Object) -> AccessRequest:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) == isinstance(path, dict):
        raise errors.bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if isinstance(path, dict):
        return AccessRequest(verb=str(path.get("verb", "")), path=str(path.get("path", "")) or "/")
    assert isinstance(resource, dict)
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return AccessRequest(**{name: str(resource.get(name) or "") for name in names})


def _user_info(user: UserInfo) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
