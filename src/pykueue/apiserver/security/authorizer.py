"""The RBAC authorizer, called for every request. It keeps roles and bindings in memory.

`watch` subscribes to the four RBAC kinds. After that, a decision reflects every acknowledged
write. Members of `system:masters` may do everything, as in Kubernetes.
"""

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
_BINDINGS = ("rolebindings", "clusterrolebindings")
_CACHED_USERS = 10_000

Subject = tuple[str, str]
"""("User" or "Group", its name); a service account is the user of that name."""


class Authorizer:
    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], Object]] = {plural: {} for plural in _PLURALS}
        self._bindings: dict[str, dict[Subject, dict[str, Object]]] = {}
        """Bindings by namespace ("" for cluster role bindings), subject and name."""
        self._rules: dict[str, dict[tuple[str, tuple[str, ...]], list[Rule]]] = {}
        """The rules that were collected, by namespace and user."""

    async def watch(self, verbs: Verbs, scheme: Scheme) -> list[Subscription]:
        subscriptions = []
        for plural in _PLURALS:
            kind = scheme.for_path(GROUP, "v1", plural)
            assert kind is not None, f"{plural} must be registered"
            subscriptions.append(await verbs.watch(ResourceTarget(kind=kind), WatchCall(), _RbacSink(self, plural)))
        return subscriptions

    def observe(self, plural: str, event: str, obj: Object) -> None:
        """Note a change. It costs what the changed object has, not what there is elsewhere."""
        namespace, name = objects.namespace(obj), objects.name(obj)
        before = self._objects[plural].pop((namespace, name), None)
        if event != "DELETED":
            self._objects[plural][namespace, name] = obj
        if plural in _BINDINGS:
            self._index(namespace, before, None if event == "DELETED" else obj)
        if namespace:
            self._rules.pop(namespace, None)
        else:
            self._rules.clear()

    def _index(self, namespace: str, before: Object | None, now: Object | None) -> None:
        bindings = self._bindings.setdefault(namespace, {})
        for subject in _subjects(before, namespace):
            named = bindings.get(subject, {})
            named.pop(objects.name(before or {}), None)
            if not named:
                bindings.pop(subject, None)
        for subject in _subjects(now, namespace):
            bindings.setdefault(subject, {})[objects.name(now or {})] = now or {}
        if not bindings:
            del self._bindings[namespace]

    def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        if tokens.MASTERS in user.groups:
            return True
        return rules.allow(self.rules_of(user, access.namespace), access)

    def rules_of(self, user: UserInfo, namespace: str = "") -> list[Rule]:
        """All rules of the user in a namespace. "" means cluster-wide rules only."""
        key = (user.name, user.groups)
        user_rules = self._rules.get(namespace, {}).get(key)
        if user_rules is None:
            if sum(map(len, self._rules.values())) >= _CACHED_USERS:
                self._rules.clear()
            user_rules = list(self._collect(user, namespace))
            self._rules.setdefault(namespace, {})[key] = user_rules
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
        subjects: list[Subject] = [("User", user.name), *(("Group", group) for group in user.groups)]
        for where in ("", namespace) if namespace else ("",):
            bindings = self._bindings.get(where, {})
            for subject in subjects:
                for binding in bindings.get(subject, {}).values():
                    yield from self.role_rules(binding.get("roleRef", {}), where) or ()


def _subjects(binding: Object | None, namespace: str) -> Iterable[Subject]:
    for subject in (binding or {}).get("subjects") or ():
        yield _subject(subject, namespace)


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
