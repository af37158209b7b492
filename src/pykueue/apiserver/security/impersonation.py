"""Impersonation: requests as another user with `Impersonate-*` headers (`kubectl --as`)."""

import urllib.parse
from collections.abc import Iterator, Mapping

from pykueue.api import errors
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.security import tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.kube.delegation import AccessRequest

_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"

Headers = Mapping[str, list[str]]
"""Lower-case header names to all values."""


def effective_user(user: UserInfo, headers: Headers, authorizer: Authorizer) -> UserInfo:
    """The impersonated user; ApiError 403 if the real user may not impersonate it."""
    names = headers.get("impersonate-user", [])
    groups = headers.get("impersonate-group", [])
    uid = "".join(headers.get("impersonate-uid", [])[:1])
    extra = {
        urllib.parse.unquote(name.removeprefix(_EXTRA)): values
        for name, values in headers.items()
        if name.startswith(_EXTRA)
    }
    if not names:
        if groups or uid or extra:
            raise errors.bad_request("requested groups, uid or extra without impersonating a user")
        return user
    for access in _access_requests(names[0], groups, uid, extra):
        if not authorizer.allows(user, access):
            raise errors.forbidden(access.group, access.resource, access.name, access.refusal(user.name))
    return UserInfo(name=names[0], groups=_all_groups(names[0], groups), uid=uid, extra=extra)


def _access_requests(name: str, groups: list[str], uid: str, extra: Mapping[str, list[str]]) -> Iterator[AccessRequest]:
    if account := _service_account(name):
        yield AccessRequest(verb="impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield AccessRequest(verb="impersonate", resource="users", name=name)
    for group in groups:
        yield AccessRequest(verb="impersonate", resource="groups", name=group)
    if uid:
        yield AccessRequest(verb="impersonate", group="authentication.k8s.io", resource="uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield AccessRequest(
                verb="impersonate",
                group="authentication.k8s.io",
                resource="userextras",
                subresource=key,
                name=value,
            )


def _service_account(name: str) -> tuple[str, str] | None:
    namespace, separator, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(_SERVICE_ACCOUNT) and separator else None


def _all_groups(name: str, groups: list[str]) -> tuple[str, ...]:
    if name == "system:anonymous":
        return (*groups, "system:unauthenticated")
    if account := _service_account(name):
        own = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
        groups = [*(groups or own)]
    return tuple(dict.fromkeys((*groups, tokens.AUTHENTICATED)))
