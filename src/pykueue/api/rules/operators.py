"""Defaults that the operators' own webhooks set, for the embedded API server.

A cluster has these webhooks with the operators, so that they are not part of Kueue's webhooks.
"""

from pykueue.api.rules import reading
from pykueue.api.scheme import AdmissionRequest, Object


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


def _set_default(fields: Object, name: str, value: object) -> None:
    if fields.get(name) is None:
        fields[name] = value
