"""Privilege escalation check: a user can grant only permissions that the user has.

A guard of the HTTP application for writes of RBAC kinds. A dry run of the write shows its result.
"""

from typing import Any

from pykueue.api import errors, objects
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import ResourceTarget, UserInfo
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.apiserver.http.resources import Resources
from pykueue.apiserver.security import rules, tokens
from pykueue.apiserver.security.authorizer import GROUP, Authorizer
from pykueue.kube.delegation import AccessRequest

_WRITES = ("create", "update", "patch")


class Escalation:
    def __init__(self, authorizer: Authorizer, resources: Resources) -> None:
        self._authorizer = authorizer
        self._resources = resources

    async def guard(self, request: HttpRequest, target: ResourceTarget) -> None:
        is_rbac_write = target.kind.group == GROUP and request.route.verb in _WRITES
        if not is_rbac_write or tokens.MASTERS in request.user.groups:
            return
        obj = await self._resources.dry_run(request, target)
        if target.kind.kind in ("Role", "ClusterRole"):
            self._check_role(request.user, target, obj)
        else:
            self._check_binding(request.user, target, obj)

    def _check_role(self, user: UserInfo, target: ResourceTarget, role: Object) -> None:
        if self._may(user, "escalate", target, objects.name(role)):
            return
        self._check_covered(user, target, role, role.get("rules") or [])

    def _check_binding(self, user: UserInfo, target: ResourceTarget, binding: Object) -> None:
        role_ref = binding.get("roleRef") or {}
        plural = "clusterroles" if role_ref.get("kind") == "ClusterRole" else "roles"
        access = AccessRequest(
            verb="bind", group=GROUP, resource=plural, namespace=target.namespace, name=str(role_ref.get("name", ""))
        )
        if self._authorizer.allows(user, access):
            return
        role_rules = self._authorizer.role_rules(role_ref, target.namespace)
        if role_rules is None:
            raise errors.not_found(GROUP, plural, str(role_ref.get("name", "")))
        self._check_covered(user, target, binding, role_rules)

    def _may(self, user: UserInfo, verb: str, target: ResourceTarget, name: str) -> bool:
        access = AccessRequest(
            verb=verb, group=GROUP, resource=target.kind.plural, namespace=target.namespace, name=name
        )
        return self._authorizer.allows(user, access)

    def _check_covered(
        self, user: UserInfo, target: ResourceTarget, obj: Object, granted: list[dict[str, Any]]
    ) -> None:
        owned = self._authorizer.rules_of(user, target.namespace)
        if missing := rules.uncovered(owned, granted):
            groups = " ".join(f'"{group}"' for group in user.groups)
            permissions = "\n".join(sorted({_rule_text(access) for access in missing}))
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{permissions}"
            )
            raise errors.forbidden(GROUP, target.kind.plural, objects.name(obj), why)


def _rule_text(access: AccessRequest) -> str:
    if access.path:
        return f'{{NonResourceURLs:["{access.path}"], Verbs:["{access.verb}"]}}'
    names = f', ResourceNames:["{access.name}"]' if access.name else ""
    return f'{{APIGroups:["{access.group}"], Resources:["{access.qualified}"]{names}, Verbs:["{access.verb}"]}}'
