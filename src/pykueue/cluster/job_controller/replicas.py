"""How many pods a Job needs now: which to remove, which to create, or how long to wait."""

import copy
from datetime import datetime

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods
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

MOST_PER_SYNC = 500
_LONGEST_GENERATED_PREFIX = 58


class PodChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Either removals or creations, never both in one sync; `wait` holds back creations."""

    remove: tuple[Object, ...] = ()
    create: tuple[Object, ...] = ()
    wait: float = 0.0


def change(census: PodCounts, delay: Backoff, now: datetime) -> PodChanges:
    job = census.job
    if job.is_suspended:
        return PodChanges(remove=census.active)
    wanted = _wanted(census)
    if surplus := _surplus(census, len(census.active) - wanted):
        return PodChanges(remove=tuple(surplus[:MOST_PER_SYNC]))
    still_leaving = census.terminating if job.replaces_only_failed else 0
    missing = min(wanted - still_leaving - len(census.active), MOST_PER_SYNC)
    if missing <= 0:
        return PodChanges()
    if job.is_indexed:
        return _missing_indexes(census, missing, delay, now)
    if wait := delay.remaining(now):
        return PodChanges(wait=wait)
    return PodChanges(create=tuple(_pod(job, None, None) for _ in range(missing)))


def _wanted(census: PodCounts) -> int:
    job = census.job
    if job.completions is None:
        return len(census.active) if census.succeeded else job.parallelism
    return max(0, min(job.parallelism, job.completions - census.succeeded))


def _surplus(census: PodCounts, at_least: int) -> list[Object]:
    """Pods to remove: doubles and strangers among the indexes first, then those that lose least."""
    left = sorted(census.active, key=pods.removal_order)
    removed: list[Object] = []
    if census.job.is_indexed:
        keep: dict[int, Object] = {}
        for pod in left:
            index = census.job.index_of(pod)
            double = pod if index is None else keep.pop(index, None)
            if double is not None:
                removed.append(double)
            if index is not None:
                keep[index] = pod
        left = sorted(keep.values(), key=pods.removal_order)
    return removed + left[: max(0, at_least - len(removed))]


def _missing_indexes(census: PodCounts, missing: int, delay: Backoff, now: datetime) -> PodChanges:
    job = census.job
    taken = census.succeeded_indexes | census.failed_indexes | indexes_of(job, census.active)
    if job.replaces_only_failed:
        taken |= indexes_of(job, [pod for pod in census.pods if pods.is_terminating(pod)])
    candidates = indexes.first_missing(taken, job.completions or 0, missing)
    if job.backoff_limit_per_index is None:
        waits = dict.fromkeys(candidates, delay.remaining(now))
    else:
        waits = {
            index: backoff.remaining_for_index(census.awaiting_replacement.get(index), now) for index in candidates
        }
    due = [index for index in candidates if not waits[index]]
    if not due:
        return PodChanges(wait=min(waits.values(), default=0.0))
    return PodChanges(create=tuple(_pod(job, index, census.awaiting_replacement.get(index)) for index in due))


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
    for container in [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]:
        _tell_index(container)
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


def _tell_index(container: Object) -> None:
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
