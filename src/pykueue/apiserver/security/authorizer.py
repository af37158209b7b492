"""The RBAC authorizer, called for every request. It keeps roles and bindings in memory.

`watch` subscribes to the four RBAC kinds. After that, a decision reflects every acknowledged
write. Members of `system:masters` may do everything, as in Kubernetes.
"""

from collections import defaultdict
from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object, Scheme
from pykueue.apiserver.calls import (
    ResourceTarget,
    Sink,
    Subscription,
    UserInfo,
    Verbs,
    WatchCall,
    WatchFrame,
)
from pykueue.apiserver.security import rules, tokens
from pykueue.apiserver.security.rules import Rule
from pykueue.kube.delegation import AccessRequest

GROUP = "rbac.authorization.k8s.io"
_PLURALS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
_CACHED_USERS = 10_000

Subject = tuple[str, str]
"""("User" or "Group", its name); a service account is the user of that name."""


class Authorizer:
    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], Object]] = {plural: {} for plural in _PLURALS}
        self._bindings: dict[str, dict[Subject, list[Object]]] | None = None
        self._rules: dict[tuple[str, tuple[str, ...], str], list[Rule]] = {}

    async def watch(self, verbs: Verbs, scheme: Scheme) -> list[Subscription]:
        subscriptions = []
        for plural in _PLURALS:
            kind = scheme.for_path(GROUP, "v1", plural)
            assert kind is not None, f"{plural} must be registered"
            subscriptions.append(await verbs.watch(ResourceTarget(kind=kind), WatchCall(), _RbacSink(self, plural)))
        return subscriptions

    def observe(self, plural: str, event: str, obj: Object) -> None:
        key = (objects.namespace(obj), objects.name(obj))
        if event == "DELETED":
            self._objects[plural].pop(key, None)
        else:
            self._objects[plural][key] = obj
        self._bindings = None
        self._rules.clear()

    def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        if tokens.MASTERS in user.groups:
            return True
        return rules.allow(self.rules_of(user, access.namespace), access)

    def rules_of(self, user: UserInfo, namespace: str = "") -> list[Rule]:
        """All rules of the user in a namespace. "" means cluster-wide rules only."""
        key = (user.name, user.groups, namespace)
        user_rules = self._rules.get(key)
        if user_rules is None:
            if len(self._rules) >= _CACHED_USERS:
                self._rules.clear()
            user_rules = self._rules[key] = list(self._collect(user, namespace))
        return user_rules

    def role_rules(self, role_ref: Object, namespace: str) -> list[Rule] | None:
        """The rules of the role of a binding; None if the role does not exist."""
        is_cluster_role = role_ref.get("kind") == "ClusterRole"
        plural, role_namespace = ("clusterroles", "") if is_cluster_role else ("roles", namespace)
        role = self._objects[plural].get((role_namespace, role_ref.get("name", "")))
        return None if role is None else (role.get("rules") or [])

    def cluster_roles(self) -> Iterable[Object]:
        return self._objects["clusterroles"].values()

    def _collect(self, user: UserInfo, namespace: str) -> Iterable[Rule]:
        by_namespace = self._by_namespace()
        subjects: list[Subject] = [("User", user.name), *(("Group", group) for group in user.groups)]
        for where in ("", namespace) if namespace else ("",):
            bindings = by_namespace.get(where, {})
            for subject in subjects:
                for binding in bindings.get(subject, ()):
                    yield from self.role_rules(binding.get("roleRef", {}), where) or ()

    def _by_namespace(self) -> dict[str, dict[Subject, list[Object]]]:
        """Bindings by namespace ("" for cluster role bindings) and subject."""
        if self._bindings is None:
            self._bindings = defaultdict(lambda: defaultdict(list))
            for plural in ("clusterrolebindings", "rolebindings"):
                for (namespace, _), binding in self._objects[plural].items():
                    for subject in binding.get("subjects") or ():
                        self._bindings[namespace][_subject(subject, namespace)].append(binding)
        return self._bindings


def _subject(subject: Object, namespace: str) -> Subject:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        return ("User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}")
    return (subject.get("kind", ""), name)


class _RbacSink(Sink):
    """A sink that passes every event of one RBAC kind to the authorizer."""

    def __init__(self, authorizer: Authorizer, plural: str) -> None:
        self._authorizer = authorizer
        self._plural = plural

    def send(self, frame: WatchFrame) -> None:
        if frame.type in ("ADDED", "MODIFIED", "DELETED"):
            self._authorizer.observe(self._plural, frame.type, frame.decode())

    def close(self) -> None:
        """The server stops. The authorizer keeps its copies."""
