"""RBAC rules as values: does a list of PolicyRules allow what is asked, or cover another list?

Pure functions on the `rules` of Role and ClusterRole objects. Called by the authorizer and by the escalation check.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

Rule = dict[str, Any]
ALL = "*"


class AccessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question: may this verb be used on this resource, or on this path when `path` is set?"""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refusal(self, user: str) -> str:
        """Why not, in the words of an API server."""
        if self.path:
            return f'User "{user}" cannot {self.verb} path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'User "{user}" cannot {self.verb} resource "{self.qualified}" in API group "{self.group}" {where}'


def allow(rules: Iterable[Rule], ask: AccessRequest) -> bool:
    matches = _matches_path if ask.path else _matches_resource
    return any(_has(rule, "verbs", ask.verb) and matches(rule, ask) for rule in rules)


def _has(rule: Rule, field: str, wanted: str) -> bool:
    values: Sequence[str] = rule.get(field) or ()
    return ALL in values or wanted in values


def _matches_path(rule: Rule, ask: AccessRequest) -> bool:
    for pattern in rule.get("nonResourceURLs") or ():
        if pattern in (ALL, ask.path):
            return True
        if pattern.endswith(ALL) and ask.path.startswith(pattern[:-1]):
            return True
    return False


def _matches_resource(rule: Rule, ask: AccessRequest) -> bool:
    if not _has(rule, "apiGroups", ask.group) or not _matches_kind(rule, ask):
        return False
    names = rule.get("resourceNames")
    return not names or ask.name in names


def _matches_kind(rule: Rule, ask: AccessRequest) -> bool:
    resources = rule.get("resources") or ()
    if ALL in resources or ask.qualified in resources:
        return True
    return bool(ask.subresource) and f"{ALL}/{ask.subresource}" in resources


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[AccessRequest]:
    """The parts of `wanted` that `owned` does not allow: what a user may not hand on."""
    return [ask for rule in wanted for ask in _parts(rule) if not allow(owned, ask)]


def _parts(rule: Rule) -> Iterable[AccessRequest]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield AccessRequest(verb=verb, path=path)
        for group in rule.get("apiGroups") or ():
            for qualified in rule.get("resources") or ():
                resource, _, subresource = qualified.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield AccessRequest(verb=verb, group=group, resource=resource, subresource=subresource, name=name)
