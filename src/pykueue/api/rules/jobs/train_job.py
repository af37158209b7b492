"""TrainJob: made of a runtime, to which Kueue adds a patch of its own."""

from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import frameworks, generic
from pykueue.api.scheme import Object, Request, Verdict

FRAMEWORK = frameworks.TRAIN_JOB
PATCH: Object = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}
"""The place where an admission writes what it gives to the pods."""


def default(request: Request) -> list[str]:
    if request.operation != "CREATE":
        return []
    generic.default(request, FRAMEWORK)
    spec = reading.inner(request.object, "spec")
    spec["runtimePatches"] = [*reading.sequence(spec.get("runtimePatches")), PATCH]
    return []


def validate(request: Request) -> Verdict:
    """Without its templates, which stand in the runtime and its patches."""
    found: list[FieldError] = []
    if request.old is not None:
        is_suspended = FRAMEWORK.is_suspended(request.object)
        found += generic.check_update(request, FRAMEWORK, request.old, is_suspended=is_suspended)
    found += generic.check_create(request, FRAMEWORK)
    return Verdict(denied=tuple(found), webhook=FRAMEWORK.webhook)
