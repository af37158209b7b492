"""Job kinds that the Configuration describes (`integrations.custom`).

They are suspended and validated like those that Kueue supports. These rules are attached to every
kind without rules of its own, and act only on the kinds that the settings describe.
"""

from pykueue.api.rules.jobs import generic
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Resource, Settings, ValidationResult


def default(request: AdmissionRequest) -> None:
    job_kind = _job_kind_of(request)
    if job_kind is not None and request.operation == "CREATE":
        generic.default(request, job_kind)


def validate(request: AdmissionRequest) -> ValidationResult:
    job_kind = _job_kind_of(request)
    if job_kind is None:
        return ValidationResult()
    field_errors = generic.check_create(request, job_kind)
    if request.old is not None:
        is_suspended = job_kind.is_suspended(request.object)
        field_errors += generic.check_update(request, job_kind, request.old, is_suspended=is_suspended)
    return ValidationResult(denied=tuple(field_errors), webhook=job_kind.webhook)


def _job_kind_of(request: AdmissionRequest) -> JobKind | None:
    custom_jobs = request.settings.custom_jobs
    if not custom_jobs or request.subresource:
        return None
    api_version, kind = str(request.object.get("apiVersion", "")), str(request.object.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    return described_job_kind(request.settings, group, version, kind) if (group, kind) in custom_jobs else None


def described_job_kind(settings: Settings, group: str, version: str, kind: str) -> JobKind:
    """The JobKind of a kind that the settings describe."""
    plural = settings.custom_plurals.get((group, kind), f"{kind.lower()}s")
    return JobKind(
        name=f"{group}/{kind.lower()}",
        resource=Resource(group, version, plural, kind, namespaced=True),
        suspend=settings.custom_jobs[group, kind],
        accepts_prebuilt_workload=False,
    )
