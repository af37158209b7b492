"""Defaults and checks of the operators' own webhooks, for the embedded API server.

A cluster has these webhooks with the operators, so that they are not part of Kueue's webhooks.
"""

from pykueue.api.json_copy import copied
from pykueue.api.rules import faults, reading
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult


def default_job_set(request: AdmissionRequest) -> None:
    spec = request.object.get("spec")
    if not request.subresource and isinstance(spec, dict):
        default_job_set_spec(spec)


def default_job_set_spec(spec: Object) -> None:
    """JobSet's webhook: Indexed Jobs, pods that restart on failure, and DNS names."""
    _set_default(spec, "successPolicy", {"operator": "All"})
    _set_default(spec, "startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in reading.mappings(spec.get("replicatedJobs")):
        job_spec = reading.at(replicated, "template", "spec")
        if not isinstance(job_spec, dict):
            continue
        _set_default(job_spec, "completionMode", "Indexed")
        pod_spec = reading.at(job_spec, "template", "spec")
        if isinstance(pod_spec, dict) and not pod_spec.get("restartPolicy"):
            pod_spec["restartPolicy"] = "OnFailure"
    _set_default(spec, "network", {})
    if isinstance(spec["network"], dict):
        _set_default(spec["network"], "enableDNSHostnames", value=True)
        _set_default(spec["network"], "publishNotReadyAddresses", value=True)
    for index, rule in enumerate(reading.mappings(reading.at(spec, "failurePolicy", "rules"))):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"


def validate_job_set(request: AdmissionRequest) -> ValidationResult:
    """JobSet's webhook: its Jobs do not change, but for their placement while it is suspended."""
    old, spec = reading.mapping(reading.at(request.old, "spec")), reading.mapping(request.object.get("spec"))
    if request.old is None or request.subresource or old == spec:
        return ValidationResult()
    before, after = (copied(reading.sequence(version.get("replicatedJobs"))) for version in (old, spec))
    if old.get("suspend") is True or spec.get("suspend") is True:
        for replicated in (*reading.mappings(before), *reading.mappings(after)):
            template = reading.mapping(reading.at(replicated, "template", "spec", "template"))
            for name in ("annotations", "labels"):
                reading.mapping(template.get("metadata")).pop(name, None)
            if not template.get("metadata"):
                template.pop("metadata", None)
            for name in ("nodeSelector", "tolerations", "schedulingGates"):
                reading.mapping(template.get("spec")).pop(name, None)
    field_errors = faults.changed("spec.replicatedJobs", after, before)
    field_errors += faults.changed("spec.managedBy", spec.get("managedBy"), old.get("managedBy"))
    return ValidationResult(invalid=tuple(field_errors))


def _set_default(fields: Object, name: str, value: object) -> None:
    if fields.get(name) is None:
        fields[name] = value
