"""Jobs that have a queue are created suspended, by the API server itself, and get the queue `default` where there is one.

Jobs without a queue are never touched, whether pykueue runs or not. A job below a job that is managed is left to that
one. The same decisions in Python: `api.rules.jobs.management`, for the embedded API.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykueue.api.rules.jobs import frameworks, management
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import admission_policies
from pykueue.install.admission_policies import Mutation, Parameter, Subject

_LOCAL_QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", namespaced=True)
_HAS_QUEUE = (
    "has(object.metadata.labels) && "
    f"'{management.QUEUE_NAME}' in object.metadata.labels && object.metadata.labels['{management.QUEUE_NAME}'] != ''"
)


def policies(settings: Settings) -> list[Object]:
    return [policy for framework in suspendable(settings) for policy in of_framework(framework, settings)]


def suspendable(settings: Settings) -> list[Framework]:
    """The enabled kinds that have a field to suspend them, known ones and those described in the Configuration."""
    known = (frameworks.FRAMEWORKS[name] for name in sorted(settings.frameworks))
    custom = (_custom(group, kind, path) for (group, kind), path in settings.custom_jobs.items())
    return [framework for framework in (*known, *custom) if framework.suspend]


def _custom(group: str, kind: str, path: tuple[str, ...]) -> Framework:
    resource = Resource(group, "*", f"{kind.lower()}s", kind, namespaced=True)
    return Framework(name=f"{group}/{kind.lower()}", resource=resource, suspend=path)


def of_framework(framework: Framework, settings: Settings) -> Iterable[Object]:
    name = framework.name.replace("/", "-").replace(".", "-")
    suspend = Mutation(text=_set(framework.suspend, "true"))
    independent = ("independent", f"!({_owned_by(_managed_kinds(settings))})")
    if settings.manage_jobs_without_queue_name:
        subject = _subject(framework, settings.managed_jobs_namespace_selector, independent)
        yield from admission_policies.mutating(f"suspend-all-{name}", subject, [suspend])
    yield from admission_policies.mutating(
        f"suspend-{name}", _subject(framework, None, ("queued", _HAS_QUEUE), independent), [suspend]
    )
    label = Mutation(text=_set(("metadata", "labels"), f"{{'{management.QUEUE_NAME}': 'default'}}"))
    subject = _subject(
        framework, settings.managed_jobs_namespace_selector, ("unqueued", f"!({_HAS_QUEUE})"), independent
    )
    parameter = Parameter(resource=_LOCAL_QUEUE, name="default")
    yield from admission_policies.mutating(f"default-queue-{name}", subject, [label, suspend], parameter=parameter)


def _subject(framework: Framework, selector: Mapping[str, Any] | None, *conditions: tuple[str, str]) -> Subject:
    return Subject(resource=framework.resource, namespace_selector=selector, conditions=conditions)


def _set(path: tuple[str, ...], value: str) -> str:
    """CEL for an object that has this value at this path: `Object{spec: Object.spec{suspend: true}}`."""
    text = value
    for depth in range(len(path) - 1, -1, -1):
        kind = ".".join(("Object", *path[:depth]))
        text = f"{kind}{{{path[depth]}: {text}}}"
    return text


def quoted_kind(group: str, kind: str) -> str:
    return f"'{group}/{kind}'"


def _managed_kinds(settings: Settings) -> list[tuple[str, str]]:
    known = (frameworks.FRAMEWORKS[name].resource for name in sorted(settings.frameworks))
    return [(resource.group, resource.kind) for resource in known]


def _owned_by(kinds: list[tuple[str, str]]) -> str:
    """Whether the controller of the object is one of these kinds, in any version."""
    listed = ", ".join(quoted_kind(group, kind) for group, kind in kinds)
    group = "(o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '')"
    is_managed = f"has(o.controller) && o.controller && ({group} + '/' + o.kind) in [{listed}]"
    return f"has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, {is_managed})"
