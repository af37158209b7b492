"""Conversion of plain objects from v1beta1 to v1beta2 and back, without loss.

Renamed and restructured fields move. A field that the other version does not have is saved in an
annotation of the converted object and restored on the way back, as Kubernetes demands of
conversions. Two v1beta1 values become the one that v1beta2 has for the same thing (`Borrow` and
`Preempt` become `MayStopSearch`, a plain list of admission checks becomes a strategy). Parts of
the status that only the controllers of one version write are dropped.

Objects have not been validated: a value of an unexpected type is left as it is, for validation to
report.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

from pykueue.api import json_text
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object

UNCONVERTED_ANNOTATION = "pykueue.dev/fields-of-other-version"
GROUP = "kueue.x-k8s.io"
KINDS_WITH_RENAMED_FIELDS = frozenset({"ClusterQueue", "LocalQueue", "MultiKueueCluster", "Workload"})
"""Kinds with renamed fields; the others differ only in fields that one version lacks."""

_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_REFERENCES = {reference: source for source, reference in _SOURCES.items()}


def to_v1beta2(obj: Object) -> Object:
    return _converted(obj, "v1beta1", "v1beta2", _UPGRADES)


def to_v1beta1(obj: Object) -> Object:
    return _converted(obj, "v1beta2", "v1beta1", _DOWNGRADES)


class _UnconvertedFields:
    """Fields that the other version does not have, by path."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.saved_before = fields
        self.fields: dict[str, Any] = {}

    def save(self, parent: Any, path: str) -> None:
        """Remove the field and save it."""
        name = path.rpartition(".")[2]
        if isinstance(parent, dict) and name in parent:
            self.fields[path] = parent.pop(name)

    def restore(self, parent: Any, path: str) -> None:
        if isinstance(parent, dict) and path in self.saved_before:
            parent.setdefault(path.rpartition(".")[2], self.saved_before[path])


_Change = Callable[[Object, _UnconvertedFields], None]


def _converted(obj: Object, source: str, target: str, changes: dict[str, _Change]) -> Object:
    if obj.get("apiVersion") != f"{GROUP}/{source}":
        return obj
    converted = copy.deepcopy(obj)
    converted["apiVersion"] = f"{GROUP}/{target}"
    unconverted = _UnconvertedFields(_take_annotation(converted))
    change = changes.get(str(obj.get("kind")))
    if change is not None:
        change(converted, unconverted)
    if unconverted.fields:
        metadata = converted.setdefault("metadata", {})
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = annotations | {UNCONVERTED_ANNOTATION: json.dumps(unconverted.fields, sort_keys=True)}
    return converted


