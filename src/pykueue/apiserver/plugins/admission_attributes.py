"""A write as admission policies and webhooks see it: who does what to which object.

The plugins get objects in the storage version; a policy or webhook gets them in a version that
its rules name (`Attributes.in_version`).
"""

from dataclasses import dataclass
from typing import Any

from pykueue.api import objects
from pykueue.api.json_copy import copied
from pykueue.api.scheme import AdmissionRequest, Kind, Object
from pykueue.apiserver import scales, versions
from pykueue.apiserver.calls import UserInfo, WriteCall

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_SUBRESOURCE_KINDS = {"scale": ("autoscaling", "v1", "Scale"), "binding": ("", "v1", "Binding")}
"""Subresources whose requests have another kind than the object."""


@dataclass(slots=True, kw_only=True)
class Attributes:
    """`object` is None when an object is deleted, `old` is None when one is created."""

    operation: str
    kind: Kind
    """The kind in the version of the request."""
    storage_kind: Kind
    subresource: str
    object: Object | None
    old: Object | None
    user: UserInfo
    dry_run: bool = False
    options: Object

    @classmethod
    def of(cls, kind: Kind, request: AdmissionRequest, call: WriteCall) -> "Attributes":
        operation = "CREATE" if request.subresource == "binding" else request.operation
        options: Object = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
        if call.field_manager:
            options["fieldManager"] = call.field_manager
        if call.dry_run:
            options["dryRun"] = ["All"]
        is_deletion = operation == "DELETE"
        return cls(
            operation=operation,
            kind=call.requested_kind or kind,
            storage_kind=kind,
            subresource=request.subresource,
            object=None if is_deletion else request.object,
            old=None if request.subresource == "binding" else request.old,
            user=call.user,
            dry_run=call.dry_run,
            options=options,
        )

    @property
    def newest(self) -> Object:
        """The object of the request; the old one when it is deleted."""
        obj = self.object if self.object is not None else self.old
        assert obj is not None
        return obj

    @property
    def name(self) -> str:
        return str(self.newest["metadata"].get("name", ""))

    @property
    def is_namespace(self) -> bool:
        return (self.kind.group, self.kind.kind) == ("", "Namespace")

    @property
    def namespace(self) -> str:
        """As in Kubernetes, a Namespace is in itself."""
        return self.name if self.is_namespace else str(self.newest["metadata"].get("namespace", ""))

    @property
    def resource_text(self) -> str:
        """Such as `pods` or `deployments.apps`, for messages."""
        return f"{self.kind.plural}.{self.kind.group}" if self.kind.group else self.kind.plural

    def in_version(self, kind: Kind) -> tuple[Object | None, Object | None]:
        """The new and the old object in the version of `kind`. They must not be changed."""
        return self._converted(self.object, kind), self._converted(self.old, kind)

    def _converted(self, obj: Object | None, kind: Kind) -> Object | None:
        if obj is None:
            return None
        if self.subresource == "binding":
            return _binding(obj)
        if not versions.is_storage_version(kind):
            obj = versions.from_storage(kind, copied(obj))
        return scales.read(kind, obj) if self.subresource == "scale" else obj

    def request(self, kind: Kind) -> Object:
        """The AdmissionRequest without uid and objects; `kind` has the version of the objects."""
        request: Object = {
            "kind": self._group_version_kind(kind),
            "resource": _group_version_resource(kind),
            "requestKind": self._group_version_kind(self.kind),
            "requestResource": _group_version_resource(self.kind),
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": user_info(self.user),
            "dryRun": self.dry_run,
            "options": self.options,
        }
        if self.subresource:
            request |= {"subResource": self.subresource, "requestSubResource": self.subresource}
        return request

    def _group_version_kind(self, kind: Kind) -> dict[str, str]:
        own = (kind.group, kind.version, kind.kind)
        group, version, name = _SUBRESOURCE_KINDS.get(self.subresource, own)
        return {"group": group, "version": version, "kind": name}


def user_info(user: UserInfo) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _group_version_resource(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _binding(pod: Object) -> Object:
    metadata = {"name": objects.name(pod), "namespace": objects.namespace(pod)}
    target = {"kind": "Node", "name": objects.spec(pod).get("nodeName", "")}
    return {"kind": "Binding", "apiVersion": "v1", "metadata": metadata, "target": target}
