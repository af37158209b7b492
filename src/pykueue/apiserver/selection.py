"""The objects that a list, watch or deletecollection selects: by key, labels and fields."""

from collections.abc import Callable
from dataclasses import dataclass

from pykueue.api import objects, selectors
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import versions
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.store.rows import Stored, StoreKey

Decoded = dict[tuple[int, str], Object]
"""Objects by revision and API version."""

_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _first_pod_ip(pod: Object) -> str:
    addresses = objects.nested_list(pod, "status", "podIPs")
    return str(addresses[0].get("ip", "")) if addresses else str(objects.status(pod).get("podIP", ""))


def _event_source(event: Object) -> str:
    return str(objects.nested(event, "source").get("component") or event.get("reportingComponent", ""))


_BUILTIN_FIELDS: dict[tuple[str, str], dict[str, str | Callable[[Object], str]]] = {
    ("", "Pod"): {
        "spec.nodeName": "",
        "spec.host": lambda pod: str(objects.spec(pod).get("nodeName", "")),
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": _first_pod_ip,
        "status.podIPs": lambda _pod: "",
        "status.nominatedNodeName": "",
    },
    ("", "Node"): {"spec.unschedulable": "false"},
    ("", "Namespace"): {"status.phase": ""},
    ("", "Secret"): {"type": ""},
    ("", "Service"): {"spec.clusterIP": "", "spec.type": ""},
    ("", "ReplicationController"): {"status.replicas": "0"},
    ("apps", "ReplicaSet"): {"status.replicas": "0"},
    ("batch", "Job"): {"status.successful": lambda job: str(objects.status(job).get("succeeded") or 0)},
    ("certificates.k8s.io", "CertificateSigningRequest"): {"spec.signerName": ""},
    ("resource.k8s.io", "ResourceSlice"): {"spec.nodeName": "", "spec.driver": ""},
    ("", "Event"): {
        **{f"involvedObject.{name}": "" for name in _REFERENCE_FIELDS},
        "reason": "",
        "reportingComponent": "",
        "source": _event_source,
        "type": "",
    },
    ("events.k8s.io", "Event"): {
        **{f"regarding.{name}": "" for name in _REFERENCE_FIELDS},
        "reason": "",
        "reportingController": "",
        "type": "",
    },
}
"""The selectable fields of builtin kinds, each with the text of an absent field or a reader.

Kubernetes compares an absent boolean as "false" and an absent number as "0".
"""


def supported_fields(kind: Kind) -> frozenset[str]:
    declared = (field.removeprefix(".") for field in kind.selectable_fields)
    return _METADATA_FIELDS.union(_BUILTIN_FIELDS.get((kind.group, kind.kind), ()), declared)


def _field_value(kind: Kind, obj: Object, path: str) -> str:
    field = _BUILTIN_FIELDS.get((kind.group, kind.kind), {}).get(path, "")
    return selectors.field_value(obj, path) or field if isinstance(field, str) else field(obj)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    kind: Kind
    namespace: str = ""
    name: str = ""
    labels: tuple[selectors.Requirement, ...] = ()
    fields: tuple[selectors.FieldRequirement, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether there is neither a label selector nor a field selector."""
        return not self.labels and not self.fields

    def includes(self, key: StoreKey) -> bool:
        """Whether the namespace and the name fit."""
        return (not self.namespace or key.namespace == self.namespace) and (not self.name or key.name == self.name)

    def matches(self, stored: Stored, decoded: Decoded | None = None) -> bool:
        """Whether the labels and fields fit. The caller has checked the key with `includes`.

        Those who compare one object with many selections share what was `decoded` for them.
        """
        if not selectors.matches(self.labels, stored.meta.labels):
            return False
        return not self.fields or self._fields_match(stored, {} if decoded is None else decoded)

    def _fields_match(self, stored: Stored, decoded: Decoded) -> bool:
        for requirement in self.fields:
            if requirement.path == "metadata.name":
                value = stored.key.name
            elif requirement.path == "metadata.namespace":
                value = stored.key.namespace
            else:
                version = (stored.revision, self.kind.api_version)
                if version not in decoded:
                    decoded[version] = versions.from_storage(self.kind, stored.decode())
                value = _field_value(self.kind, decoded[version], requirement.path)
            if not requirement.matches(value):
                return False
        return True


def parse(target: ResourceTarget, label_selector: str, field_selector: str) -> Selection:
    fields = selectors.parse_fields(field_selector, supported_fields(target.kind)) if field_selector else ()
    name = target.name
    for requirement in fields:
        if requirement.path == "metadata.name" and requirement.is_equal:
            name = requirement.value
    return Selection(
        kind=target.kind,
        namespace=target.namespace if target.kind.namespaced else "",
        name=name,
        labels=selectors.parse_labels(label_selector),
        fields=fields,
    )
