"""Job kinds that an administrator describes in the Configuration: suspended and guarded like those that Kueue knows.

The rules are attached to every kind without rules of its own, and act only on those that the settings describe.
"""

from pykueue.api.rules.jobs import generic
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Request, Resource, Settings, Verdict


def default(request: Request) -> list[str]:
    described = _described(request)
    if described is not None and request.operation == "CREATE":
        generic.default(request, described)
    return []


def validate(request: Request) -> Verdict:
    described = _described(request)
    if described is None:
        return Verdict()
    found = generic.check_create(request, described)
    if request.old is not None:
        is_suspended = described.is_suspended(request.object)
        found += generic.check_update(request, described, request.old, is_suspended=is_suspended)
    return Verdict(denied=tuple(found), webhook=described.webhook)


def _described(request: Request) -> Framework | None:
    described = request.settings.custom_jobs
    if not described or request.subresource:
        return None
    api_version, kind = str(request.object.get("apiVersion", "")), str(request.object.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    return framework(request.settings, group, version, kind) if (group, kind) in described else None


def framework(settings: Settings, group: str, version: str, kind: str) -> Framework:
    """Of a kind that the settings describe."""
    plural = settings.custom_plurals.get((group, kind), f"{kind.lower()}s")
    return Framework(
        name=f"{group}/{kind.lower()}",
        resource=Resource(group, version, plural, kind, namespaced=True),
        suspend=settings.custom_jobs[group, kind],
        accepts_prebuilt_workload=False,
    )
