"""Validation of the kinds that create pods or Jobs, and of Services."""

from collections.abc import Iterator

from pykueue.api import selectors
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import job, pod_spec, volumes
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult


def validate_replicated(request: AdmissionRequest) -> ValidationResult:
    """Deployment, ReplicaSet, StatefulSet and DaemonSet."""
    if request.subresource:
        return ValidationResult()
    spec = reading.mapping(request.object.get("spec"))
    field_errors = [*_check_selector(spec), *pod_spec.check_template("spec.template", _template(spec))]
    replicas = reading.integer(spec.get("replicas"))
    if replicas < 0:
        field_errors.insert(0, faults.invalid("spec.replicas", replicas, faults.NEGATIVE))
    before = reading.at(request.old, "spec", "selector")
    if before is not None:
        field_errors += faults.changed("spec.selector", spec.get("selector"), before)
    return ValidationResult(invalid=tuple(field_errors))


def _template(spec: Object) -> object:
    """The pod template; that of a StatefulSet with the volumes of its claim templates."""
    if not spec.get("volumeClaimTemplates"):
        return spec.get("template")
    template = reading.mapping(spec.get("template"))
    pod = reading.mapping(template.get("spec"))
    return {**template, "spec": {**pod, "volumes": volumes.with_claim_templates(spec, "0")}}


def validate_replication_controller(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    spec = reading.mapping(request.object.get("spec"))
    selector, labels = reading.text_map(spec.get("selector")), reading.labels(reading.mapping(spec.get("template")))
    field_errors = []
    if not selector:
        field_errors.append(faults.required("spec.selector"))
    elif not isinstance(spec.get("template"), dict):
        field_errors.append(faults.required("spec.template"))
    elif not selector.items() <= labels.items():
        detail = "`selector` does not match template `labels`"
        field_errors.append(faults.invalid("spec.template.metadata.labels", labels, detail))
    return ValidationResult(invalid=(*field_errors, *pod_spec.check_template("spec.template", spec.get("template"))))


def validate_cron_job(request: AdmissionRequest) -> ValidationResult:
    spec = reading.mapping(request.object.get("spec"))
    field_errors = [*job.check_spec("spec.jobTemplate.spec", reading.mapping(reading.at(spec, "jobTemplate", "spec")))]
    schedule = reading.text(spec.get("schedule"))
    fields = schedule.split()
    if not schedule:
        field_errors.append(faults.required("spec.schedule"))
    elif not schedule.startswith("@") and len(fields) != 5:
        detail = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        field_errors.append(faults.invalid("spec.schedule", schedule, detail))
    return ValidationResult(invalid=tuple(field_errors))


def validate_config_map(request: AdmissionRequest) -> ValidationResult:
    """The keys of a ConfigMap become file names in volumes."""
    field_errors = [*_check_keys(request.object, "data"), *_check_keys(request.object, "binaryData")]
    data = reading.mapping(request.object.get("data"))
    field_errors += [
        faults.invalid(f"data[{key}]", key, f"duplicate of key present in binaryData: {key}")
        for key in reading.mapping(request.object.get("binaryData"))
        if key in data
    ]
    return ValidationResult(invalid=(*field_errors, *_check_immutable(request, ("data", "binaryData"))))


def validate_secret(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult(invalid=(*_check_keys(request.object, "data"), *_check_immutable(request, ("data",))))


def _check_keys(obj: Object, field: str) -> Iterator[FieldError]:
    for key in reading.mapping(obj.get(field)):
        yield from volumes.check_config_key(f"{field}[{key}]", key)


def _check_immutable(request: AdmissionRequest, fields: tuple[str, ...]) -> Iterator[FieldError]:
    if request.old is None or request.old.get("immutable") is not True:
        return
    if request.object.get("immutable") is not True:
        yield faults.forbidden("immutable", "field is immutable when `immutable` is set")
    for field in fields:
        if reading.mapping(request.object.get(field)) != reading.mapping(request.old.get(field)):
            yield faults.forbidden(field, "field is immutable when `immutable` is set")


def validate_service(request: AdmissionRequest) -> ValidationResult:
    spec = reading.mapping(request.object.get("spec"))
    needs_ports = spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None"
    if needs_ports and not spec.get("ports"):
        return ValidationResult(invalid=(faults.required("spec.ports"),))
    return ValidationResult()


def _check_selector(spec: Object) -> Iterator[FieldError]:
    selector, labels = spec.get("selector"), reading.at(spec, "template", "metadata", "labels")
    if not isinstance(selector, dict):
        yield faults.required("spec.selector")
        return
    wrong = syntax.check_label_selector("spec.selector", selector)
    yield from wrong
    if not wrong and not (selector and selectors.selects(selector, reading.text_map(labels))):
        yield faults.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
