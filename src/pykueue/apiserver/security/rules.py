"""RBAC PolicyRules: whether a list of rules allows an access request or covers other rules.

Pure functions on the `rules` of Role and ClusterRole objects, for the authorizer and the check of
privilege escalation.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pykueue.kube.delegation import AccessRequest

Rule = dict[str, Any]
ALL = "*"


def allow(rules: Iterable[Rule], access: AccessRequest) -> bool:
    matches = _matches_path if access.path else _matches_resource
    return any(_has(rule, "verbs", access.verb) and matches(rule, access) for rule in rules)


def _has(rule: Rule, field: str, value: str) -> bool:
    values: Sequence[str] = rule.get(field) or ()
    return ALL in values or value in values


def _matches_path(rule: Rule, access: AccessRequest) -> bool:
    for pattern in rule.get("nonResourceURLs") or ():
        if pattern in (ALL, access.path):
            return True
        if pattern.endswith(ALL) and access.path.startswith(pattern[:-1]):
            return True
    return False


def _matches_resource(rule: Rule, access: AccessRequest) -> bool:
    if not _has(rule, "apiGroups", access.group) or not _matches_kind(rule, access):
        return False
    names = rule.get("resourceNames")
    return not names or access.name in names


def _matches_kind(rule: Rule, access: AccessRequest) -> bool:
    resources = rule.get("resources") or ()
    if ALL in resources or access.qualified in resources:
        return True
    return bool(access.subresource) and f"{ALL}/{access.subresource}" in resources


def uncovered(owned: Sequence[Rule], granted: Iterable[Rule]) -> list[AccessRequest]:
    """The permissions of `granted` that `owned` does not include.

    A granted rule without resourceNames means all objects, which is more than any list of names.
    """
    return [
        access
        for rule in granted
        for access in _access_requests(rule)
        if not any(_covers(own, access, has_names=bool(rule.get("resourceNames"))) for own in owned)
    ]


def _covers(rule: Rule, access: AccessRequest, *, has_names: bool) -> bool:
    return allow([rule], access) and (bool(access.path) or has_names or not rule.get("resourceNames"))


def _access_requests(rule: Rule) -> Iterable[AccessRequest]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield AccessRequest(verb=verb, path=path)
        for group in rule.get("apiGroups") or ():
            for qualified in rule.get("resources") or ():
                resource, _, subresource = qualified.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield AccessRequest(verb=verb, group=group, resource=resource, subresource=subresource, name=name)
