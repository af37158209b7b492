"""Exponential delay before a failed pod is replaced.

The delay is 10 s, doubles with each failure since the last success, and is at most 10 min. It
lives in memory only, as in Kubernetes: after a restart of pykueue the first replacement is
immediate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.job_controller import job_view

INITIAL = timedelta(seconds=10)
LONGEST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    failures_since_success: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> "Backoff":
        """The backoff after these newly finished pods."""
        ends = sorted(pods.finished_at(pod) for pod in failed)
        if not succeeded:
            if not ends:
                return self
            return Backoff(failures_since_success=self.failures_since_success + len(ends), last_failure=ends[-1])
        last_success = max(pods.finished_at(pod) for pod in succeeded)
        later = [end for end in ends if end > last_success]
        return Backoff(failures_since_success=len(later), last_failure=later[-1] if later else None)

    def remaining(self, now: datetime) -> float:
        return remaining(self.failures_since_success, self.last_failure, now)


def remaining(failures: int, last_failure: datetime | None, now: datetime) -> float:
    """Seconds to wait before the next pod is created."""
    if failures == 0 or last_failure is None:
        return 0.0
    delay = min(INITIAL * (1 << min(failures - 1, 10)), LONGEST)
    return max(0.0, (last_failure + delay - now).total_seconds())


def remaining_for_index(replaced: Object | None, now: datetime) -> float:
    if replaced is None:
        return 0.0
    return remaining(job_view.index_failures_with_ignored(replaced) + 1, pods.finished_at(replaced), now)
