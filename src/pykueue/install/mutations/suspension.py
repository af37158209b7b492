"""Jobs that have a queue are created suspended, by the API server itself, and get the queue `default` where there is one.

Jobs without a queue are never touched, whether pykueue runs or not. A job below a job that is managed is left to that
one. What cannot be suspended has its pods held back: `held_pods`. The same decisions in Python: `api.rules.jobs`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pykueue.api import feature_gates, resources
from pykueue.api.rules.jobs import management
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Object, Settings
from pykueue.install import admission_policies, managed_kinds
from pykueue.install.admission_policies import Mutation, Parameter, Subject, put
from pykueue.install.mutations import framework_mutations, pod_gating

_LABEL = "object.metadata.?labels[?'{0}'].orValue('')"
_HAS_QUEUE = f"{_LABEL.format(management.QUEUE_NAME)} != ''"
_HAS_CLASS = f"{_LABEL.format(management.PRIORITY_CLASS)} != ''"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Treatment:
    """What is done to each managed object of a kind."""

    verb: str
    mutations: tuple[Mutation, ...]
    operations: tuple[str, ...] = ("CREATE",)
    conditions: tuple[tuple[str, str], ...] = ()
    respects_namespaces: bool = False
    """Whether even an object with a queue is left alone in a namespace that is not managed."""


def of_framework(job_kind: JobKind, settings: Settings) -> Iterator[Object]:
    name, treatment = job_kind.name.replace("/", "-").replace(".", "-"), _treatment(job_kind, settings)
    independent = ("independent", f"!({managed_kinds.owned(settings)})")
    selector = settings.managed_jobs_namespace_selector

    def subject(selector: Mapping[str, Any] | None, *conditions: tuple[str, str]) -> Subject:
        return Subject(
            resource=job_kind.resource,
            operations=treatment.operations,
            namespace_selector=selector,
            conditions=(*conditions, independent, *treatment.conditions),
        )

    if feature_gates.is_enabled(settings.feature_gates, "WorkloadPriorityClassDefaulting"):
        yield from admission_policies.mutating(
            f"default-priority-{name}",
            subject(selector if treatment.respects_namespaces else None, ("unclassed", f"!({_HAS_CLASS})")),
            [_set_label(management.PRIORITY_CLASS)],
            parameter=Parameter(resource=resources.WORKLOAD_PRIORITY_CLASS, name="default"),
        )
    if settings.manage_jobs_without_queue_name:
        yield from admission_policies.mutating(f"{treatment.verb}-all-{name}", subject(selector), treatment.mutations)
    of_queued = subject(selector if treatment.respects_namespaces else None, ("queued", _HAS_QUEUE))
    yield from admission_policies.mutating(f"{treatment.verb}-{name}", of_queued, treatment.mutations)
    yield from admission_policies.mutating(
        f"default-queue-{name}",
        subject(selector, ("unqueued", f"!({_HAS_QUEUE})")),
        [_set_label(management.QUEUE_NAME), *treatment.mutations],
        parameter=Parameter(resource=resources.LOCAL_QUEUE, name="default"),
    )
    yield from framework_mutations.policies(job_kind, settings)


def _treatment(job_kind: JobKind, settings: Settings) -> _Treatment:
    if job_kind.suspend:
        return _Treatment(verb="suspend", mutations=(Mutation(text=put(job_kind.suspend, "true")),))
    if job_kind == pod_gating.POD:
        return _Treatment(
            verb="hold",
            mutations=pod_gating.of_pods(settings),
            conditions=(pod_gating.WITHOUT_PARENT,),
            respects_namespaces=True,
        )
    return _Treatment(
        verb="hold",
        mutations=pod_gating.of_templates(job_kind, settings),
        operations=("CREATE", "UPDATE"),
        conditions=pod_gating.conditions(job_kind),
    )


def _set_label(key: str) -> Mutation:
    return Mutation(text=put(("metadata", "labels"), f"{{'{key}': 'default'}}"))
