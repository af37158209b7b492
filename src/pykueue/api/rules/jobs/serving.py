"""Deployment and StatefulSet: they cannot be suspended, so their pods get scheduling gates."""

from collections.abc import Iterator

from pykueue.api import resources
from pykueue.api.errors import FieldError
from pykueue.api.labels import MANAGED, POD_SUSPENDING_PARENT, PRIORITY_CLASS, QUEUE_NAME
from pykueue.api.rules import faults, reading
from pykueue.api.rules.jobs import generic, job_kinds, management, pod
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

SCALING_DOWN = "scaling down is still in progress"


def default_deployment(request: AdmissionRequest) -> None:
    if not _mark_template(request, job_kinds.DEPLOYMENT):
        return
    job_kinds.set_nested(request.object, ("spec", "template", "metadata", "labels", MANAGED), value="true")
    copy_labels(request.object, ("spec", "template"))


def copy_labels(job: Object, template: job_kinds.Path) -> None:
    """Copy the labels of the queue and of the priority class to a pod template."""
    for name in (QUEUE_NAME, PRIORITY_CLASS):
        if value := reading.labels(job).get(name):
            job_kinds.set_nested(job, (*template, "metadata", "labels", name), value=value)


def default_stateful_set(request: AdmissionRequest) -> None:
    if not _has_other_parent(request.object):
        _mark_template(request, job_kinds.STATEFUL_SET)


def validate_deployment(request: AdmissionRequest) -> ValidationResult:
    return _result(job_kinds.DEPLOYMENT, check(request, job_kinds.DEPLOYMENT))


def validate_stateful_set(request: AdmissionRequest) -> ValidationResult:
    if _has_other_parent(request.object):
        return ValidationResult()
    field_errors = check(request, job_kinds.STATEFUL_SET)
    if request.old is not None and management.should_be_suspended(request):
        after, before = (
            reading.mapping(reading.at(version, "spec", "template", "spec"))
            for version in (request.object, request.old)
        )
        field_errors += check_role("spec.template.spec", after, before)
        field_errors += _check_replicas(request, request.old)
    return _result(job_kinds.STATEFUL_SET, field_errors)


def _result(job_kind: JobKind, field_errors: list[FieldError]) -> ValidationResult:
    return ValidationResult(denied=tuple(field_errors), webhook=job_kind.webhook)


def _mark_template(request: AdmissionRequest, job_kind: JobKind) -> bool:
    management.apply_default_queue(request)
    management.apply_default_priority_class(request)
    if not management.should_be_suspended(request):
        return False
    path = ("spec", "template", "metadata", "annotations", POD_SUSPENDING_PARENT)
    job_kinds.set_nested(request.object, path, value=job_kind.name)
    return True


def _has_other_parent(stateful_set: Object) -> bool:
    template = reading.mapping(reading.at(stateful_set, "spec", "template"))
    return reading.annotations(template).get(POD_SUSPENDING_PARENT, job_kinds.STATEFUL_SET.name) != "statefulset"


def check(request: AdmissionRequest, job_kind: JobKind) -> list[FieldError]:
    new, old = request.object, request.old
    field_errors = [*generic.check_queue_name(new), *generic.check_elastic(request, job_kind)]
    if old is not None:
        is_suspended = reading.integer(reading.at(old, "status", "readyReplicas")) == 0
        after, before = management.queue_name(new), management.queue_name(old)
        if not is_suspended or not after:
            field_errors += faults.changed(generic.QUEUE_PATH, after, before)
        field_errors += generic.check_priority_class_change(new, old, is_suspended=is_suspended)
    return field_errors + generic.check_gates(request)


def check_role(path: str, new: Object, old: Object) -> Iterator[FieldError]:
    """Check that the pods of both specifications have the same role."""
    after, before = pod.role_fields(new), pod.role_fields(old)
    for name in sorted(after.keys() | before.keys()):
        here, shape, old_shape = f"{path}.{name}", after.get(name), before.get(name)
        if name in ("containers", "initContainers") and len(shape or ()) == len(old_shape or ()):
            yield from _check_containers(here, shape or [], old_shape or [])
        else:
            yield from faults.changed(here, shape, old_shape)


def _check_containers(path: str, after: list[Object], before: list[Object]) -> Iterator[FieldError]:
    for index, (new, old) in enumerate(zip(after, before, strict=True)):
        yield from faults.changed(f"{path}[{index}].ports", new["ports"], old["ports"])
        requests = (new["resources"]["requests"], old["resources"]["requests"])
        yield from faults.changed(f"{path}[{index}].resources.requests", *requests)


def _check_replicas(request: AdmissionRequest, old: Object) -> Iterator[FieldError]:
    after, before = (reading.integer(reading.at(version, "spec", "replicas"), 1) for version in (request.object, old))
    if after and before:
        yield from faults.changed("spec.replicas", after, before)
    if before or not after:
        return
    if reading.integer(reading.at(request.object, "status", "replicas")):
        yield faults.forbidden("spec.replicas", SCALING_DOWN)
    elif any(_is_being_deleted(workload) for workload in _owned_workloads(request, old)):
        yield faults.forbidden("spec.replicas", "workload from previous scale-down is still being deleted")


def _owned_workloads(request: AdmissionRequest, old: Object) -> Iterator[Object]:
    uid = reading.at(old, "metadata", "uid")
    for workload in request.lookup.list(resources.WORKLOAD, reading.namespace(old)):
        owners = reading.mappings(reading.at(workload, "metadata", "ownerReferences"))
        if any(owner.get("uid") == uid for owner in owners):
            yield workload


def _is_being_deleted(workload: Object) -> bool:
    """Whether the workload is being deleted, and not merely on hold after a scale-down to zero."""
    conditions = reading.mappings(reading.at(workload, "status", "conditions"))
    return not any(
        condition.get("type") == "QuotaReserved" and condition.get("reason") == "OnHold" for condition in conditions
    )
