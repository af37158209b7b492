"""TrainJob: it refers to a runtime, and Kueue adds a runtime patch."""

from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import generic, job_kinds
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

JOB_KIND = job_kinds.TRAIN_JOB
PATCH: Object = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}
"""The runtime patch into which Kueue writes the node selectors and tolerations of an admission."""


def default(request: AdmissionRequest) -> None:
    if request.operation != "CREATE":
        return
    generic.default(request, JOB_KIND)
    spec = reading.ensure_mapping(request.object, "spec")
    spec["runtimePatches"] = [*reading.sequence(spec.get("runtimePatches")), PATCH]


def validate(request: AdmissionRequest) -> ValidationResult:
    """Validate without the pod templates, which are in the runtime and its patches."""
    field_errors: list[FieldError] = []
    if request.old is not None:
        is_suspended = JOB_KIND.is_suspended(request.object)
        field_errors += generic.check_update(request, JOB_KIND, request.old, is_suspended=is_suspended)
    field_errors += generic.check_create(request, JOB_KIND)
    return ValidationResult(denied=tuple(field_errors), webhook=JOB_KIND.webhook)
