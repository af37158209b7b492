"""Whether a Job ends now, and in which words.

The order matters: what an earlier sync decided stands, then failures, then success. A Job ends in two steps: the
interim condition (FailureTarget, SuccessCriteriaMet) says what will become of it while pods still stop, the final one
(Failed, Complete) follows when every pod is counted.
"""

from datetime import datetime, timedelta

import msgspec

from pykueue.api import conditions
from pykueue.cluster import pods
from pykueue.cluster.job_controller import policies
from pykueue.cluster.job_controller.pod_counts import PodCounts

FINAL = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    interim: str
    reason: str
    message: str
    is_announced: bool = False
    """The interim condition is in the status already."""

    @property
    def final(self) -> str:
        return FINAL[self.interim]

    @property
    def is_success(self) -> bool:
        return self.interim == "SuccessCriteriaMet"


COMPLETED = Ending(
    interim="SuccessCriteriaMet",
    reason="CompletionsReached",
    message="Reached expected number of succeeded pods",
)


def before_completion(census: PodCounts, now: datetime) -> Ending | None:
    """The end by an earlier decision, a failure, or the success policy."""
    return _announced(census) or _failure(census, now) or _success_policy(census)


def is_complete(census: PodCounts, active: int) -> bool:
    wanted = 1 if census.job.completions is None else census.job.completions
    return census.succeeded >= wanted and active == 0


def seconds_to_deadline(census: PodCounts, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None if there is no deadline or it does not run."""
    job = census.job
    deadline = job.spec.get("activeDeadlineSeconds")
    if deadline is None or job.is_suspended:
        return None
    return ((job.start_time or now) + timedelta(seconds=deadline) - now).total_seconds()


def _announced(census: PodCounts) -> Ending | None:
    for interim in ("SuccessCriteriaMet", "FailureTarget"):
        if conditions.is_true(census.job.object, interim):
            found = conditions.find(census.job.object, interim) or {}
            return Ending(
                interim=interim, reason=found.get("reason", ""), message=found.get("message", ""), is_announced=True
            )
    return None


def _failure(census: PodCounts, now: datetime) -> Ending | None:
    job = census.job
    for pod in census.pods:
        if job.is_failed(pod) and (match := policies.match_failure(job, pod)).action == "FailJob":
            return _failed("PodFailurePolicy", match.message)
    if census.failed > job.backoff_limit or _restarted_too_often(census):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = seconds_to_deadline(census, now)
    if left is not None and left <= 0 and job.start_time is not None:
        return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    if job.is_indexed and job.backoff_limit_per_index is not None:
        return _failed_indexes(census)
    return None


def _failed_indexes(census: PodCounts) -> Ending | None:
    most = census.job.spec.get("maxFailedIndexes")
    failed = len(census.failed_indexes)
    if most is not None and failed > most:
        return _failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    if failed and failed + len(census.succeeded_indexes) >= (census.job.completions or 0):
        return _failed("FailedIndexes", "Job has failed indexes")
    return None


def _failed(reason: str, message: str) -> Ending:
    return Ending(interim="FailureTarget", reason=reason, message=message)


def _restarted_too_often(census: PodCounts) -> bool:
    job = census.job
    if job.spec["template"].get("spec", {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(pods.restarts(pod) for pod in census.pods if pods.phase(pod) in ("Running", "Pending"))
    return restarts > 0 if job.backoff_limit == 0 else restarts >= job.backoff_limit


def _success_policy(census: PodCounts) -> Ending | None:
    if not census.job.is_indexed:
        return None
    message = policies.match_success(census.job, census.succeeded_indexes)
    return None if message is None else Ending(interim="SuccessCriteriaMet", reason="SuccessPolicy", message=message)
