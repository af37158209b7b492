"""The security context of a container: kept, or refused with a message that names the field.

Pure: from the pod, the Unix user of its namespace and what this machine can do, to the rights of
the container's processes. docs/isolation.md has the table of all fields.
"""

from collections.abc import Iterable
from typing import Any

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.environment import MissingSourceError
from pykueue.cluster.runtimes.isolation import Isolation
from pykueue.cluster.runtimes.linux_calls import CAPABILITIES
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser

_ALL = "ALL"


class RefusedFieldError(MissingSourceError):
    """A field of the security context that cannot be kept; CreateContainerConfigError."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"{field}: {value}: {reason}")


def security_of(pod: Object, container: Object, user: UnixUser | None, isolation: Isolation) -> ContainerSecurity:
    """The rights of a container. `user` is the user of its namespace; None is this server's."""
    context = _Context(pod, container, user, isolation)
    context.check_pod()
    context.check_profiles()
    return context.security()


class _Context:
    def __init__(self, pod: Object, container: Object, user: UnixUser | None, isolation: Isolation) -> None:
        self._spec: Object = pod["spec"]
        self._pod_fields = objects.nested(self._spec, "securityContext")
        self._fields = self._pod_fields | objects.nested(container, "securityContext")
        self._user = user
        self._isolation = isolation
        self._own = user or isolation.server
        self._is_free = user is None and isolation.is_root
        """Whether the pod may choose its user: only root can, for itself."""

    def _refuse(self, field: str, reason: str, value: object = None) -> RefusedFieldError:
        refused = self._fields.get(field) if value is None else value
        text = str(refused).lower() if isinstance(refused, bool) else refused
        return RefusedFieldError(f"securityContext.{field}", text, reason)

    def check_pod(self) -> None:
        if self._user is not None:
            for field in ("hostPID", "hostIPC", "shareProcessNamespace"):
                if self._spec.get(field):
                    raise RefusedFieldError(
                        f"spec.{field}", "true", "jobs of this namespace are isolated; remove the field"
                    )
        if self._spec.get("hostUsers") is False:
            raise RefusedFieldError(
                "spec.hostUsers", "false", "the process runtime has no user namespaces; remove the field"
            )
        if self._pod_fields.get("sysctls"):
            names = ", ".join(str(entry.get("name")) for entry in self._pod_fields["sysctls"])
            raise self._refuse("sysctls", "kernel parameters belong to the whole machine; remove the field", names)

    def check_profiles(self) -> None:
        for field in ("seccompProfile", "appArmorProfile"):
            profile = self._fields.get(field) or {}
            if profile.get("type") == "Localhost":
                raise self._refuse(field, "profiles of the node are not supported; use RuntimeDefault", "Localhost")
        for field in ("seLinuxOptions", "windowsOptions"):
            if self._fields.get(field):
                raise self._refuse(field, "is not supported by the process runtime; remove the field")

    def _has_seccomp_filter(self, *, is_isolated: bool) -> bool:
        """Whether the container asks for the default profile, or is isolated."""
        profile = objects.nested(self._fields, "seccompProfile").get("type")
        is_default = profile == "RuntimeDefault"
        if profile == "Unconfined" and self._user is not None:
            raise self._refuse("seccompProfile", "jobs of this namespace are isolated; use RuntimeDefault", profile)
        if is_default and not self._isolation.has_seccomp:
            raise self._refuse("seccompProfile", "this machine cannot filter system calls; remove the field", profile)
        if profile == "Unconfined" or self._fields.get("privileged"):
            return False
        return is_default or (is_isolated and self._isolation.has_seccomp)

    def security(self) -> ContainerSecurity:
        uid, gid, groups = self._uid(), self._gid(), self._groups()
        self._check_root(uid)
        dropped = self._dropped_capabilities(uid)
        is_read_only = bool(self._fields.get("readOnlyRootFilesystem"))
        can_isolate = self._isolation.is_possible
        if is_read_only and not can_isolate:
            raise self._refuse("readOnlyRootFilesystem", f"needs isolation ({self._why_not()}); remove the field")
        user = self._user
        if (uid, gid) != (self._own.uid, self._own.gid):
            user = UnixUser(uid=uid, gid=gid, groups=groups, name=str(uid))
        if user is not None and not can_isolate:
            raise self._refuse("runAsUser", f"another user than this server's needs isolation ({self._why_not()})", uid)
        shares_processes = any(self._spec.get(field) for field in ("hostPID", "shareProcessNamespace"))
        has_filter = self._has_seccomp_filter(is_isolated=user is not None)
        return ContainerSecurity(
            user=user,
            has_pid_namespace=can_isolate and not shares_processes,
            read_only_root=is_read_only,
            no_new_privileges=self._fields.get("allowPrivilegeEscalation") is False
            or ((bool(dropped) or has_filter) and uid != 0),
            has_seccomp_filter=has_filter,
            dropped_capabilities=dropped if uid == 0 else (),
        )

    def _why_not(self) -> str:
        return self._isolation.obstacle or "pykueue up runs with --no-isolation"

    def _uid(self) -> int:
        uid = self._fields.get("runAsUser")
        if uid is None or uid == self._own.uid:
            return self._own.uid
        if not self._is_free:
            raise self._refuse("runAsUser", f"jobs of this namespace run as user {self._own.uid}; remove the field")
        return int(uid)

    def _gid(self) -> int:
        gid = self._fields.get("runAsGroup")
        if gid is None or gid == self._own.gid:
            return self._own.gid
        if not self._is_free:
            raise self._refuse("runAsGroup", f"jobs of this namespace run as group {self._own.gid}; remove the field")
        return int(gid)

    def _groups(self) -> tuple[int, ...]:
        """Supplementary groups that the pod adds. The group of its volumes is one of them."""
        fields = {
            "supplementalGroups": self._pod_fields.get("supplementalGroups") or (),
            "fsGroup": [gid for gid in [self._pod_fields.get("fsGroup")] if gid is not None],
        }
        own_groups = {self._own.gid, *self._own.groups}
        for field, numbers in fields.items():
            for gid in numbers:
                if not self._is_free and gid not in own_groups:
                    reason = f"jobs of this namespace have no groups but {_listed(own_groups)}; remove the field"
                    raise self._refuse(field, reason, gid)
        return tuple(int(gid) for numbers in fields.values() for gid in numbers)

    def _check_root(self, uid: int) -> None:
        if self._fields.get("runAsNonRoot") and uid == 0:
            raise self._refuse(
                "runAsNonRoot", "the container would run as root; set runAsUser, or start pykueue as another user"
            )
        if self._fields.get("privileged") and not (self._is_free and uid == 0):
            raise self._refuse("privileged", f"the container runs as user {uid} without privileges; remove the field")

    def _dropped_capabilities(self, uid: int) -> tuple[int, ...]:
        capabilities = self._fields.get("capabilities") or {}
        added = _names(capabilities.get("add") or ())
        dropped = _names(capabilities.get("drop") or ())
        if added and not (self._is_free and uid == 0):
            text = ", ".join(sorted(added))
            raise self._refuse("capabilities.add", f"user {uid} cannot have capabilities; remove the field", text)
        for name in sorted((added | dropped) - {_ALL, *CAPABILITIES}):
            raise self._refuse("capabilities", "is no capability of Linux", name)
        if _ALL in added:
            return ()
        removed = (set(CAPABILITIES) if _ALL in dropped else dropped) - added
        return tuple(number for number, name in enumerate(CAPABILITIES) if name in removed)


def _names(capabilities: Iterable[Any]) -> set[str]:
    return {str(name).upper().removeprefix("CAP_") for name in capabilities}


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
