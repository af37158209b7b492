"""batch/v1 Job: partial admission, synchronised completions, placement."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.labels import (
    ELASTIC_JOB,
    JOB_COMPLETIONS_EQUAL_PARALLELISM,
    JOB_MIN_PARALLELISM,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
)
from pykueue.api.rules import faults, reading, syntax, workload_update
from pykueue.api.rules.jobs import generic, job_kinds, management, topology
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

PARALLELISM_IMMUTABLE = "cannot change when partial admission is enabled and the job is not suspended"

_JOB_KIND = job_kinds.BATCH_JOB
_MIN_PATH = f"{generic.ANNOTATIONS}[{JOB_MIN_PARALLELISM}]"
_SYNC_PATH = f"{generic.ANNOTATIONS}[{JOB_COMPLETIONS_EQUAL_PARALLELISM}]"


def default(request: AdmissionRequest) -> None:
    if request.operation != "CREATE":
        return
    generic.default(request, _JOB_KIND)
    if workload_update.is_elastic(request, request.object):
        spec = reading.at(request.object, "spec", "template", "spec")
        management.add_scheduling_gate(reading.mapping(spec), ELASTIC_JOB)


def validate(request: AdmissionRequest) -> ValidationResult:
    job, old = request.object, request.old
    field_errors = generic.check_create(request, _JOB_KIND)
    if old is None or reading.annotation(job, JOB_MIN_PARALLELISM) != reading.annotation(old, JOB_MIN_PARALLELISM):
        field_errors += _check_partial_admission(request)
    field_errors += _check_synchronised_completions(job)
    if old is not None:
        is_suspended = _JOB_KIND.is_suspended(job)
        field_errors += generic.check_update(request, _JOB_KIND, old, is_suspended=is_suspended)
        field_errors += _check_change(job, old)
    field_errors += _check_topology(request)
    return ValidationResult(denied=tuple(field_errors), webhook=_JOB_KIND.webhook)


def pods_count(job: Object) -> int:
    spec = reading.mapping(job.get("spec"))
    parallelism = reading.integer(spec.get("parallelism"), 1)
    return min(parallelism, reading.integer(spec.get("completions"), parallelism))


def _check_partial_admission(request: AdmissionRequest) -> Iterator[FieldError]:
    text = reading.annotation(request.object, JOB_MIN_PARALLELISM)
    if text is None:
        return
    try:
        least = syntax.atoi(text)
    except syntax.GoSyntaxError as error:
        yield faults.invalid(_MIN_PATH, text, str(error))
    else:
        count = pods_count(request.object)
        if not 0 < least < count:
            yield faults.invalid(_MIN_PATH, least, f"should be between 0 and {count - 1}")
    if workload_update.is_elastic(request, request.object):
        yield faults.invalid(_MIN_PATH, text, workload_update.PARTIAL_AND_ELASTIC)


def _check_synchronised_completions(job: Object) -> Iterator[FieldError]:
    text = reading.annotation(job, JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return
    try:
        is_synchronised = syntax.parse_bool(text)
    except syntax.GoSyntaxError as error:
        yield faults.invalid(_SYNC_PATH, text, str(error))
        return
    if not is_synchronised:
        return
    spec = reading.mapping(job.get("spec"))
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        yield faults.invalid(_SYNC_PATH, text, "should not be enabled for NonIndexed jobs")
    if reading.integer(spec.get("parallelism"), 1) != reading.integer(spec.get("completions"), 1):
        detail = f"should be equal to parallelism when {JOB_COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        yield faults.invalid("spec.completions", spec.get("completions"), detail)


def _is_synchronised(job: Object) -> bool:
    try:
        return syntax.parse_bool(reading.annotation(job, JOB_COMPLETIONS_EQUAL_PARALLELISM) or "false")
    except syntax.GoSyntaxError:
        return False


def _check_change(job: Object, old: Object) -> Iterator[FieldError]:
    was_suspended, is_suspended = _JOB_KIND.is_suspended(old), _JOB_KIND.is_suspended(job)
    before, after = (reading.integer(reading.at(version, "spec", "parallelism"), 1) for version in (old, job))
    if reading.annotation(old, JOB_MIN_PARALLELISM) is not None and not was_suspended and before != after:
        yield faults.forbidden("spec.parallelism", PARALLELISM_IMMUTABLE)
    if not was_suspended and not is_suspended and _is_synchronised(old) != _is_synchronised(job):
        yield faults.forbidden(_SYNC_PATH, f"{faults.IMMUTABLE} while the job is not suspended")


def _check_topology(request: AdmissionRequest) -> list[FieldError]:
    job = request.object
    if not management.is_on(request, "TopologyAwareScheduling"):
        return []
    template = topology.Template.of("spec.template", reading.at(job, "spec", "template"), pods_count(job))
    if field_errors := list(topology.check_template(request, template)):
        return field_errors
    if workload_update.is_elastic(request, job):
        for words, name in (("required", POD_SET_REQUIRED_TOPOLOGY), ("preferred", POD_SET_PREFERRED_TOPOLOGY)):
            if name in template.annotations:
                path = f"{template.at()}.{name}"
                return [faults.forbidden(path, f"{words} topology is not supported with elastic jobs")]
    return list(topology.check_upper_bound(template))
