"""Workload: defaults and validation of its webhooks. Rules of updates: `workload_update`."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from pykueue.api import errors, fast_validation, feature_gates, quantity, schema_validation
from pykueue.api.builtin import schemas
from pykueue.api.errors import FieldError, Verbatim
from pykueue.api.labels import PRIORITY_BOOST
from pykueue.api.rules import admission_gates, faults, quota, reading, resource_flavor, syntax, workload_update
from pykueue.api.scheme import AdmissionRequest, Object, Schema, ValidationResult

SEVERAL_MIN_COUNTS = "at most one podSet can use minCount"
ADMISSION_REQUIRED = "must be set while the QuotaReserved condition is true"


def default(request: AdmissionRequest) -> None:
    if request.operation == "CREATE" and _has_malformed_quantity(request.object):
        raise errors.undecodable("mworkload.kb.io", quantity.SYNTAX_ERROR)
    if request.operation == "CREATE" and not _is_on(request, "PartialAdmission"):
        for pod_set in reading.mappings(reading.at(request.object, "spec", "podSets")):
            pod_set.pop("minCount", None)


def _has_malformed_quantity(workload: Object) -> bool:
    """Whether a quantity is malformed, so that Kueue cannot decode the Workload."""
    for pod_set in reading.mappings(reading.at(workload, "spec", "podSets")):
        spec = reading.mapping(reading.at(pod_set, "template", "spec"))
        containers = (*reading.mappings(spec.get("initContainers")), *reading.mappings(spec.get("containers")))
        resources = [reading.mapping(holder.get("resources")) for holder in (*containers, spec)]
        lists = [reading.mapping(holder.get(name)) for holder in resources for name in ("requests", "limits")]
        for amounts in (*lists, reading.mapping(spec.get("overhead"))):
            if any(isinstance(amount, str) and reading.amount(amount.strip()) is None for amount in amounts.values()):
                return True
    return False


def validate(request: AdmissionRequest) -> ValidationResult:
    faulty = list(_template_faults(request.object)) if reading.has_changed(request.object, request.old, "spec") else []
    field_errors = _check(request)
    if request.old is not None:
        field_errors += workload_update.check(request, request.old)
    return ValidationResult(
        invalid=(*faulty, schema_validation.UNCHECKED) if faulty else (),
        denied=tuple(field_errors),
        warnings=tuple(_warnings(request.object)),
        webhook="vworkload.kb.io",
    )


@functools.cache
def _template_schema() -> Schema:
    schema: Schema = schemas.of_kind("v1", "PodTemplate")["properties"]["template"]
    return schema


def _template_faults(workload: Object) -> Iterator[FieldError]:
    """What a pod template lacks, and fields of another type.

    The schema of a Workload preserves templates, so that fields of a newer Kubernetes survive.
    """
    for index, pod_set in enumerate(reading.mappings(reading.at(workload, "spec", "podSets"))):
        template = pod_set.get("template")
        if isinstance(template, dict) and not fast_validation.is_certainly_valid(_template_schema(), template):
            path = f"spec.podSets[{index}].template"
            yield from schema_validation.structure_faults(_template_schema(), template, path)


def _is_on(request: AdmissionRequest, gate: str) -> bool:
    return feature_gates.is_enabled(request.settings.feature_gates, gate)


def _warnings(workload: Object) -> Iterator[str]:
    for index, pod_set in enumerate(reading.mappings(reading.at(workload, "spec", "podSets"))):
        count = reading.integer(reading.at(pod_set, "topologyRequest", "subGroupCount"))
        if count < 0:
            path = f"spec.podSets[{index}].topologyRequest.subGroupCount"
            yield f"{path}: negative value {count} is deprecated and will be rejected in a future release"


def _check(request: AdmissionRequest) -> list[FieldError]:
    workload = request.object
    field_errors: list[FieldError] = []
    if reading.has_changed(request.object, request.old, "spec"):
        pod_sets = reading.mappings(reading.at(workload, "spec", "podSets"))
        for index, pod_set in enumerate(pod_sets):
            field_errors += _check_pod_set(request, f"spec.podSets[{index}]", pod_set)
        field_errors += _check_variable_counts(request, pod_sets)
    if reading.is_condition_true(workload, "QuotaReserved"):
        field_errors += _check_admission(workload, request.old)
    field_errors += syntax.check_conditions(
        "status.conditions", reading.sequence(reading.at(workload, "status", "conditions"))
    )
    if reading.at(workload, "status", "reclaimablePods"):
        field_errors += _check_reclaimable_pods(request)
    if reading.at(workload, "status", "admissionChecks"):
        field_errors += _check_pod_set_updates(workload)
    if _is_on(request, "AdmissionGatedBy"):
        field_errors += admission_gates.check(workload)
    if _is_on(request, "PriorityBoost"):
        field_errors += _check_priority_boost(workload)
    return field_errors


def _check_pod_set(request: AdmissionRequest, path: str, pod_set: Object) -> Iterator[FieldError]:
    template = reading.mapping(pod_set.get("template"))
    if _is_on(request, "WorkloadValidationForPodSetMetadata"):
        yield from syntax.check_labels(f"{path}.template.metadata.labels", reading.labels(template))
        yield from syntax.check_annotations(f"{path}.template.metadata.annotations", reading.annotations(template))
    spec = reading.mapping(template.get("spec"))
    has_sign = not _is_on(request, "WorkloadValidateResourcesAreNonNegative")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(reading.mappings(spec.get(field))):
            here = f"{path}.template.spec.{field}[{index}].resources"
            yield from _check_resources(here, container.get("resources"), may_be_negative=has_sign)
    yield from _check_resources(f"{path}.template.spec.resources", spec.get("resources"), may_be_negative=has_sign)
    if _is_on(request, "TASValidateWorkloadSliceSize"):
        yield from _check_slices(f"{path}.topologyRequest", reading.mapping(pod_set.get("topologyRequest")))


def _check_resources(path: str, resources: Any, *, may_be_negative: bool) -> Iterator[FieldError]:
    for field in ("requests", "limits"):
        for name, amount in reading.amounts(reading.at(resources, field)).items():
            here = f"{path}.{field}[{name}]"
            if name == "pods":
                yield faults.invalid(here, name, "the key is reserved for internal kueue use")
            if not may_be_negative:
                yield from quota.check_not_negative(here, amount)


def _check_slices(path: str, request: Object) -> Iterator[FieldError]:
    size, here = request.get("podSetSliceSize"), f"{path}.podSetSliceSize"
    if request.get("podSetSliceRequiredTopology") is None:
        if size is not None:
            yield faults.forbidden(here, "may not be set when podSetSliceRequiredTopology is not specified")
    elif size is None:
        yield faults.required(here, "must be set when podSetSliceRequiredTopology is specified")
    elif reading.integer(size, 1) <= 0:
        yield faults.invalid(here, size, "must be greater than 0")
    constraints = reading.mappings(request.get("podsetSliceRequiredTopologyConstraints"))
    for index, constraint in enumerate(constraints):
        if reading.integer(constraint.get("size")) <= 0:
            here = f"{path}.podsetSliceRequiredTopologyConstraints[{index}].size"
            yield faults.invalid(here, constraint.get("size", 0), "must be greater than 0")


def _check_variable_counts(request: AdmissionRequest, pod_sets: list[Object]) -> Iterator[FieldError]:
    variable = sum(pod_set.get("minCount") is not None for pod_set in pod_sets)
    if variable > 1:
        yield faults.invalid("spec.podSets", variable, SEVERAL_MIN_COUNTS)
    if variable and workload_update.is_elastic(request, request.object):
        yield faults.invalid("spec.podSets", variable, workload_update.PARTIAL_AND_ELASTIC)


def _check_admission(workload: Object, old: Object | None) -> Iterator[FieldError]:
    admission = reading.at(workload, "status", "admission")
    if admission is None:
        if old is None or not _reserves_without_admission(old):
            yield faults.required("status.admission", ADMISSION_REQUIRED)
        return
    names = workload_update.pod_set_counts(workload)
    for index, assignment in enumerate(reading.mappings(reading.at(admission, "podSetAssignments"))):
        path = f"status.admission.podSetAssignments[{index}]"
        if reading.text(assignment.get("name")) not in names:
            yield faults.not_found(f"{path}.name", assignment.get("name"))
        count = reading.integer(assignment.get("count"))
        for name, amount in reading.amounts(assignment.get("resourceUsage")).items():
            value = amount.milli() if name == "cpu" else amount.units()
            if count > 0 and value % count:
                value_text = Verbatim(f'"{amount}"')
                yield faults.invalid(f"{path}.resourceUsage[{name}]", value_text, f"is not a multiple of {count}")


def _reserves_without_admission(workload: Object) -> bool:
    is_reserved = reading.is_condition_true(workload, "QuotaReserved")
    return is_reserved and reading.at(workload, "status", "admission") is None


def _check_reclaimable_pods(request: AdmissionRequest) -> Iterator[FieldError]:
    workload = request.object
    counts = workload_update.pod_set_counts(workload)
    before = workload_update.reclaimable_counts(request.old or {})
    may_be_stale = workload_update.is_elastic(request, workload)
    for name, count in workload_update.reclaimable_counts(workload).items():
        path = f"status.reclaimablePods[{name}]"
        if name not in counts:
            yield faults.not_supported(f"{path}.name", name, counts)
        elif count > counts[name] and not (may_be_stale and before.get(name) == count):
            yield faults.invalid(f"{path}.count", count, f"should be less or equal to {counts[name]}")


def _check_pod_set_updates(workload: Object) -> Iterator[FieldError]:
    names = sorted(workload_update.pod_set_counts(workload))
    for index, check in enumerate(reading.mappings(reading.at(workload, "status", "admissionChecks"))):
        for position, update in enumerate(reading.mappings(check.get("podSetUpdates"))):
            path = f"status.admissionChecks[{index}].podSetUpdates[{position}]"
            if update.get("name") not in names:
                yield faults.not_supported(f"{path}.name", update.get("name"), names)
            yield from resource_flavor.check_tolerations(f"{path}.tolerations", update.get("tolerations"))
            yield from syntax.check_annotations(f"{path}.annotations", reading.text_map(update.get("annotations")))
            yield from syntax.check_labels(f"{path}.nodeSelector", reading.text_map(update.get("nodeSelector")))
            yield from syntax.check_labels(f"{path}.labels", reading.text_map(update.get("labels")))


def _check_priority_boost(workload: Object) -> Iterator[FieldError]:
    value = reading.annotation(workload, PRIORITY_BOOST)
    path = f"metadata.annotations[{PRIORITY_BOOST}]"
    if value == "":
        detail = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        yield faults.invalid(path, value, detail)
    elif value is not None and not _is_int32(value):
        yield faults.invalid(path, value, "must be a valid signed integer")


def _is_int32(value: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,10}", value, re.ASCII) is not None and -(2**31) <= int(value) < 2**31
