"""Single pods and pod groups, which get a scheduling gate because they cannot be suspended."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pykueue.api import go_format
from pykueue.api.errors import FieldError
from pykueue.api.labels import (
    ADMISSION_GATE,
    MANAGED,
    POD_GROUP_NAME,
    POD_GROUP_POD_INDEX,
    POD_GROUP_POD_INDEX_LABEL,
    POD_GROUP_TOTAL_COUNT,
    POD_SUSPENDING_PARENT,
    QUEUE_NAME,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    TOPOLOGY_GATE,
)
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.jobs import generic, job_kinds, management, topology
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

MANAGED_IS_TRUE_ONLY = "managed label value can only be 'true'"
GROUP_IS_PREBUILT_WORKLOAD = "prebuilt workload and pod group should be equal"
UNRETRIABLE_STAYS = "unretriable pod group can't be converted to retriable"
"""The label (value "true") and the finalizer of managed pods."""

ROLE_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
"""The fields, besides the containers, in which pods of different roles in a group differ."""

OWNER_IS_MANAGED = f"pod owner is managed by kueue, label '{MANAGED}=true' might lead to unexpected behaviour"
_JOB_KIND = job_kinds.POD
_COUNT_PATH = f"{generic.ANNOTATIONS}[{POD_GROUP_TOTAL_COUNT}]"


def default(request: AdmissionRequest) -> None:
    if request.operation != "CREATE":
        return
    pod = request.object
    has_suspending_parent = reading.annotation(pod, POD_SUSPENDING_PARENT) is not None
    if not has_suspending_parent and not _set_managed_labels(request):
        return
    metadata, spec = reading.ensure_mapping(pod, "metadata"), reading.mapping(pod.get("spec"))
    if not has_suspending_parent and MANAGED not in reading.sequence(metadata.get("finalizers")):
        metadata["finalizers"] = [*reading.sequence(metadata.get("finalizers")), MANAGED]
    management.add_scheduling_gate(spec, ADMISSION_GATE)
    if management.is_on(request, "TopologyAwareScheduling"):
        index_label = reading.annotation(pod, POD_GROUP_POD_INDEX_LABEL)
        if index_label is not None:
            management.set_label(pod, POD_GROUP_POD_INDEX, reading.label(pod, index_label) or "")
        management.add_scheduling_gate(spec, TOPOLOGY_GATE)
    if ROLE_HASH not in reading.annotations(pod):
        job_kinds.set_nested(pod, ("metadata", "annotations", ROLE_HASH), value=role_hash(spec))


def validate(request: AdmissionRequest) -> ValidationResult:
    pod, old = request.object, request.old
    if old is None:
        field_errors = generic.check_create(request, _JOB_KIND)
    else:
        field_errors = generic.check_update(request, _JOB_KIND, old, is_suspended=_is_gated(pod))
    field_errors += [
        *_check_managed_label(pod),
        *_check_group(request),
        *topology.check_template(
            request, topology.Template(path="metadata", annotations=reading.annotations(pod), count=1)
        ),
        *_check_prebuilt_workload(request),
    ]
    has_suspending_parent = reading.annotation(pod, POD_SUSPENDING_PARENT) is not None
    if old is not None:
        field_errors += _check_group_change(request, old)
    warns = old is None or not has_suspending_parent
    return ValidationResult(
        denied=tuple(field_errors), warnings=tuple(_warnings(request)) if warns else (), webhook=_JOB_KIND.webhook
    )


def group_name(request: AdmissionRequest, pod: Object) -> tuple[str, str]:
    """The name of the pod's group, and the path of the label or annotation with the name."""
    annotation = reading.annotation(pod, POD_GROUP_NAME) or ""
    if annotation and management.is_on(request, "WorkloadIdentifierAnnotations"):
        return annotation, f"{generic.ANNOTATIONS}[{POD_GROUP_NAME}]"
    return reading.label(pod, POD_GROUP_NAME) or "", f"{generic.LABELS}[{POD_GROUP_NAME}]"


