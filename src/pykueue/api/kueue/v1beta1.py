"""`kueue.x-k8s.io/v1beta1`: the schemas of the older version, as differences from v1beta2.

Objects of this version are converted before anything reads their fields (`conversion`), so that
they need no structs.
"""

from collections.abc import Callable
from typing import Any

from pykueue.api import structural
from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2 import workload_rules
from pykueue.api.kueue.v1beta2.cluster_queue import has_borrowing_limit
from pykueue.api.kueue.v1beta2.fields import AdmissionFairSharingStatus, Name, Taint
from pykueue.api.meta import Int32, Int64, Time
from pykueue.api.scheme import Object, Schema


def schema_of(kind: str, current: Schema) -> Schema:
    """The v1beta1 schema, made by changing the v1beta2 schema in place."""
    if "status" in current["properties"] and "conditions" in _at(current, "status")["properties"]:
        _without(current, "status.conditions", "maxItems")
    change = _CHANGES.get(kind)
    if change is not None:
        change(current)
    return current


def _at(schema: Schema, path: str) -> Schema:
    for step in path.split("."):
        name, brackets, _ = step.partition("[]")
        schema = schema["properties"][name]
        if brackets:
            schema = schema["items"]
    return schema


def _without(schema: Schema, path: str, *keywords: str) -> None:
    target = _at(schema, path)
    for keyword in keywords:
        target.pop(keyword, None)


def _add(schema: Schema, path: str, hint: Any, **keywords: Any) -> None:
    parent, _, name = path.rpartition(".")
    _at(schema, parent)["properties"][name] = structural.type_schema(hint) | keywords


def _drop(schema: Schema, path: str) -> Schema:
    parent, _, name = path.rpartition(".")
    dropped: Schema = _at(schema, parent)["properties"].pop(name)
    return dropped


def _rename(schema: Schema, path: str, new: str) -> None:
    parent = path.rpartition(".")[0]
    _at(schema, parent)["properties"][new] = _drop(schema, path)


def _require(schema: Schema, path: str, *names: str) -> None:
    target = _at(schema, path)
    target["required"] = sorted({*target.get("required", []), *names})


def _replace_rules(target: Schema, *rules: Rule) -> None:
    target["x-kubernetes-validations"] = [rule.schema() for rule in rules]


NO_BORROWING = Rule(
    cel=(
        "!has(self.cohort) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, "
        "f.resources.all(r, !has(r.borrowingLimit)))) : true"
    ),
    message="borrowingLimit must be nil when cohort is empty",
    check=lambda own, _: "cohort" in own or not has_borrowing_limit(own),
)


class _PendingWorkload(structural.Part):
    name: str
    namespace: str


class _PendingWorkloadsStatus(structural.Part):
    """The first waiting workloads; no longer filled in."""

    last_change_time: Time
    cluster_queue_pending_workload: tuple[_PendingWorkload, ...] = ()


def _admission_check(schema: Schema) -> None:
    _without(schema, "spec.controllerName", "minLength", "maxLength")
    for name in ("apiGroup", "kind", "name"):
        _without(schema, f"spec.parameters.{name}", "minLength")
    _add(schema, "spec.retryDelayMinutes", Int64, default=15, description="Least wait before a retry; not used.")


def _resource_groups(schema: Schema) -> None:
    _without(schema, "spec.resourceGroups[].coveredResources", "x-kubernetes-list-type")


