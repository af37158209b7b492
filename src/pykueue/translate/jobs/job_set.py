"""jobset.x-k8s.io JobSet: one pod set a replicated job."""

from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs.batch_job import COMPLETION_INDEX
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    PodSetTemplate,
    finished_by_condition,
)


def _replicated(job: Object) -> list[Object]:
    found: list[Object] = job["spec"].get("replicatedJobs") or []
    return found


def _pods_a_replica(replicated: Object) -> int:
    spec = (replicated.get("template") or {}).get("spec") or {}
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))


def _places(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    return [
        PodSetTemplate(
            name=replicated["name"].lower(),
            template_path=("spec", "replicatedJobs", index, "template", "spec", "template"),
            count=int(replicated.get("replicas", 1)) * _pods_a_replica(replicated),
            pod_index_label=COMPLETION_INDEX,
            sub_group_index_label="jobset.sigs.k8s.io/job-index",
            sub_group_count=int(replicated.get("replicas", 1)),
        )
        for index, replicated in enumerate(_replicated(job))
    ]


def _statuses(job: Object) -> list[Object]:
    found: list[Object] = (job.get("status") or {}).get("replicatedJobsStatus") or []
    return found


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Completed", "Failed")


def _is_active(job: Object) -> bool:
    return any(int(status.get("active", 0)) > 0 for status in _statuses(job))


def _pods_ready(job: Object) -> bool:
    wanted = sum(int(replicated.get("replicas", 1)) for replicated in _replicated(job))
    return wanted == sum(int(status.get("ready", 0)) + int(status.get("succeeded", 0)) for status in _statuses(job))


def _reclaimable(job: Object) -> list[Object]:
    succeeded = {status["name"]: int(status.get("succeeded", 0)) for status in _statuses(job)}
    return [
        {"name": replicated["name"].lower(), "count": succeeded[replicated["name"]] * _pods_a_replica(replicated)}
        for replicated in _replicated(job)
        if 0 < succeeded.get(replicated["name"], 0) <= int(replicated.get("replicas", 1))
    ]


FRAMEWORK = JobFramework(
    name="jobset.x-k8s.io/jobset",
    resource=Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True),
    suspend_path=("spec", "suspend"),
    places=_places,
    finished=_finished,
    is_active=_is_active,
    pods_ready=_pods_ready,
    reclaimable=_reclaimable,
)
