"""The pods that a Job should create or delete now, or how long it must wait for its backoff."""

import copy
from datetime import datetime

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods
from pykueue.cluster.job_controller import backoff, indexes, job_view, policies
from pykueue.cluster.job_controller.backoff import Backoff
from pykueue.cluster.job_controller.job_view import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED_FAILURES,
    JobView,
)
from pykueue.cluster.job_controller.pod_counts import PodCounts, indexes_of

_LONGEST_GENERATED_PREFIX = 58


class PodChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to remove or to create, never both; creations wait for `wait` seconds."""

    remove: tuple[Object, ...] = ()
    create: tuple[Object, ...] = ()
    wait: float = 0.0


def change(counts: PodCounts, delay: Backoff, now: datetime) -> PodChanges:
    job = counts.job
    if job.is_suspended:
        return PodChanges(remove=counts.active)
    desired = _desired_active(counts)
    if surplus := _surplus(counts, len(counts.active) - desired):
        return PodChanges(remove=tuple(surplus[: pod_control.MOST_PER_SYNC]))
    terminating = counts.terminating if job.replaces_only_failed else 0
    missing = len(
        pod_control.batch(range(desired - terminating - len(counts.active)), pod_control.waiting(counts.active))
    )
    if not missing:
        return PodChanges()
    if job.is_indexed:
        return _missing_indexes(counts, missing, delay, now)
    if wait := delay.remaining(now):
        return PodChanges(wait=wait)
    return PodChanges(create=tuple(_pod(job, None, None) for _ in range(missing)))


def _desired_active(counts: PodCounts) -> int:
    job = counts.job
    if job.completions is None:
        return len(counts.active) if counts.succeeded else job.parallelism
    return max(0, min(job.parallelism, job.completions - counts.succeeded))


def _surplus(counts: PodCounts, at_least: int) -> list[Object]:
    """Pods to remove: those with an invalid or duplicate index first, then by removal order."""
    candidates = sorted(counts.active, key=pods.removal_order)
    removed: list[Object] = []
    if counts.job.is_indexed:
        one_per_index: dict[int, Object] = {}
        for pod in candidates:
            index = counts.job.index_of(pod)
            surplus = pod if index is None else one_per_index.pop(index, None)
            if surplus is not None:
                removed.append(surplus)
            if index is not None:
                one_per_index[index] = pod
        candidates = sorted(one_per_index.values(), key=pods.removal_order)
    return removed + candidates[: max(0, at_least - len(removed))]


def _missing_indexes(counts: PodCounts, missing: int, delay: Backoff, now: datetime) -> PodChanges:
    job = counts.job
    used = counts.succeeded_indexes | counts.failed_indexes | indexes_of(job, counts.active)
    if job.replaces_only_failed:
        used |= indexes_of(job, [pod for pod in counts.pods if pods.is_terminating(pod)])
    candidates = indexes.first_missing(used, job.completions or 0, missing)
    if job.backoff_limit_per_index is None:
        waits = dict.fromkeys(candidates, delay.remaining(now))
    else:
        waits = {
            index: backoff.remaining_for_index(counts.awaiting_replacement.get(index), now) for index in candidates
        }
    due = [index for index in candidates if not waits[index]]
    if not due:
        return PodChanges(wait=min(waits.values(), default=0.0))
    return PodChanges(create=tuple(_pod(job, index, counts.awaiting_replacement.get(index)) for index in due))


def _pod(job: JobView, index: int | None, replaced: Object | None) -> Object:
    pod = pods.from_template(job.spec["template"], job.object)
    metadata = pod["metadata"]
    metadata["labels"] = _identity(job) | (metadata.get("labels") or {})
    metadata["finalizers"] = list(dict.fromkeys([*metadata.get("finalizers", ()), FINALIZER]))
    if index is None:
        return pod
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    metadata["labels"][INDEX] = str(index)
    metadata["generateName"] = _indexed_prefix(job.name, index)
    pod["spec"]["hostname"] = f"{job.name}-{index}"
    for container in pods.containers(pod["spec"]):
        _add_index_variable(container)
    if job.backoff_limit_per_index is not None:
        metadata["annotations"] |= _failure_counts(job, replaced)
    return pod


def _identity(job: JobView) -> dict[str, str]:
    uid = objects.uid(job.object)
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": uid,
        "job-name": job.name,
    }


def _indexed_prefix(name: str, index: int) -> str:
    suffix = f"-{index}-"
    return name[: _LONGEST_GENERATED_PREFIX - len(suffix)] + suffix


def _add_index_variable(container: Object) -> None:
    environment = copy.copy(container.get("env") or [])
    if not any(variable["name"] == "JOB_COMPLETION_INDEX" for variable in environment):
        field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        container["env"] = [*environment, {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}]


def _failure_counts(job: JobView, replaced: Object | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counted = job_view.index_failures(replaced)
    ignored = job_view.index_failures_with_ignored(replaced) - counted
    if policies.match_failure(job, replaced).counts:
        counted += 1
    else:
        ignored += 1
    return {INDEX_FAILURES: str(counted)} | ({INDEX_IGNORED_FAILURES: str(ignored)} if ignored else {})
