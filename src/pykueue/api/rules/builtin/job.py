"""batch/v1 Job and CronJob: defaults, validation, and what may change in an update."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.json_copy import copied
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import pod_spec
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

_NOT_NEGATIVE = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MOST_INDEXED_PARALLELISM = 100_000
_UNLIMITED_BACKOFF = 2**31 - 1
_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_UID_LABEL = "batch.kubernetes.io/controller-uid"
_UID_LABELS = (_UID_LABEL, "controller-uid")


def default(request: AdmissionRequest) -> None:
    job = request.object
    spec = job.get("spec")
    if request.subresource or not isinstance(spec, dict):
        return
    if reading.has_changed(job, request.old, "spec"):
        default_spec(spec)
    template_labels = reading.labels(reading.mapping(spec.get("template")))
    metadata = reading.mapping(job.get("metadata"))
    if template_labels and not metadata.get("labels"):
        metadata["labels"] = template_labels
    if request.operation == "CREATE":
        job.setdefault("status", {})


def default_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _UNLIMITED_BACKOFF)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    spec.setdefault("manualSelector", False)
    pod_spec.default_template(spec.get("template"))


def generate_selector(request: AdmissionRequest) -> None:
    """Set the selector and the labels by which a Job owns its pods.

    They contain the uid, so that this runs after every other default.
    """
    spec, metadata = request.object.get("spec"), reading.mapping(request.object.get("metadata"))
    uid, name = metadata.get("uid"), metadata.get("name")
    if request.operation != "CREATE" or not isinstance(spec, dict) or spec.get("manualSelector") is True:
        return
    template = spec.get("template")
    if not uid or not name or not isinstance(template, dict):
        return
    labels = reading.ensure_mapping(reading.ensure_mapping(template, "metadata"), "labels")
    for label in _NAME_LABELS:
        labels.setdefault(label, name)
    for label in _UID_LABELS:
        labels.setdefault(label, uid)
    reading.ensure_mapping(reading.ensure_mapping(spec, "selector"), "matchLabels").setdefault(_UID_LABEL, uid)


def default_cron_job(request: AdmissionRequest) -> None:
    spec = request.object.get("spec")
    if not isinstance(spec, dict):
        return
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = reading.ensure_mapping(spec, "jobTemplate")
    template.setdefault("metadata", {})
    pod_spec.default_template(reading.at(template, "spec", "template"))
    if request.operation == "CREATE":
        request.object.setdefault("status", {})


def validate(request: AdmissionRequest) -> ValidationResult:
    if request.subresource or not reading.has_changed(request.object, request.old, "spec"):
        return ValidationResult()
    spec = reading.mapping(request.object.get("spec"))
    field_errors = [*check_spec("spec", spec)]
    if request.old is not None:
        field_errors += _check_change(spec, request.old)
    return ValidationResult(invalid=tuple(field_errors))


def check_spec(path: str, spec: Object) -> Iterator[FieldError]:
    for name in _NOT_NEGATIVE:
        if (value := reading.integer(spec.get(name))) < 0:
            yield faults.invalid(f"{path}.{name}", value, faults.NEGATIVE)
    if (manager := spec.get("managedBy")) is not None:
        yield from syntax.check_domain_prefixed_path(f"{path}.managedBy", reading.text(manager))
    yield from _check_completion_mode(path, spec)
    yield from pod_spec.check_template(f"{path}.template", spec.get("template"))
    policy, here = reading.at(spec, "template", "spec", "restartPolicy"), f"{path}.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        yield faults.required(here, 'valid values: "OnFailure", "Never"')
    elif spec.get("podFailurePolicy") is not None and policy == "OnFailure":
        yield faults.invalid(here, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_completion_mode(path: str, spec: Object) -> Iterator[FieldError]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        if spec.get("completions") is None:
            yield faults.required(f"{path}.completions", "when completion mode is Indexed")
        parallelism = reading.integer(spec.get("parallelism"))
        if parallelism > _MOST_INDEXED_PARALLELISM:
            detail = f"must be less than or equal to {_MOST_INDEXED_PARALLELISM} when completion mode is Indexed"
            yield faults.invalid(f"{path}.parallelism", parallelism, detail)
    elif mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec.get(name) is not None:
                yield faults.invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    else:
        yield faults.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))


def _check_change(spec: Object, old: Object) -> Iterator[FieldError]:
    before = reading.mapping(old.get("spec"))
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from faults.changed("spec.completions", completions, before.get("completions"))
    elif completions not in (None, before.get("completions"), spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        yield faults.invalid("spec.completions", completions, detail)
    yield from faults.changed("spec.selector", spec.get("selector"), before.get("selector"))
    yield from _check_template_change(spec, old)
    for name in _IMMUTABLE:
        yield from faults.changed(f"spec.{name}", spec.get(name), before.get(name))


def _check_template_change(spec: Object, old: Object) -> list[FieldError]:
    after, before = reading.mapping(spec.get("template")), reading.mapping(reading.at(old, "spec", "template"))
    if after == before:
        return []
    if _is_suspended_without_pods(old) and _without_placement(after) == _without_placement(before):
        return []
    return [faults.invalid("spec.template", after, faults.IMMUTABLE)]


def _is_suspended_without_pods(job: Object) -> bool:
    """Whether the Job is suspended without pods: placement and requests may still change."""
    is_suspended = reading.at(job, "spec", "suspend") is True
    has_not_started = reading.at(job, "status", "startTime") is None
    has_stopped = reading.is_condition_true(job, "Suspended")
    return (
        is_suspended and (has_not_started or has_stopped) and not reading.integer(reading.at(job, "status", "active"))
    )


def _without_placement(template: Object) -> Object:
    """The template without the fields that may change while a Job is suspended."""
    rest: Object = copied(template)
    metadata, spec = reading.mapping(rest.get("metadata")), reading.mapping(rest.get("spec"))
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    affinity = reading.mapping(spec.get("affinity"))
    affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)
    for field in ("initContainers", "containers"):
        for container in reading.mappings(spec.get(field)):
            container.pop("resources", None)
    if not metadata:
        rest.pop("metadata", None)
    return rest
