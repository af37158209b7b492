"""Permissions of a write that RBAC alone cannot decide.

A user can grant only permissions that the user has: by the rules of a role, by a role that a
binding names, or by an aggregation rule, which can gather anything. An applied configuration that
creates its object also needs the permission to create it.
"""

from pykueue.api import errors, objects
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver.calls import UserInfo, WriteCall
from pykueue.apiserver.security import rules, tokens
from pykueue.apiserver.security.authorizer import GROUP, Authorizer
from pykueue.kube.delegation import AccessRequest

_FULL_AUTHORITY = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
_FIELDS_OF_GARBAGE_COLLECTION = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class Escalation:
    """Kubernetes' checks of RBAC writes, and of the verb of a write that creates."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> list[str]:
        if tokens.MASTERS in call.user.groups:
            return []
        if request.old is None:
            self._check_may_create(kind, request.object, call.user)
        if kind.group == GROUP and not _changes_only_garbage_collection(request):
            if kind.kind in ("Role", "ClusterRole"):
                self._check_role(kind, request, call.user)
            else:
                self._check_binding(kind, request.object, call.user)
        return []

    def _check_may_create(self, kind: Kind, obj: Object, user: UserInfo) -> None:
        access = AccessRequest(
            verb="create",
            group=kind.group,
            resource=kind.plural,
            namespace=objects.namespace(obj),
            name=objects.name(obj),
        )
        unnamed = AccessRequest(verb="create", group=kind.group, resource=kind.plural, namespace=objects.namespace(obj))
        if not any(self._authorizer.allows(user, request) for request in (access, unnamed)):
            raise errors.forbidden(kind.group, kind.plural, access.name, access.refusal(user.name))

    def _check_role(self, kind: Kind, request: AdmissionRequest, user: UserInfo) -> None:
        role = request.object
        access = AccessRequest(
            verb="escalate",
            group=GROUP,
            resource=kind.plural,
            namespace=objects.namespace(role),
            name=objects.name(role) if request.old is not None else "",
        )
        if self._authorizer.allows(user, access):
            return
        self._check_covered(kind, role, role.get("rules") or [], user)
        if any(_has_aggregation_rule(version) for version in (role, request.old or {})):
            owned = self._authorizer.rules_of(user, objects.namespace(role))
            if rules.uncovered(owned, _FULL_AUTHORITY):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(GROUP, kind.plural, objects.name(role), why)

    def _check_binding(self, kind: Kind, binding: Object, user: UserInfo) -> None:
        role_ref, namespace = binding.get("roleRef") or {}, objects.namespace(binding)
        plural = "clusterroles" if role_ref.get("kind") == "ClusterRole" else "roles"
        name = str(role_ref.get("name", ""))
        access = AccessRequest(verb="bind", group=GROUP, resource=plural, namespace=namespace, name=name)
        if self._authorizer.allows(user, access):
            return
        role_rules = self._authorizer.role_rules(role_ref, namespace)
        if role_rules is None:
            raise errors.not_found(GROUP, plural, name)
        self._check_covered(kind, binding, role_rules, user)

    def _check_covered(self, kind: Kind, obj: Object, granted: list[rules.Rule], user: UserInfo) -> None:
        owned = self._authorizer.rules_of(user, objects.namespace(obj))
        if missing := rules.uncovered(owned, granted):
            groups = " ".join(f'"{group}"' for group in user.groups)
            permissions = "\n".join(sorted({_rule_text(access) for access in missing}))
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{permissions}"
            )
            raise errors.forbidden(GROUP, kind.plural, objects.name(obj), why)


def _has_aggregation_rule(role: Object) -> bool:
    return bool(objects.nested_list(role, "aggregationRule", "clusterRoleSelectors"))


def _changes_only_garbage_collection(request: AdmissionRequest) -> bool:
    """Whether only fields change that the garbage collector must be able to change."""
    if request.old is None:
        return False
    before, after = (_without_garbage_collection(version) for version in (request.old, request.object))
    return before == after


def _without_garbage_collection(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _FIELDS_OF_GARBAGE_COLLECTION}
    return {**obj, "metadata": metadata}


def _rule_text(access: AccessRequest) -> str:
    if access.path:
        return f'{{NonResourceURLs:["{access.path}"], Verbs:["{access.verb}"]}}'
    names = f', ResourceNames:["{access.name}"]' if access.name else ""
    return f'{{APIGroups:["{access.group}"], Resources:["{access.qualified}"]{names}, Verbs:["{access.verb}"]}}'
