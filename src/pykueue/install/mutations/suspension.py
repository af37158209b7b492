"""Policies that create jobs suspended and set the queue `default`, inside the API server.

Jobs without a queue are not changed, whether pykueue runs or not. A job whose owner is managed is
not changed either. Kinds that cannot be suspended get scheduling gates on their pods:
`pod_gating`. In Python: `api.rules.jobs.management`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykueue.api import feature_gates, resources
from pykueue.api.labels import PRIORITY_CLASS, QUEUE_NAME
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Object, Settings
from pykueue.install import admission_policies, managed_kinds
from pykueue.install.admission_policies import Mutation, Parameter, Subject, object_with
from pykueue.install.mutations import framework_mutations, pod_gating

_LABEL = "object.metadata.?labels[?'{0}'].orValue('')"
_HAS_QUEUE = f"{_LABEL.format(QUEUE_NAME)} != ''"
_HAS_CLASS = f"{_LABEL.format(PRIORITY_CLASS)} != ''"


class _ManagedMutations(msgspec.Struct, frozen=True, kw_only=True):
    """The mutations of every managed object of a job kind."""

    verb: str
    mutations: tuple[Mutation, ...]
    operations: tuple[str, ...] = ("CREATE",)
    conditions: tuple[tuple[str, str], ...] = ()
    respects_namespaces: bool = False
    """Whether an object with a queue is skipped too in a namespace that is not managed."""


def of_job_kind(job_kind: JobKind, settings: Settings) -> Iterator[Object]:
    name, managed = job_kind.name.replace("/", "-").replace(".", "-"), _managed_mutations(job_kind, settings)
    independent = ("independent", f"!({managed_kinds.owned(settings)})")
    selector = settings.managed_jobs_namespace_selector

    def subject(selector: Mapping[str, Any] | None, *conditions: tuple[str, str]) -> Subject:
        return Subject(
            resource=job_kind.resource,
            operations=managed.operations,
            namespace_selector=selector,
            conditions=(*conditions, independent, *managed.conditions),
        )

    if feature_gates.is_enabled(settings.feature_gates, "WorkloadPriorityClassDefaulting"):
        yield from admission_policies.mutating(
            f"default-priority-{name}",
            subject(selector if managed.respects_namespaces else None, ("unclassed", f"!({_HAS_CLASS})")),
            [_set_label(PRIORITY_CLASS)],
            parameter=Parameter(resource=resources.WORKLOAD_PRIORITY_CLASS, name="default"),
        )
    if settings.manage_jobs_without_queue_name:
        yield from admission_policies.mutating(f"{managed.verb}-all-{name}", subject(selector), managed.mutations)
    of_queued = subject(selector if managed.respects_namespaces else None, ("queued", _HAS_QUEUE))
    yield from admission_policies.mutating(f"{managed.verb}-{name}", of_queued, managed.mutations)
    yield from admission_policies.mutating(
        f"default-queue-{name}",
        subject(selector, ("unqueued", f"!({_HAS_QUEUE})")),
        [_set_label(QUEUE_NAME), *managed.mutations],
        parameter=Parameter(resource=resources.LOCAL_QUEUE, name="default"),
    )
    yield from framework_mutations.policies(job_kind, settings)


def _managed_mutations(job_kind: JobKind, settings: Settings) -> _ManagedMutations:
    if job_kind.suspend:
        return _ManagedMutations(verb="suspend", mutations=(Mutation(text=object_with(job_kind.suspend, "true")),))
    if job_kind == pod_gating.POD:
        return _ManagedMutations(
            verb="hold",
            mutations=pod_gating.of_pods(settings),
            conditions=(pod_gating.WITHOUT_PARENT,),
            respects_namespaces=True,
        )
    return _ManagedMutations(
        verb="hold",
        mutations=pod_gating.of_templates(job_kind, settings),
        operations=("CREATE", "UPDATE"),
        conditions=pod_gating.conditions(job_kind),
    )


def _set_label(key: str) -> Mutation:
    return Mutation(text=object_with(("metadata", "labels"), f"{{'{key}': 'default'}}"))
