"""batch/v1 Job: one pod set `main`, partial admission by annotation `job-min-parallelism`."""

from collections.abc import Iterator, Sequence

from pykueue.api import objects
from pykueue.api.labels import JOB_COMPLETIONS_EQUAL_PARALLELISM, JOB_MIN_PARALLELISM
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate.jobs.framework import (
    JobFramework,
    JobOptions,
    JobResult,
    PodSetTemplate,
    finished_by_condition,
)
from pykueue.translate.pod_set_info import PodSetInfo

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
CONTROLLER_LABELS = ("job-name", "controller-uid", JOB_NAME_LABEL, "batch.kubernetes.io/controller-uid")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def pods_count(job: Object) -> int:
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))


def min_parallelism(job: Object) -> int | None:
    text = objects.annotations(job).get(JOB_MIN_PARALLELISM)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _pod_set_templates(job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    return [
        PodSetTemplate(
            name="main",
            template_path=("spec", "template"),
            count=pods_count(job),
            min_count=min_parallelism(job),
            pod_index_label=COMPLETION_INDEX,
        )
    ]


def _finished(job: Object) -> JobResult | None:
    return finished_by_condition(job, "Complete", "Failed")


def _is_active(job: Object) -> bool:
    return bool(objects.status(job).get("active"))


def _pods_ready(job: Object) -> bool:
    status = job.get("status") or {}
    uncounted = len(objects.nested_list(status, "uncountedTerminatedPods", "succeeded"))
    return int(status.get("succeeded", 0)) + int(status.get("ready") or 0) + uncounted >= pods_count(job)


def _reclaimable(job: Object) -> list[Object]:
    """The pods that are no longer needed because fewer completions remain than the parallelism."""
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    completions = int(spec.get("completions", parallelism))
    terminal = _terminal_count(job, completions)
    remaining = max(completions - terminal, 0)
    if parallelism <= 1 or terminal == 0 or remaining >= parallelism:
        return []
    return [{"name": "main", "count": parallelism - remaining}]


def _terminal_count(job: Object, completions: int) -> int:
    status = job.get("status") or {}
    if job["spec"].get("completionMode", "NonIndexed") != "Indexed":
        return int(status.get("succeeded", 0))
    indexes: set[int] = set()
    for text in (status.get("completedIndexes", ""), status.get("failedIndexes", "")):
        for first, last in _intervals(text or ""):
            indexes.update(range(first, min(last, completions - 1) + 1))
    return len(indexes)


def _intervals(text: str) -> Iterator[tuple[int, int]]:
    for interval in filter(None, text.split(",")):
        first, _, last = interval.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            yield int(first), int(last or first)


def _set_parallelism(job: Object, infos: Sequence[PodSetInfo]) -> None:
    """Sets the parallelism to the admitted count, or back to the original one."""
    if min_parallelism(job) is None:
        return
    job["spec"]["parallelism"] = infos[0].count
    if objects.annotations(job).get(JOB_COMPLETIONS_EQUAL_PARALLELISM, "").lower() in ("true", "t", "1"):
        job["spec"]["completions"] = infos[0].count


FRAMEWORK = JobFramework(
    description=job_kinds.BATCH_JOB,
    pod_set_templates=_pod_set_templates,
    finished=_finished,
    is_active=_is_active,
    pods_ready=_pods_ready,
    reclaimable=_reclaimable,
    adjust_started=_set_parallelism,
    adjust_restored=_set_parallelism,
    preserved_labels=CONTROLLER_LABELS,
    hidden_labels=tuple(name for name in CONTROLLER_LABELS if name != JOB_NAME_LABEL),
    stops_in_steps=True,
)
