"""ObjectMeta: what the server fills in, keeps, and refuses.

Called on every write, between the decoding of a request and its admission.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pykueue.api import entropy, errors
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Kind, Object
from pykueue.api.times import SECOND_NS, from_ns

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_PREFIX = 63 - _SUFFIX_LENGTH
_ANNOTATIONS_BYTES = 256 * 1024

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

_JUDGED = ("labels", "annotations", "finalizers", "ownerReferences")
_TIMES_JUDGED = {"Job": 4}
"""What of metadata has rules besides its name; an update is judged by what it changes."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS_1035}')"
)
_QUALIFIED_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_QUALIFIED})?')"
)


_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch


def has_generation(kind: Kind) -> bool:
    return (kind.group, kind.kind) not in _WITHOUT_GENERATION


def timestamp(now: datetime) -> str:
    return from_ns(int(now.timestamp()) * SECOND_NS)


def generate_name(prefix: str) -> str:
    return prefix[:_LONGEST_PREFIX] + entropy.token(_ALPHABET, _SUFFIX_LENGTH)


def prepare_create(kind: Kind, obj: Object, now: datetime) -> None:
    """What a client may not decide about a new object."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = entropy.new_uid()
    metadata["creationTimestamp"] = timestamp(now)
    if has_generation(kind):
        metadata["generation"] = 1


def prepare_update(kind: Kind, obj: Object, old: Object) -> None:
    """What no update changes: identity, times, and the generation unless the wish itself changed."""
    metadata, before = obj["metadata"], old["metadata"]
    metadata.pop("selfLink", None)
    _drop_empty(metadata)
    kept = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    for name in kept:
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]
    if has_generation(kind) and _wish(kind, obj) != _wish(kind, old):
        metadata["generation"] = before.get("generation", 0) + 1


def _drop_empty(metadata: Object) -> None:
    """An empty map or list is as good as none, and is not shown."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def _wish(kind: Kind, obj: Object) -> Object:
    observed = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {name: value for name, value in obj.items() if name not in observed}


def check_update_preconditions(kind: Kind, obj: Object, old: Object) -> None:
    """Optimistic concurrency: the writer has seen what it replaces."""
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
    found = _name_faults(kind, "metadata.name", metadata["name"])
    prefix = metadata.get("generateName")
    if prefix:
        found = _name_faults(kind, "metadata.generateName", prefix, prefix.removesuffix("-") or "a") + found
    return [*found, *_faults(metadata)]


def faults_of_update(kind: Kind, obj: Object, old: Object) -> list[FieldError]:
    """Kubernetes looks at changed metadata several times, and names each fault as often as a cause."""
    metadata, before = obj["metadata"], old["metadata"]
    found = list(_faults({name: metadata.get(name) for name in _JUDGED if metadata.get(name) != before.get(name)}))
    found *= _TIMES_JUDGED.get(kind.kind, 1) if kind.is_builtin else 3
    if before.get("deletionTimestamp"):
        added = [each for each in metadata.get("finalizers") or () if each not in (before.get("finalizers") or ())]
        if added:
            shown = ", ".join(f'"{each}"' for each in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            found.append(FieldError("FieldValueForbidden", "metadata.finalizers", detail))
    return found


def _faults(metadata: dict[str, Any]) -> Iterator[FieldError]:
    for key, value in (metadata.get("labels") or {}).items():
        yield from _qualified_name_faults("metadata.labels", key)
        if len(value) > 63:
            yield FieldError("FieldValueInvalid", "metadata.labels", "must be no more than 63 bytes", value)
        elif value and not _is_qualified(value):
            yield FieldError("FieldValueInvalid", "metadata.labels", _VALUE_WORDS, value)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _qualified_name_faults("metadata.annotations", key.lower())
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_BYTES:
        detail = f"may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield FieldError("FieldValueTooLong", "metadata.annotations", detail)
    for name in metadata.get("finalizers") or ():
        yield from _qualified_name_faults("metadata.finalizers", name)
    yield from _owner_faults(metadata.get("ownerReferences") or ())


def _owner_faults(references: Any) -> Iterator[FieldError]:
    controllers = []
    for reference in references:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                words = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield FieldError("FieldValueInvalid", f"metadata.ownerReferences.{field}", words, "")
        if reference.get("controller"):
            controllers.append(reference)
    if len(controllers) > 1:
        names = " and ".join(f"{each.get('kind')}/{each.get('name')}" for each in controllers[:2])
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {names}'
        yield FieldError("FieldValueInvalid", "metadata.ownerReferences", detail, references)


def _qualified_name_faults(field: str, name: str) -> Iterator[FieldError]:
    prefix, slash, last = name.rpartition("/")
    if slash and not _is_subdomain(prefix):
        detail = f"prefix part {_SUBDOMAIN_WORDS}" if prefix else "prefix part must be non-empty"
        yield FieldError("FieldValueInvalid", field, detail, name)
    if not last:
        yield FieldError("FieldValueInvalid", field, "name part must be non-empty", name)
    elif len(last) > 63:
        yield FieldError("FieldValueInvalid", field, "name part must be no more than 63 bytes", name)
    if last and not _is_qualified(last):
        yield FieldError("FieldValueInvalid", field, _QUALIFIED_WORDS, name)


def _matches(pattern: str, longest: int, words: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern)

    def faults(name: str) -> list[str]:
        found = [] if len(name) <= longest else [f"must be no more than {longest} characters"]
        return found if compiled.fullmatch(name) else [*found, words]

    return faults


def _path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


_subdomain = _matches(_SUBDOMAIN, 253, _SUBDOMAIN_WORDS)
_NAME_RULES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): _matches(_LABEL, 63, _LABEL_WORDS),
    ("", "Service"): _matches(_DNS_1035, 63, _DNS_1035_WORDS),
    **{
        ("rbac.authorization.k8s.io", kind): _path_segment
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    },
}


def _name_faults(kind: Kind, field: str, name: str, judged: str = "") -> list[FieldError]:
    """`judged` stands for the name where only a part of it is known."""
    rule = _NAME_RULES.get((kind.group, kind.kind), _subdomain)
    return [FieldError("FieldValueInvalid", field, fault, name) for fault in rule(judged or name)]
