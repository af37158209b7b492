"""The rules of all job kinds."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.labels import ELASTIC_JOB, MAX_EXEC_TIME_SECONDS, PREBUILT_WORKLOAD_NAME, PRIORITY_CLASS, QUEUE_NAME
from pykueue.api.rules import admission_gates, faults, reading, syntax, workload_update
from pykueue.api.rules.jobs import management
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Object

PRIORITY_CLASS_ADDED = "WorkloadPriorityClass cannot be added to a non-suspended workload"
PRIORITY_CLASS_REMOVED = "WorkloadPriorityClass cannot be removed from a workload"
QUEUE_REMOVED = "queue-name must not be empty in namespace with default queue"

LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"
QUEUE_PATH = f"{LABELS}[{QUEUE_NAME}]"
_ELASTIC_PATH = f"{ANNOTATIONS}[{ELASTIC_JOB}]"
_PRIORITY_PATH = f"{LABELS}[{PRIORITY_CLASS}]"
_MAX_EXEC_TIME_PATH = f"{LABELS}[{MAX_EXEC_TIME_SECONDS}]"


def default(request: AdmissionRequest, job_kind: JobKind) -> None:
    """The defaults of every job that can be suspended, at its creation."""
    management.apply_default_queue(request)
    management.apply_default_priority_class(request)
    if management.should_be_suspended(request) and not job_kind.is_suspended(request.object):
        job_kind.set_suspended(request.object)
    management.apply_managed_by(request, job_kind)


def check_create(request: AdmissionRequest, job_kind: JobKind) -> list[FieldError]:
    job = request.object
    field_errors = [*check_queue_name(job), *_check_prebuilt(request, job_kind), *_check_max_exec_time(job)]
    return [*field_errors, *check_elastic(request, job_kind), *check_gates(request)]


def check_update(request: AdmissionRequest, job_kind: JobKind, old: Object, *, is_suspended: bool) -> list[FieldError]:
    """`is_suspended` is about the new object.

    The old object was suspended if its suspend field says so, or as the new one is if the kind has
    no such field.
    """
    new = request.object
    was_suspended = job_kind.is_suspended(old) if job_kind.suspend else is_suspended
    field_errors = list(_check_queue_change(request, old, is_suspended=is_suspended))
    field_errors += _check_prebuilt_change(request, job_kind, old, is_suspended=is_suspended)
    if not is_suspended or not was_suspended:
        times = (reading.label(version, MAX_EXEC_TIME_SECONDS) or "" for version in (new, old))
        field_errors += faults.changed(_MAX_EXEC_TIME_PATH, *times)
    field_errors += check_priority_class_change(new, old, is_suspended=is_suspended)
    is_elastic = workload_update.is_elastic(request, new)
    if is_elastic != workload_update.is_elastic(request, old):
        field_errors.append(faults.invalid(_ELASTIC_PATH, is_elastic, faults.IMMUTABLE))
    return field_errors + check_gates(request)


def check_queue_name(job: Object) -> list[FieldError]:
    return _check_subdomain(QUEUE_PATH, reading.label(job, QUEUE_NAME))


def check_elastic(request: AdmissionRequest, job_kind: JobKind) -> list[FieldError]:
    if job_kind.can_be_elastic or not workload_update.is_elastic(request, request.object):
        return []
    return [faults.forbidden(_ELASTIC_PATH, f'elastic job is not supported for "{job_kind.group_version_kind}"')]


def check_gates(request: AdmissionRequest) -> list[FieldError]:
    if not management.is_on(request, "AdmissionGatedBy"):
        return []
    if request.old is None:
        return admission_gates.check(request.object)
    return admission_gates.check_update(request.object, request.old)


def check_priority_class_change(new: Object, old: Object, *, is_suspended: bool) -> list[FieldError]:
    after, before = reading.label(new, PRIORITY_CLASS) or "", reading.label(old, PRIORITY_CLASS) or ""
    if after and not before and not is_suspended:
        return [faults.invalid(_PRIORITY_PATH, after, PRIORITY_CLASS_ADDED)]
    if before and not after:
        return [faults.invalid(_PRIORITY_PATH, after, PRIORITY_CLASS_REMOVED)]
    return []


def prebuilt_workload(request: AdmissionRequest, job: Object) -> tuple[str, str]:
    """The name of the Workload that the job adopts, and the path of its label or annotation."""
    label = reading.label(job, PREBUILT_WORKLOAD_NAME) or ""
    if annotation := reading.annotation(job, PREBUILT_WORKLOAD_NAME):
        prefers_annotation = management.is_on(request, "WorkloadIdentifierAnnotations")
        is_too_long_for_label = len(annotation) > syntax.LABEL_VALUE_LENGTH
        if prefers_annotation or (is_too_long_for_label and not label):
            return annotation, f"{ANNOTATIONS}[{PREBUILT_WORKLOAD_NAME}]"
    return label, f"{LABELS}[{PREBUILT_WORKLOAD_NAME}]"


def _check_subdomain(path: str, value: str | None) -> list[FieldError]:
    explanations = [] if value is None else syntax.dns_subdomain(value)
    return [faults.invalid(path, value, ",".join(explanations))] if explanations else []


def _check_prebuilt(request: AdmissionRequest, job_kind: JobKind) -> list[FieldError]:
    name, path = prebuilt_workload(request, request.object)
    if not name and reading.label(request.object, PREBUILT_WORKLOAD_NAME) is None:
        return []
    field_errors = _check_subdomain(path, name)
    if name and not job_kind.accepts_prebuilt_workload:
        field_errors.append(faults.forbidden(path, f'Is not supported for "{job_kind.group_version_kind}"'))
    return field_errors


def _check_prebuilt_change(
    request: AdmissionRequest, job_kind: JobKind, old: Object, *, is_suspended: bool
) -> list[FieldError]:
    if is_suspended or workload_update.is_elastic(request, old):
        return _check_prebuilt(request, job_kind)
    name, path = prebuilt_workload(request, request.object)
    return faults.changed(path, name, prebuilt_workload(request, old)[0])


def _check_max_exec_time(job: Object) -> Iterator[FieldError]:
    text = reading.label(job, MAX_EXEC_TIME_SECONDS)
    if text is None:
        return
    try:
        seconds = syntax.atoi(text)
    except syntax.GoSyntaxError as error:
        yield faults.invalid(_MAX_EXEC_TIME_PATH, text, str(error))
        return
    if seconds <= 0:
        yield faults.invalid(_MAX_EXEC_TIME_PATH, seconds, "should be greater than 0")


def _check_queue_change(request: AdmissionRequest, old: Object, *, is_suspended: bool) -> Iterator[FieldError]:
    after, before = management.queue_name(request.object), management.queue_name(old)
    if not is_suspended:
        yield from faults.changed(QUEUE_PATH, after, before)
    if before and not after and management.default_queue_exists(request):
        yield faults.invalid(QUEUE_PATH, "", QUEUE_REMOVED)
