"""A Job as the Job controller reads it, with the defaults that the API server would have set."""

from datetime import datetime

import msgspec

from pykueue.api import conditions, objects, times
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.job_controller import indexes

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER_NAME = "kubernetes.io/job-controller"

_UNLIMITED = 2**31 - 1


class JobView(msgspec.Struct, frozen=True):
    object: Object

    @property
    def spec(self) -> Object:
        spec: Object = self.object["spec"]
        return spec

    @property
    def status(self) -> Object:
        return objects.status(self.object)

    @property
    def name(self) -> str:
        return objects.name(self.object)

    @property
    def parallelism(self) -> int:
        return int(self.spec.get("parallelism", 1))

    @property
    def completions(self) -> int | None:
        if self.spec.get("completions") is not None:
            return int(self.spec["completions"])
        return None if self.spec.get("parallelism") is not None else 1

    @property
    def is_indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def is_managed_elsewhere(self) -> bool:
        return str(self.spec.get("managedBy", CONTROLLER_NAME)) != CONTROLLER_NAME

    @property
    def backoff_limit(self) -> int:
        default = 6 if self.backoff_limit_per_index is None else _UNLIMITED
        return int(self.spec.get("backoffLimit", default))

    @property
    def backoff_limit_per_index(self) -> int | None:
        return self.spec.get("backoffLimitPerIndex")

    @property
    def replaces_only_failed(self) -> bool:
        default = "Failed" if self.spec.get("podFailurePolicy") else "TerminatingOrFailed"
        return bool(self.spec.get("podReplacementPolicy", default) == "Failed")

    @property
    def failure_rules(self) -> list[Object]:
        return objects.nested_list(self.spec, "podFailurePolicy", "rules")

    @property
    def start_time(self) -> datetime | None:
        return times.parse_optional(self.status.get("startTime"))

    def is_failed(self, pod: Object) -> bool:
        """Whether the Job counts this pod as failed.

        A terminating pod counts as well, unless podReplacementPolicy is Failed: it may never
        report a final phase.
        """
        if pods.phase(pod) == "Failed":
            return True
        return not self.replaces_only_failed and pods.is_terminating(pod)

    def index_of(self, pod: Object) -> int | None:
        """The completion index of the pod; None if it has none below `completions`."""
        text = objects.annotations(pod).get(INDEX, "")
        if not text.isdecimal() or self.completions is None or int(text) >= self.completions:
            return None
        return int(text)

    def completed_indexes(self) -> indexes.Indexes:
        return indexes.parse(self.status.get("completedIndexes", ""), self.completions or 0)

    def failed_indexes(self) -> indexes.Indexes:
        return indexes.parse(self.status.get("failedIndexes") or "", self.completions or 0)


def finished_condition(job: Object) -> Object | None:
    for type_ in ("Complete", "Failed"):
        if conditions.is_true(job, type_):
            return conditions.find(job, type_)
    return None


def index_failures(pod: Object) -> int:
    return _count(objects.annotations(pod).get(INDEX_FAILURES, ""))


def index_failures_with_ignored(pod: Object) -> int:
    return index_failures(pod) + _count(objects.annotations(pod).get(INDEX_IGNORED_FAILURES, ""))


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and int(text) <= _UNLIMITED else 0
