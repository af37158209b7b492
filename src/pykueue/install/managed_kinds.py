"""The job kinds that policies match, and CEL for whether an object has an owner of such a kind."""

from pykueue.api.rules.jobs import custom, job_kinds
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Settings


def enabled(settings: Settings) -> list[JobKind]:
    """The enabled job kinds, then those that the Configuration describes."""
    kinds = [job_kinds.JOB_KINDS[name] for name in sorted(settings.frameworks)]
    return [*kinds, *(custom.described_job_kind(settings, group, "*", kind) for group, kind in settings.custom_jobs)]


_MAKES = {
    job_kinds.JOB_SET: (job_kinds.BATCH_JOB,),
    job_kinds.MPI_JOB: (job_kinds.BATCH_JOB,),
    job_kinds.TRAIN_JOB: (job_kinds.JOB_SET, job_kinds.BATCH_JOB),
    job_kinds.RAY_JOB: (job_kinds.RAY_CLUSTER, job_kinds.BATCH_JOB),
    job_kinds.RAY_SERVICE: (job_kinds.RAY_CLUSTER,),
    job_kinds.LEADER_WORKER_SET: (job_kinds.STATEFUL_SET,),
}
"""The kinds between an object and its pods, because a policy sees direct owners only."""


def listed(job_kind: JobKind) -> str:
    """CEL list elements for the owner kinds that belong to a job kind."""
    resources = (kind.resource for kind in (job_kind, *_MAKES.get(job_kind, ())))
    return ", ".join(f"'{resource.group}/{resource.kind}'" for resource in resources)


def owned(settings: Settings) -> str:
    """CEL for whether the controller of the object is of a managed kind, in any version."""
    external = (f"'{resource.group}/{resource.kind}'" for resource in sorted(settings.external_jobs))
    kinds = ", ".join([*(listed(job_kinds.JOB_KINDS[name]) for name in sorted(settings.frameworks)), *external])
    group = "(o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '')"
    is_managed = f"has(o.controller) && o.controller && ({group} + '/' + o.kind) in [{kinds}]"
    return f"has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, {is_managed})"
