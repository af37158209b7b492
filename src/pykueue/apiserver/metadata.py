"""ObjectMeta: the fields that the server sets, preserves and validates.

Every write calls this module between decoding and admission.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pykueue.api import entropy, errors, objects, times
from pykueue.api.errors import FieldError
from pykueue.api.rules import syntax
from pykueue.api.scheme import Kind, Object

_WITHOUT_GENERATION = {
    ("", "Binding"),
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("coordination.k8s.io", "Lease"),
    ("events.k8s.io", "Event"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
}

_VALIDATED_FIELDS = ("labels", "annotations", "finalizers", "ownerReferences")
"""The validated fields besides the name. An update validates only those that it changes."""

_UPDATE_VALIDATIONS = {"Job": 4}
"""How often Kubernetes validates the metadata of an update; every other builtin kind once."""
_CUSTOM_UPDATE_VALIDATIONS = 3


def has_generation(kind: Kind) -> bool:
    return (kind.group, kind.kind) not in _WITHOUT_GENERATION


def prepare_create(kind: Kind, obj: Object, now: datetime) -> None:
    """Set the fields of a new object that clients cannot set."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = entropy.new_uid()
    metadata["creationTimestamp"] = times.to_text(now)
    if has_generation(kind):
        metadata["generation"] = 1


def prepare_update(kind: Kind, obj: Object, old: Object) -> None:
    """Restore the fields that clients cannot change; increment the generation if needed."""
    metadata, before = obj["metadata"], old["metadata"]
    metadata.pop("selfLink", None)
    _drop_empty(metadata)
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]
    if has_generation(kind) and _desired_state(kind, obj) != _desired_state(kind, old):
        metadata["generation"] = before.get("generation", 0) + 1


def _drop_empty(metadata: Object) -> None:
    """Kubernetes does not store empty maps and lists."""
    for name in _VALIDATED_FIELDS:
        if name in metadata and not metadata[name]:
            del metadata[name]


def _desired_state(kind: Kind, obj: Object) -> Object:
    observed = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {name: value for name, value in obj.items() if name not in observed}


def check_update_preconditions(kind: Kind, obj: Object, old: Object) -> None:
    """Optimistic concurrency: ApiError 409 unless uid and resourceVersion, if set, are current."""
    metadata, before = obj["metadata"], old["metadata"]
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise errors.conflict(kind.group, kind.plural, before["name"], why)
    version = metadata.get("resourceVersion")
    if version and version != before["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise errors.conflict(kind.group, kind.plural, before["name"], why)


def faults_of_create(kind: Kind, obj: Object) -> list[FieldError]:
    metadata = obj["metadata"]
    if not metadata.get("name"):
        return [FieldError("FieldValueRequired", "metadata.name", "name or generateName is required")]
    faults = _name_faults(kind, "metadata.name", metadata["name"])
    prefix = metadata.get("generateName")
    if prefix:
        faults = _name_faults(kind, "metadata.generateName", prefix, prefix.removesuffix("-") or "a") + faults
    return [*faults, *_faults(metadata)]


def faults_of_update(kind: Kind, obj: Object, old: Object) -> list[FieldError]:
    """Faults of changed metadata, repeated as often as Kubernetes repeats them."""
    metadata, before = obj["metadata"], old["metadata"]
    changed = {name: metadata.get(name) for name in _VALIDATED_FIELDS if metadata.get(name) != before.get(name)}
    faults = list(_faults(changed)) if changed else []
    faults *= _UPDATE_VALIDATIONS.get(kind.kind, 1) if kind.is_builtin else _CUSTOM_UPDATE_VALIDATIONS
    if before.get("deletionTimestamp"):
        added = [name for name in objects.finalizers(obj) if name not in objects.finalizers(old)]
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{names}}}"
            )
            faults.append(FieldError("FieldValueForbidden", "metadata.finalizers", detail))
    return faults


def _faults(metadata: dict[str, Any]) -> Iterator[FieldError]:
    yield from syntax.check_labels("metadata.labels", metadata.get("labels") or {})
    yield from syntax.check_annotations("metadata.annotations", metadata.get("annotations") or {})
    for name in metadata.get("finalizers") or ():
        yield from syntax.check_label_key("metadata.finalizers", name)
    yield from _owner_faults(metadata.get("ownerReferences") or ())


def _owner_faults(references: Any) -> Iterator[FieldError]:
    controllers = []
    for reference in references:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                detail = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield FieldError("FieldValueInvalid", f"metadata.ownerReferences.{field}", detail, "")
        if reference.get("controller"):
            controllers.append(reference)
    if len(controllers) > 1:
        names = " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        yield FieldError("FieldValueInvalid", "metadata.ownerReferences", detail, references)


_NAME_SYNTAX: dict[tuple[str, str], Callable[[str], Sequence[str]]] = {
    ("", "Namespace"): syntax.dns_label,
    ("", "Service"): syntax.dns_1035_label,
    **{
        ("rbac.authorization.k8s.io", kind): syntax.path_segment
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    },
}


def _name_faults(kind: Kind, field: str, name: str, checked_part: str = "") -> list[FieldError]:
    """Check `checked_part` instead of the name if only a part of the name is known."""
    explanations = _NAME_SYNTAX.get((kind.group, kind.kind), syntax.dns_subdomain)(checked_part or name)
    return [FieldError("FieldValueInvalid", field, explanation, name) for explanation in explanations]
