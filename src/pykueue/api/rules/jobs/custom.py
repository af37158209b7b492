"""Job kinds that an administrator describes in the Configuration: suspended and guarded like those that Kueue knows.

The rules are attached to every kind without rules of its own, and act only on those that the settings describe.
"""

from pykueue.api.rules.jobs import generic
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Resource, Settings, ValidationResult


def default(request: AdmissionRequest) -> None:
    described = _described(request)
    if described is not None and request.operation == "CREATE":
        generic.default(request, described)


def validate(request: AdmissionRequest) -> ValidationResult:
    described = _described(request)
    if described is None:
        return ValidationResult()
    found = generic.check_create(request, described)
    if request.old is not None:
        is_suspended = described.is_suspended(request.object)
        found += generic.check_update(request, described, request.old, is_suspended=is_suspended)
    return ValidationResult(denied=tuple(found), webhook=described.webhook)


def _described(request: AdmissionRequest) -> JobKind | None:
    described = request.settings.custom_jobs
    if not described or request.subresource:
        return None
    api_version, kind = str(request.object.get("apiVersion", "")), str(request.object.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    return job_kind(request.settings, group, version, kind) if (group, kind) in described else None


def job_kind(settings: Settings, group: str, version: str, kind: str) -> JobKind:
    """Of a kind that the settings describe."""
    plural = settings.custom_plurals.get((group, kind), f"{kind.lower()}s")
    return JobKind(
        name=f"{group}/{kind.lower()}",
        resource=Resource(group, version, plural, kind, namespaced=True),
        suspend=settings.custom_jobs[group, kind],
        accepts_prebuilt_workload=False,
    )
