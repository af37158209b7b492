"""The objects that a list, watch or deletecollection selects: by key, labels and fields."""

from dataclasses import dataclass

from pykueue.api import selectors
from pykueue.api.scheme import Kind
from pykueue.apiserver import versions
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.store.rows import Stored, StoreKey

_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
_BUILTIN_FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "Pod"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    ("", "Node"): frozenset({"spec.unschedulable"}),
    ("", "Namespace"): frozenset({"status.phase"}),
    ("", "Secret"): frozenset({"type"}),
    ("", "Service"): frozenset({"spec.clusterIP", "spec.type"}),
    ("", "ReplicationController"): frozenset({"status.replicas"}),
    ("apps", "ReplicaSet"): frozenset({"status.replicas"}),
    ("", "Event"): frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    ("events.k8s.io", "Event"): frozenset(
        {
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        }
    ),
}


def supported_fields(kind: Kind) -> frozenset[str]:
    declared = (field.removeprefix(".") for field in kind.selectable_fields)
    return _METADATA_FIELDS.union(_BUILTIN_FIELDS.get((kind.group, kind.kind), ()), declared)


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

    def matches(self, stored: Stored) -> bool:
        """Whether the labels and fields fit. The caller has checked the key with `includes`."""
        return selectors.matches(self.labels, stored.meta.labels) and (not self.fields or self._fields_match(stored))

    def _fields_match(self, stored: Stored) -> bool:
        obj = None
        for requirement in self.fields:
            if requirement.path == "metadata.name":
                value = stored.key.name
            elif requirement.path == "metadata.namespace":
                value = stored.key.namespace
            else:
                obj = obj or versions.from_storage(self.kind, stored.decode())
                value = selectors.field_value(obj, requirement.path)
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