def _cluster_queue(schema: Schema) -> None:
    _resource_groups(schema)
    _rename(schema, "spec.cohortName", "cohort")
    _replace_rules(_at(schema, "spec"), NO_BORROWING)
    _drop(schema, "spec.concurrentAdmissionPolicy")
    _at(schema, "spec.flavorFungibility.whenCanBorrow")["enum"].append("Borrow")
    _at(schema, "spec.flavorFungibility.whenCanPreempt")["enum"].append("Preempt")
    _without(schema, "spec.admissionScope.admissionMode", "enum")
    _without(schema, "spec.admissionChecksStrategy", "required")
    checks = "spec.admissionChecksStrategy.admissionChecks"
    _without(schema, checks, "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
    _without(schema, f"{checks}[].name", "minLength")
    _without(schema, f"{checks}[].onFlavors", "maxItems", "x-kubernetes-list-type")
    check: Schema = {"type": "string", "maxLength": 316}
    _add(schema, "spec.admissionChecks", tuple[str, ...], items=check, description="Checks for every flavor.")
    _add(schema, "status.fairSharing.admissionFairSharingStatus", AdmissionFairSharingStatus)
    _add(schema, "status.pendingWorkloadsStatus", _PendingWorkloadsStatus)
    _at(schema, "status.pendingWorkloadsStatus.clusterQueuePendingWorkload")["x-kubernetes-list-type"] = "atomic"


def _cohort(schema: Schema) -> None:
    _resource_groups(schema)
    _add(schema, "status.fairSharing.admissionFairSharingStatus", AdmissionFairSharingStatus)


class _FlavorTopology(structural.Part):
    name: Name
    levels: tuple[str, ...]


class _LocalQueueFlavor(structural.Part):
    """A flavor that the queue can use; no longer filled in."""

    name: Name
    resources: tuple[str, ...] = ()
    node_labels: dict[str, str] | None = None
    node_taints: tuple[Taint, ...] = ()
    topology: _FlavorTopology | None = None


def _local_queue(schema: Schema) -> None:
    _rename(schema, "status.flavorsUsage", "flavorUsage")
    _add(
        schema,
        "status.flavors",
        tuple[_LocalQueueFlavor, ...],
        **{"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    flavor = "status.flavors[]"
    _at(schema, f"{flavor}.resources").update({"maxItems": 64, "x-kubernetes-list-type": "set"})
    _at(schema, f"{flavor}.nodeLabels").update({"maxProperties": 8, "x-kubernetes-map-type": "atomic"})
    _at(schema, f"{flavor}.nodeTaints").update({"maxItems": 8, "x-kubernetes-list-type": "atomic"})
    levels = _at(schema, f"{flavor}.topology.levels")
    levels.update({"minItems": 1, "maxItems": 16, "x-kubernetes-list-type": "atomic"})


def _multikueue_cluster(schema: Schema) -> None:
    source = _drop(schema, "spec.clusterSource")
    spec = _at(schema, "spec")
    spec["properties"] |= source["properties"]
    spec["required"] = ["kubeConfig"]
    _without(schema, "spec.kubeConfig.location", "minLength", "maxLength")
    _require(schema, "spec.kubeConfig", "locationType")


def _multikueue_config(schema: Schema) -> None:
    _drop(schema, "spec.quotaManagement")
    _without(schema, "spec.clusters", "x-kubernetes-validations")
    clusters = _at(schema, "spec.clusters")
    clusters["x-kubernetes-list-type"] = "set"
    clusters["items"] = {"type": "string"}


def _provisioning_request_config(schema: Schema) -> None:
    _without(schema, "spec.podSetUpdates.nodeSelector", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
    _without(schema, "spec.provisioningClassName", "minLength")


def _workload_priority_class(schema: Schema) -> None:
    _without(schema, "description", "maxLength")


_SOURCE_OF_CLASS = ("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "")


def _keeps_source(new: Object, old: Object) -> bool:
    specs = _specs_while_reserved(new, old)
    if specs is None:
        return True
    after, before = specs
    return bool(after["priorityClassSource"] == before["priorityClassSource"])


def _keeps_class(new: Object, old: Object) -> bool:
    specs = _specs_while_reserved(new, old)
    if specs is None or specs[0]["priorityClassSource"] == _SOURCE_OF_CLASS[0]:
        return True
    names = [spec.get("priorityClassName") for spec in specs]
    return None in names or names[0] == names[1]


def _specs_while_reserved(new: Object, old: Object) -> tuple[Object, Object] | None:
    """Both specs, if quota was reserved and both have a priority class source."""
    if not workload_rules.holds(old, "QuotaReserved"):
        return None
    after, before = workload_rules.spec_of(new), workload_rules.spec_of(old)
    return (after, before) if "priorityClassSource" in after and "priorityClassSource" in before else None


_BOTH_HAVE_SOURCE = (
    f"{workload_rules.OLD_RESERVED} && has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)"
)
WORKLOAD_RULES = (
    workload_rules.PODSETS_ASSIGNED,
    Rule(
        cel=f"({_BOTH_HAVE_SOURCE}) ? (oldSelf.spec.priorityClassSource == self.spec.priorityClassSource) : true",
        message="priorityClassSource is immutable while workload quota reserved",
        check=_keeps_source,
    ),
    Rule(
        cel=(
            f"({_BOTH_HAVE_SOURCE} && (self.spec.priorityClassSource != 'kueue.x-k8s.io/workloadpriorityclass') && "
            "has(oldSelf.spec.priorityClassName) && has(self.spec.priorityClassName)) ? "
            "(oldSelf.spec.priorityClassName == self.spec.priorityClassName) : true"
        ),
        message=(
            "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to "
            "kueue.x-k8s.io/workloadpriorityclass"
        ),
        check=_keeps_class,
    ),
    workload_rules.QUEUE_IMMUTABLE,
    workload_rules.EXECUTION_TIME_IMMUTABLE,
)
PRIORITY_WITH_CLASS = Rule(
    cel="has(self.priorityClassName) ? has(self.priority) : true",
    message="priority should not be nil when priorityClassName is set",
    check=lambda own, _: "priorityClassName" not in own or "priority" in own,
)


class _TopologyDomain(structural.Part):
    """Pods in one domain."""

    values: tuple[str, ...]
    count: Int32


def _workload(schema: Schema) -> None:
    _replace_rules(schema, *WORKLOAD_RULES)
    _workload_spec(schema)
    _workload_status(schema)


def _workload_spec(schema: Schema) -> None:
    _replace_rules(_at(schema, "spec"), PRIORITY_WITH_CLASS)
    _drop(schema, "spec.priorityClassRef")
    _drop(schema, "spec.preemptionGates")
    _add(schema, "spec.priorityClassName", Name, description="Name of the class that gave the priority.")
    _add(
        schema,
        "spec.priorityClassSource",
        str,
        enum=list(_SOURCE_OF_CLASS),
        default="",
        description="Kind of that class.",
    )
    _require(schema, "spec", "podSets")
    _require(schema, "spec.podSets[]", "count")
    request = "spec.podSets[].topologyRequest"
    _drop(schema, f"{request}.podsetSliceRequiredTopologyConstraints")
    for field in _at(schema, request)["properties"].values():
        field.pop("maxLength", None)


def _workload_status(schema: Schema) -> None:
    _rename(schema, "status.accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    _drop(schema, "status.preemptionGates")
    _require(schema, "status.admission", "clusterQueue", "podSetAssignments")
    assignment = "status.admission.podSetAssignments[]"
    _require(schema, assignment, "name")
    _without(schema, f"{assignment}.delayedTopologyRequest", "enum", "maxLength")
    topology = f"{assignment}.topologyAssignment"
    _drop(schema, f"{topology}.slices")
    _without(schema, topology, "x-kubernetes-validations")
    _add(schema, f"{topology}.domains", tuple[_TopologyDomain, ...])
    _at(schema, f"{topology}.domains[].values").update(
        {"minItems": 1, "maxItems": 16, "x-kubernetes-list-type": "atomic"}
    )
    _at(schema, f"{topology}.domains[].count")["minimum"] = 1
    _at(schema, topology)["required"] = ["domains", "levels"]
    _at(schema, f"{topology}.levels")["items"] = {"type": "string"}
    _without(schema, "status.admissionChecks[].name", "minLength")
    _without(schema, "status.admissionChecks[].podSetUpdates[].tolerations", "x-kubernetes-list-type")
    _without(schema, "status.clusterName", "maxLength")
    _at(schema, "status.nominatedClusterNames")["items"] = {"type": "string"}
    _without(schema, "status.schedulingStats.evictions", "maxItems")
    _without(schema, "status.unhealthyNodes", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
    _without(schema, "status.unhealthyNodes[].name", "maxLength")


_CHANGES: dict[str, Callable[[Schema], None]] = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multikueue_cluster,
    "MultiKueueConfig": _multikueue_config,
    "ProvisioningRequestConfig": _provisioning_request_config,
    "Workload": _workload,
    "WorkloadPriorityClass": _workload_priority_class,
}
