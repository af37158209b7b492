"""Counts of a Job's pods at one moment. Every decision of the Job controller is made on them."""

from collections.abc import Sequence

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.job_controller import indexes, job_view, policies
from pykueue.cluster.job_controller.job_view import FINALIZER, JobView


class PodCounts(msgspec.Struct, frozen=True, kw_only=True):
    job: JobView
    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    newly_succeeded: tuple[Object, ...]
    newly_failed: tuple[Object, ...]
    succeeded: int
    failed: int
    succeeded_indexes: indexes.Indexes
    failed_indexes: indexes.Indexes
    awaiting_replacement: dict[int, Object]
    """With backoffLimitPerIndex: the last failed pod of each index that has no new pod yet.

    It keeps its finalizer until the new pod has copied its failure counts.
    """

    @classmethod
    def of(cls, job: JobView, owned: Sequence[Object]) -> "PodCounts":
        """Count the pods that the Job owns, on top of what its status has counted already."""
        uncounted = objects.nested(job.status, "uncountedTerminatedPods")
        tracked = [pod for pod in owned if is_tracked(pod) and (not job.is_indexed or job.index_of(pod) is not None)]
        listed_uids = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
        unlisted_pods = [pod for pod in tracked if objects.uid(pod) not in listed_uids]
        newly_succeeded = tuple(pod for pod in unlisted_pods if pods.phase(pod) == "Succeeded")
        newly_failed = tuple(filter(job.is_failed, unlisted_pods))
        active = tuple(filter(pods.is_active, owned))
        succeeded_indexes = failed_indexes = indexes.NONE
        awaiting: dict[int, Object] = {}
        succeeded = job.status.get("succeeded", 0) + len(newly_succeeded) + len(uncounted.get("succeeded") or ())
        if job.is_indexed:
            succeeded_indexes = job.completed_indexes() | _indexes(job, tracked, "Succeeded")
            succeeded = len(succeeded_indexes)
            if job.backoff_limit_per_index is not None:
                failed_indexes = job.failed_indexes() | _newly_failed_indexes(job, tracked)
                settled_indexes = succeeded_indexes | failed_indexes | indexes_of(job, active)
                awaiting = _awaiting_replacement(job, tracked, settled_indexes)
        return cls(
            job=job,
            pods=tuple(owned),
            active=active,
            newly_succeeded=newly_succeeded,
            newly_failed=newly_failed,
            succeeded=succeeded,
            failed=job.status.get("failed", 0)
            + sum(policies.match_failure(job, pod).counts for pod in newly_failed)
            + len(uncounted.get("failed") or ()),
            succeeded_indexes=succeeded_indexes,
            failed_indexes=failed_indexes,
            awaiting_replacement=awaiting,
        )

    @property
    def ready(self) -> int:
        return sum(map(pods.is_ready, self.active))

    @property
    def terminating(self) -> int:
        return sum(map(pods.is_terminating, self.pods))


def is_tracked(pod: Object) -> bool:
    return FINALIZER in objects.finalizers(pod)


def indexes_of(job: JobView, some_pods: Sequence[Object]) -> indexes.Indexes:
    return frozenset(index for pod in some_pods if (index := job.index_of(pod)) is not None)


def _indexes(job: JobView, tracked: Sequence[Object], phase: str) -> indexes.Indexes:
    return indexes_of(job, [pod for pod in tracked if pods.phase(pod) == phase])


def _newly_failed_indexes(job: JobView, tracked: Sequence[Object]) -> indexes.Indexes:
    return indexes_of(job, [pod for pod in tracked if _fails_its_index(job, pod)])


def _fails_its_index(job: JobView, pod: Object) -> bool:
    if not job.is_failed(pod):
        return False
    match = policies.match_failure(job, pod)
    if match.action == "FailIndex":
        return True
    limit = job.backoff_limit_per_index
    return match.counts and limit is not None and job_view.index_failures(pod) >= limit


def _awaiting_replacement(
    job: JobView, tracked: Sequence[Object], settled_indexes: indexes.Indexes
) -> dict[int, Object]:
    latest: dict[int, Object] = {}
    for pod in tracked:
        index = job.index_of(pod)
        if index is None or index in settled_indexes or not job.is_failed(pod):
            continue
        if index not in latest or _age(pod) >= _age(latest[index]):
            latest[index] = pod
    return latest


def _age(pod: Object) -> tuple[int, float]:
    return job_view.index_failures_with_ignored(pod), pods.finished_at(pod).timestamp()
