"""Nobody hands on more rights than he has: roles and bindings are checked against the rights of who writes them.

A guard of the HTTP application, for writes of RBAC kinds. What a patch leads to is learnt from a dry run of it.
"""

from typing import Any

from pykueue.api import errors
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import Target, User
from pykueue.apiserver.http.exchange import Incoming
from pykueue.apiserver.http.resources import Resources
from pykueue.apiserver.security import rules, tokens
from pykueue.apiserver.security.authorizer import GROUP, Authorizer
from pykueue.apiserver.security.rules import AccessRequest

_WRITES = ("create", "update", "patch")


class Escalation:
    def __init__(self, authorizer: Authorizer, resources: Resources) -> None:
        self._authorizer = authorizer
        self._resources = resources

    async def guard(self, request: Incoming, target: Target) -> None:
        is_ours = target.kind.group == GROUP and request.route.verb in _WRITES
        if not is_ours or tokens.MASTERS in request.user.groups:
            return
        outcome = await self._resources.outcome(request, target)
        if target.kind.kind in ("Role", "ClusterRole"):
            self._check_role(request.user, target, outcome)
        else:
            self._check_binding(request.user, target, outcome)

    def _check_role(self, user: User, target: Target, role: Object) -> None:
        if self._may(user, "escalate", target, _name(role)):
            return
        self._refuse_more_than_owned(user, target, role, role.get("rules") or [])

    def _check_binding(self, user: User, target: Target, binding: Object) -> None:
        role_ref = binding.get("roleRef") or {}
        plural = "clusterroles" if role_ref.get("kind") == "ClusterRole" else "roles"
        ask = AccessRequest(
            verb="bind", group=GROUP, resource=plural, namespace=target.namespace, name=str(role_ref.get("name", ""))
        )
        if self._authorizer.allows(user, ask):
            return
        wanted = self._authorizer.role_rules(role_ref, target.namespace)
        if wanted is None:
            raise errors.not_found(GROUP, plural, str(role_ref.get("name", "")))
        self._refuse_more_than_owned(user, target, binding, wanted)

    def _may(self, user: User, verb: str, target: Target, name: str) -> bool:
        ask = AccessRequest(verb=verb, group=GROUP, resource=target.kind.plural, namespace=target.namespace, name=name)
        return self._authorizer.allows(user, ask)

    def _refuse_more_than_owned(self, user: User, target: Target, obj: Object, wanted: list[dict[str, Any]]) -> None:
        owned = self._authorizer.rules_of(user, target.namespace)
        if extra := rules.uncovered(owned, wanted):
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(sorted({_shown(ask) for ask in extra}))
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{listed}"
            )
            raise errors.forbidden(GROUP, target.kind.plural, _name(obj), why)


def _name(obj: Object) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def _shown(ask: AccessRequest) -> str:
    if ask.path:
        return f'{{NonResourceURLs:["{ask.path}"], Verbs:["{ask.verb}"]}}'
    names = f', ResourceNames:["{ask.name}"]' if ask.name else ""
    return f'{{APIGroups:["{ask.group}"], Resources:["{ask.qualified}"]{names}, Verbs:["{ask.verb}"]}}'
