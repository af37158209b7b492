"""jobset.x-k8s.io JobSet: one pod set for each replicated job."""

from pykueue.api import objects
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.batch_job import COMPLETION_INDEX
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    PodSetTemplate,
    finished_by_condition,
)


def _replicated_jobs(job: Object) -> list[Object]:
    return objects.nested_list(job, "spec", "replicatedJobs")


def _pods_per_replica(replicated: Object) -> int:
    spec = objects.nested(replicated, "template", "spec")
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))


def _pod_set_templates(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    return [
        PodSetTemplate(
            name=replicated["name"].lower(),
            template_path=("spec", "replicatedJobs", index, "template", "spec", "template"),
            count=int(replicated.get("replicas", 1)) * _pods_per_replica(replicated),
            pod_index_label=COMPLETION_INDEX,
            sub_group_index_label="jobset.sigs.k8s.io/job-index",
            sub_group_count=int(replicated.get("replicas", 1)),
        )
        for index, replicated in enumerate(_replicated_jobs(job))
    ]


def _statuses(job: Object) -> list[Object]:
    return objects.nested_list(job, "status", "replicatedJobsStatus")


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Completed", "Failed")


def _is_active(job: Object) -> bool:
    return any(int(status.get("active", 0)) > 0 for status in _statuses(job))


def _pods_ready(job: Object) -> bool:
    replicas = sum(int(replicated.get("replicas", 1)) for replicated in _replicated_jobs(job))
    return replicas == sum(int(status.get("ready", 0)) + int(status.get("succeeded", 0)) for status in _statuses(job))


def _reclaimable(job: Object) -> list[Object]:
    succeeded = {status["name"]: int(status.get("succeeded", 0)) for status in _statuses(job)}
    return [
        {"name": replicated["name"].lower(), "count": succeeded[replicated["name"]] * _pods_per_replica(replicated)}
        for replicated in _replicated_jobs(job)
        if 0 < succeeded.get(replicated["name"], 0) <= int(replicated.get("replicas", 1))
    ]


FRAMEWORK = JobFramework(
    description=job_kinds.JOB_SET,
    pod_set_templates=_pod_set_templates,
    finished=_finished,
    is_active=_is_active,
    pods_ready=_pods_ready,
    reclaimable=_reclaimable,
)
