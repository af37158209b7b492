"""Whether a Job ends now, with the reason and message of its conditions.

The order of the checks matters: the decision of an earlier sync stays, then failures, then
success. A Job ends in two steps. The interim condition (FailureTarget, SuccessCriteriaMet) is set
while pods still terminate; the final condition (Failed, Complete) is set when every pod is
counted.
"""

from datetime import datetime

import msgspec

from pykueue.api import conditions, objects, times
from pykueue.cluster import pods
from pykueue.cluster.job_controller import policies
from pykueue.cluster.job_controller.pod_counts import PodCounts

FINAL = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    interim: str
    reason: str
    message: str
    is_announced: bool = False
    """Whether the interim condition is in the status already."""

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


def before_completion(counts: PodCounts, now: datetime) -> Ending | None:
    """The end that an earlier sync decided, or a failure, or the end by successPolicy."""
    return _announced(counts) or _failure(counts, now) or _success_policy(counts)


def is_complete(counts: PodCounts, active: int) -> bool:
    completions = 1 if counts.job.completions is None else counts.job.completions
    return counts.succeeded >= completions and active == 0


def seconds_to_deadline(counts: PodCounts, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None without a running deadline."""
    job = counts.job
    deadline = job.spec.get("activeDeadlineSeconds")
    if deadline is None or job.is_suspended:
        return None
    return ((job.start_time or now) + times.span(deadline) - now).total_seconds()


def _announced(counts: PodCounts) -> Ending | None:
    for interim in ("SuccessCriteriaMet", "FailureTarget"):
        condition = conditions.find(counts.job.object, interim)
        if condition is not None and conditions.has_status_true(condition):
            reason, message = condition.get("reason", ""), condition.get("message", "")
            return Ending(interim=interim, reason=reason, message=message, is_announced=True)
    return None


def _failure(counts: PodCounts, now: datetime) -> Ending | None:
    job = counts.job
    for pod in counts.pods:
        if job.is_failed(pod) and (match := policies.match_failure(job, pod)).action == "FailJob":
            return _failed("PodFailurePolicy", match.message)
    if counts.failed > job.backoff_limit or _restarted_too_often(counts):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    remaining = seconds_to_deadline(counts, now)
    if remaining is not None and remaining <= 0 and job.start_time is not None:
        return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    if job.is_indexed and job.backoff_limit_per_index is not None:
        return _failed_indexes(counts)
    return None


def _failed_indexes(counts: PodCounts) -> Ending | None:
    limit = counts.job.spec.get("maxFailedIndexes")
    failed = len(counts.failed_indexes)
    if limit is not None and failed > limit:
        return _failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    if failed and failed + len(counts.succeeded_indexes) >= (counts.job.completions or 0):
        return _failed("FailedIndexes", "Job has failed indexes")
    return None


def _failed(reason: str, message: str) -> Ending:
    return Ending(interim="FailureTarget", reason=reason, message=message)


def _restarted_too_often(counts: PodCounts) -> bool:
    job = counts.job
    if objects.nested(job.spec, "template", "spec").get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(pods.restarts(pod) for pod in counts.pods if pods.phase(pod) in ("Running", "Pending"))
    return restarts > 0 if job.backoff_limit == 0 else restarts >= job.backoff_limit


def _success_policy(counts: PodCounts) -> Ending | None:
    if not counts.job.is_indexed:
        return None
    message = policies.match_success(counts.job, counts.succeeded_indexes)
    return None if message is None else Ending(interim="SuccessCriteriaMet", reason="SuccessPolicy", message=message)
