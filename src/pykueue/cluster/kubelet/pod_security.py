"""Who a pod runs as: this server's user, or a Unix user of the pod's namespace.

A namespace that only the administrator may write to is the administrator's own: its pods run as
this server's user, with the administrator's files. As soon as a role binding lets anybody else
write there, its pods have a Unix user of their own. They keep it when the binding is gone, because
what others have written there (jobs, templates, scripts) is still there.
"""

from collections.abc import Iterable
from pathlib import Path

from pykueue.api import objects, resources
from pykueue.api.scheme import Object, Resource
from pykueue.cluster.kubelet import security_context
from pykueue.cluster.kubelet.environment import MissingSourceError
from pykueue.cluster.kubelet.security_context import RefusedFieldError
from pykueue.cluster.runtimes.isolation import Isolation
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser
from pykueue.cluster.runtimes.unix_users import NamespaceUsers
from pykueue.kube.controller.cache import ObjectCache

_GROUP = "rbac.authorization.k8s.io"
_ROLE_BINDING = Resource(_GROUP, "v1", "rolebindings", "RoleBinding", namespaced=True)
_CLUSTER_ROLE_BINDING = Resource(_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ROLE = Resource(_GROUP, "v1", "roles", "Role", namespaced=True)
_CLUSTER_ROLE = Resource(_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
_READING_VERBS = frozenset({"get", "list", "watch"})
_MASTERS = "system:masters"
_BOOTSTRAP_LABEL = "kubernetes.io/bootstrapping"


class PodSecurity:
    def __init__(self, cache: ObjectCache, isolation: Isolation, directory: Path) -> None:
        self._cache = cache
        self._isolation = isolation
        self._users = NamespaceUsers(directory / "unix-users.json", isolation.first_uid)
        for resource in (resources.NAMESPACE, _ROLE_BINDING, _CLUSTER_ROLE_BINDING, _ROLE, _CLUSTER_ROLE):
            cache.add_kind(resource)
        cache.on_change(_ROLE_BINDING, self._on_binding_change)
        cache.on_change(_CLUSTER_ROLE_BINDING, self._on_binding_change)
        cache.on_change(_ROLE, self._on_role_change)
        cache.on_change(_CLUSTER_ROLE, self._on_role_change)

    def security_of(self, pod: Object, container: Object) -> ContainerSecurity:
        """The rights of a container; RefusedFieldError if it cannot have what it asks for."""
        return security_context.security_of(pod, container, self._user_of(pod), self._isolation)

    def _user_of(self, pod: Object) -> UnixUser | None:
        """The user of the pod's namespace; None is this server's user."""
        isolation, name = self._isolation, objects.namespace(pod)
        if not isolation.is_enabled:
            return None
        account = isolation.accounts.get(name, isolation.run_as)
        if account is not None:
            return None if account.uid == isolation.server.uid else account
        if not isolation.is_root:
            return None
        namespace = self._cache.get(resources.NAMESPACE, name)
        if namespace is None:
            raise MissingSourceError(f'namespace "{name}" not found')
        if not self._is_shared(name):
            return None
        if isolation.obstacle:
            raise RefusedFieldError(
                "namespace",
                name,
                f"others than the administrator may use it, so its jobs need isolation, but {isolation.obstacle}; "
                "`pykueue up --no-isolation` runs them as root",
            )
        return self._users.user_of(objects.uid(namespace), name)

    def _on_binding_change(self, old: Object | None, _new: Object | None) -> None:
        if old is not None and self._writes(old):
            self._keep_user(old)

    def _on_role_change(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or not _is_writing(old) or _is_writing(new):
            return
        for binding in (*self._cache.all(_ROLE_BINDING), *self._cache.all(_CLUSTER_ROLE_BINDING)):
            reference = binding.get("roleRef") or {}
            if (reference.get("kind"), reference.get("name")) == (new.get("kind"), objects.name(new)):
                self._keep_user(binding)

    def _keep_user(self, binding: Object) -> None:
        """Write down the users of the namespaces that a binding shared until now."""
        if not self._isolation.is_root or _BOOTSTRAP_LABEL in objects.labels(binding):
            return
        if not _users(binding) and not any(self._is_shared(name) for name in _accounts(binding)):
            return
        name = objects.namespace(binding)
        for namespace in self._cache.all(resources.NAMESPACE):
            if name in ("", objects.name(namespace)):
                self._users.user_of(objects.uid(namespace), objects.name(namespace))

    def _is_shared(self, name: str) -> bool:
        """Whether anybody but the administrator may write to a namespace, or could before."""
        with_users = {
            objects.name(namespace)
            for namespace in self._cache.all(resources.NAMESPACE)
            if self._users.has(objects.uid(namespace))
        }
        if name in with_users:
            return True
        everywhere = [binding for binding in self._cache.all(_CLUSTER_ROLE_BINDING) if self._writes(binding)]
        if any(_users(binding) for binding in everywhere if _BOOTSTRAP_LABEL not in objects.labels(binding)):
            return True
        bindings = [binding for binding in self._cache.all(_ROLE_BINDING) if self._writes(binding)]
        shared = with_users | {objects.namespace(binding) for binding in bindings if _users(binding)}
        # Whoever may write to a namespace has the rights of its service accounts.
        while name not in shared:
            if any(_accounts(binding) & shared for binding in everywhere):
                return True
            more = {objects.namespace(binding) for binding in bindings if _accounts(binding) & shared} - shared
            if not more:
                return False
            shared |= more
        return True

    def _writes(self, binding: Object) -> bool:
        reference = binding.get("roleRef") or {}
        if reference.get("kind") == "Role":
            role = self._cache.get(_ROLE, str(reference.get("name")), objects.namespace(binding))
        else:
            role = self._cache.get(_CLUSTER_ROLE, str(reference.get("name")))
        return role is None or _is_writing(role)


def _is_writing(role: Object) -> bool:
    verbs = {verb for rule in role.get("rules") or () for verb in rule.get("verbs") or ()}
    return not verbs <= _READING_VERBS


def _subjects(binding: Object, *kinds: str) -> Iterable[Object]:
    return (subject for subject in binding.get("subjects") or () if subject.get("kind") in kinds)


def _users(binding: Object) -> set[str]:
    """Users and groups of a binding, but the administrator's."""
    return {str(subject.get("name")) for subject in _subjects(binding, "User", "Group")} - {_MASTERS}


def _accounts(binding: Object) -> set[str]:
    """The namespaces of the service accounts of a binding."""
    return {str(subject.get("namespace")) for subject in _subjects(binding, "ServiceAccount")}
