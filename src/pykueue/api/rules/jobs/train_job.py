"""TrainJob: made of a runtime, to which Kueue adds a patch of its own."""

from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import generic, job_kinds
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

JOB_KIND = job_kinds.TRAIN_JOB
PATCH: Object = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}
"""The place where an admission writes what it gives to the pods."""


def default(request: AdmissionRequest) -> None:
    if request.operation != "CREATE":
        return
    generic.default(request, JOB_KIND)
    spec = reading.inner(request.object, "spec")
    spec["runtimePatches"] = [*reading.sequence(spec.get("runtimePatches")), PATCH]


def validate(request: AdmissionRequest) -> ValidationResult:
    """Without its templates, which stand in the runtime and its patches."""
    found: list[FieldError] = []
    if request.old is not None:
        is_suspended = JOB_KIND.is_suspended(request.object)
        found += generic.check_update(request, JOB_KIND, request.old, is_suspended=is_suspended)
    found += generic.check_create(request, JOB_KIND)
    return ValidationResult(denied=tuple(found), webhook=JOB_KIND.webhook)