def _take_annotation(obj: Object) -> dict[str, Any]:
    metadata = _part(obj, "metadata")
    annotations = _part(metadata, "annotations")
    if UNCONVERTED_ANNOTATION not in annotations:
        return {}
    text = annotations.pop(UNCONVERTED_ANNOTATION)
    if not annotations:
        del metadata["annotations"]
    try:
        fields = json_text.decode_field(text)
    except (AttributeError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _part(parent: Any, name: str) -> dict[str, Any]:
    """The mapping in the field, or a new empty one."""
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def _items(parent: Any, name: str) -> list[dict[str, Any]]:
    value = parent.get(name) if isinstance(parent, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _rename(parent: dict[str, Any], old: str, new: str) -> None:
    if old in parent:
        parent[new] = parent.pop(old)


def _upgrade_cluster_queue(obj: Object, unconverted: _UnconvertedFields) -> None:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if isinstance(checks, list) and checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = _part(spec, "flavorFungibility")
    for field, synonym in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        if fungibility.get(field) == synonym:
            fungibility[field] = "MayStopSearch"
    status.pop("pendingWorkloadsStatus", None)
    _part(status, "fairSharing").pop("admissionFairSharingStatus", None)
    unconverted.restore(spec, "spec.concurrentAdmissionPolicy")


def _downgrade_cluster_queue(obj: Object, unconverted: _UnconvertedFields) -> None:
    spec = _part(obj, "spec")
    _rename(spec, "cohortName", "cohort")
    unconverted.save(spec, "spec.concurrentAdmissionPolicy")


def _upgrade_cohort(obj: Object, _unconverted: _UnconvertedFields) -> None:
    _part(_part(obj, "status"), "fairSharing").pop("admissionFairSharingStatus", None)


def _downgrade_cohort(obj: Object, _unconverted: _UnconvertedFields) -> None:
    obj.setdefault("status", {})


def _upgrade_local_queue(obj: Object, _unconverted: _UnconvertedFields) -> None:
    status = _part(obj, "status")
    _rename(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)


def _downgrade_local_queue(obj: Object, _unconverted: _UnconvertedFields) -> None:
    _rename(_part(obj, "status"), "flavorsUsage", "flavorUsage")


def _upgrade_admission_check(obj: Object, unconverted: _UnconvertedFields) -> None:
    spec = _part(obj, "spec")
    if spec.get("retryDelayMinutes") == 15:
        del spec["retryDelayMinutes"]
    unconverted.save(spec, "spec.retryDelayMinutes")


def _downgrade_admission_check(obj: Object, unconverted: _UnconvertedFields) -> None:
    unconverted.restore(_part(obj, "spec"), "spec.retryDelayMinutes")


def _upgrade_cluster(obj: Object, _unconverted: _UnconvertedFields) -> None:
    spec = _part(obj, "spec")
    moved = {name: spec.pop(name) for name in ("kubeConfig", "clusterProfileRef") if name in spec}
    if moved:
        spec["clusterSource"] = moved
    kube_config = moved.get("kubeConfig")
    if isinstance(kube_config, dict) and not kube_config.get("location"):
        del moved["kubeConfig"]


def _downgrade_cluster(obj: Object, _unconverted: _UnconvertedFields) -> None:
    spec = _part(obj, "spec")
    source = spec.get("clusterSource")
    if isinstance(source, dict):
        del spec["clusterSource"]
        spec.update(source)
        spec.setdefault("kubeConfig", {"location": "", "locationType": ""})


def _upgrade_config(obj: Object, unconverted: _UnconvertedFields) -> None:
    unconverted.restore(_part(obj, "spec"), "spec.quotaManagement")


def _downgrade_config(obj: Object, unconverted: _UnconvertedFields) -> None:
    unconverted.save(_part(obj, "spec"), "spec.quotaManagement")


def _upgrade_workload(obj: Object, unconverted: _UnconvertedFields) -> None:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    source = spec.pop("priorityClassSource", "")
    if source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": spec.pop("priorityClassName", "")}
    unconverted.save(spec, "spec.priorityClassName")
    unconverted.restore(spec, "spec.preemptionGates")
    unconverted.restore(status, "status.preemptionGates")
    for index, pod_set in enumerate(_items(spec, "podSets")):
        unconverted.restore(_part(pod_set, "topologyRequest"), _constraints(index))
    _rename(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    for assignment in _topology_assignments(status):
        domains = assignment.get("domains")
        if isinstance(domains, list) and isinstance(assignment.get("levels"), list):
            _encode_domains(assignment, domains)


def _downgrade_workload(obj: Object, unconverted: _UnconvertedFields) -> None:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    reference = _part(spec, "priorityClassRef")
    source = _REFERENCES.get((str(reference.get("group")), str(reference.get("kind"))))
    if source is not None:
        del spec["priorityClassRef"]
        spec["priorityClassSource"] = source
        spec["priorityClassName"] = reference.get("name", "")
    unconverted.restore(spec, "spec.priorityClassName")
    unconverted.save(spec, "spec.preemptionGates")
    unconverted.save(status, "status.preemptionGates")
    for index, pod_set in enumerate(_items(spec, "podSets")):
        unconverted.save(_part(pod_set, "topologyRequest"), _constraints(index))
    _rename(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    for assignment in _topology_assignments(status):
        if isinstance(assignment.get("slices"), list):
            _decode_slices(assignment)


def _constraints(index: int) -> str:
    return f"spec.podSets[{index}].topologyRequest.podsetSliceRequiredTopologyConstraints"


def _topology_assignments(status: dict[str, Any]) -> list[dict[str, Any]]:
    assignments = _items(_part(status, "admission"), "podSetAssignments")
    return [_part(assignment, "topologyAssignment") for assignment in assignments]


def _encode_domains(assignment: dict[str, Any], domains: list[Any]) -> None:
    try:
        plain = [
            topology_encoding.TopologyDomainAssignment(tuple(domain["values"]), domain["count"]) for domain in domains
        ]
        encoded = topology_encoding.encode(assignment["levels"], plain)
    except (KeyError, TypeError, IndexError):
        return
    del assignment["domains"]
    assignment.update(encoded)


def _decode_slices(assignment: dict[str, Any]) -> None:
    try:
        domains = topology_encoding.decode(assignment)
    except (KeyError, TypeError, IndexError):
        return
    del assignment["slices"]
    assignment["domains"] = [{"values": list(domain.values), "count": domain.count} for domain in domains]


_UPGRADES: dict[str, _Change] = {
    "AdmissionCheck": _upgrade_admission_check,
    "ClusterQueue": _upgrade_cluster_queue,
    "Cohort": _upgrade_cohort,
    "LocalQueue": _upgrade_local_queue,
    "MultiKueueCluster": _upgrade_cluster,
    "MultiKueueConfig": _upgrade_config,
    "Workload": _upgrade_workload,
}
_DOWNGRADES: dict[str, _Change] = {
    "AdmissionCheck": _downgrade_admission_check,
    "ClusterQueue": _downgrade_cluster_queue,
    "Cohort": _downgrade_cohort,
    "LocalQueue": _downgrade_local_queue,
    "MultiKueueCluster": _downgrade_cluster,
    "MultiKueueConfig": _downgrade_config,
    "Workload": _downgrade_workload,
}
