"""Job kinds that an administrator describes in the Configuration: suspended and guarded like those that Kueue knows.

The rules are attached to every kind without rules of its own, and act only on those that the settings describe.
"""

from pykueue.api.rules.jobs import generic
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Request, Resource, Verdict


def default(request: Request) -> list[str]:
    framework = _framework(request)
    if framework is not None and request.operation == "CREATE":
        generic.default(request, framework)
    return []


def validate(request: Request) -> Verdict:
    framework = _framework(request)
    if framework is None:
        return Verdict()
    found = generic.check_create(request, framework)
    if request.old is not None:
        is_suspended = framework.is_suspended(request.object)
        found += generic.check_update(request, framework, request.old, is_suspended=is_suspended)
    return Verdict(denied=tuple(found), webhook=framework.webhook)


def _framework(request: Request) -> Framework | None:
    described = request.settings.custom_jobs
    if not described or request.subresource:
        return None
    api_version, kind = str(request.object.get("apiVersion", "")), str(request.object.get("kind", ""))
    group, _, version = api_version.rpartition("/")
    suspend = described.get((group, kind))
    if suspend is None:
        return None
    resource = Resource(group, version, f"{kind.lower()}s", kind, namespaced=True)
    return Framework(
        name=f"{group}/{kind.lower()}", resource=resource, suspend=suspend, accepts_prebuilt_workload=False
    )