def role_fields(spec: Object) -> Object:
    """The fields by which Kueue decides whether two pods of a group have the same role."""
    fields: Object = {
        "initContainers": _role_fields_of_containers(spec.get("initContainers")),
        "containers": _role_fields_of_containers(spec.get("containers")),
    }
    for field in ROLE_FIELDS:
        fields[field] = spec.get(field)
    if spec.get("resources") is not None:
        fields["resources"] = go_format.in_go_order(reading.at(spec, "resources", "requests"), "{quantity}")
    return fields


def role_hash(spec: Object) -> str:
    role = go_format.in_go_order(role_fields(spec), "PodSpec")
    text = json.dumps({"spec": dict(sorted(role.items()))}, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _role_fields_of_containers(containers: Any) -> list[Object] | None:
    fields = [
        {
            "resources": {"requests": _canonical(reading.at(container, "resources", "requests"))},
            "ports": container.get("ports"),
        }
        for container in reading.mappings(containers)
    ]
    return fields or None


def _canonical(requests: Any) -> dict[str, str] | None:
    return {name: str(amount) for name, amount in reading.amounts(requests).items()} or None


def _set_managed_labels(request: AdmissionRequest) -> bool:
    """Set the labels of a pod that is managed for itself; return whether it is managed."""
    pod = request.object
    if not management.is_namespace_managed(request) or management.has_managed_ancestor(request):
        return False
    if not management.queue_name(pod) and management.default_queue_exists(request):
        management.set_label(pod, QUEUE_NAME, "default")
    management.apply_default_priority_class(request)
    if not management.queue_name(pod) and not request.settings.manage_jobs_without_queue_name:
        return False
    management.set_label(pod, MANAGED, "true")
    return True


def _is_gated(pod: Object) -> bool:
    gates = reading.mappings(reading.at(pod, "spec", "schedulingGates"))
    return any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _warnings(request: AdmissionRequest) -> Iterator[str]:
    is_labelled = reading.label(request.object, MANAGED) == "true"
    if is_labelled and management.is_owner_managed(request, request.object):
        yield OWNER_IS_MANAGED


def _check_managed_label(pod: Object) -> list[FieldError]:
    if reading.label(pod, MANAGED) in (None, "true"):
        return []
    return [faults.forbidden(f"{generic.LABELS}[{MANAGED}]", MANAGED_IS_TRUE_ONLY)]


def _check_group(request: AdmissionRequest) -> Iterator[FieldError]:
    pod = request.object
    name, path = group_name(request, pod)
    count = reading.annotation(pod, POD_GROUP_TOTAL_COUNT)
    where = "annotation" if path.startswith(generic.ANNOTATIONS) else "label"
    both = f"both the '{POD_GROUP_TOTAL_COUNT}' annotation and the '{POD_GROUP_NAME}' {where} should be set"
    if not name:
        if count is not None:
            yield faults.required(path, both)
        return
    if explanations := syntax.dns_subdomain(name):
        yield faults.invalid(path, name, ",".join(explanations))
    if count is None:
        yield faults.required(_COUNT_PATH, both)
    else:
        yield from _check_total_count(count)


def _check_total_count(text: str) -> Iterator[FieldError]:
    try:
        count = syntax.atoi(text)
    except syntax.GoSyntaxError as error:
        yield faults.invalid(_COUNT_PATH, text, str(error))
        return
    if count < 1:
        detail = f"incorrect annotation value '{POD_GROUP_TOTAL_COUNT}={text}': group total count should be greater than zero"
        yield faults.invalid(_COUNT_PATH, text, detail)


def _check_prebuilt_workload(request: AdmissionRequest) -> list[FieldError]:
    name, path = generic.prebuilt_workload(request, request.object)
    group, _ = group_name(request, request.object)
    if not name or not group or name == group:
        return []
    return [faults.invalid(path, name, GROUP_IS_PREBUILT_WORKLOAD)]


def _check_group_change(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    name, path = group_name(request, request.object)
    was_final, is_final = (
        reading.annotation(version, RETRIABLE_IN_GROUP) == "false" for version in (old, request.object)
    )
    if name and was_final and not is_final:
        yield faults.forbidden(f"{generic.ANNOTATIONS}[{RETRIABLE_IN_GROUP}]", UNRETRIABLE_STAYS)
    before, _ = group_name(request, old)
    if before:
        yield from faults.changed(path, name, before)
