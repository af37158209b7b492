"""All that a decision about a job may look at, gathered by `job_controller` before `decide.plan` runs."""

from collections.abc import Mapping

import msgspec

from pykueue.api.scheme import Object
from pykueue.controllers.jobs.policy import JobPolicy
from pykueue.controllers.jobs.priority import PriorityClasses
from pykueue.translate.jobs.framework import Framework


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    kind: Framework
    job: Object | None
    """None when it is gone."""
    workloads: tuple[Object, ...] = ()
    """Those that name the job as their controller, and the prebuilt one if the job names one."""
    namespace_labels: Mapping[str, str] | None = None
    ancestor: Object | None = None
    """The topmost owner that Kueue manages; its Workload decides for the job."""
    ancestor_workloads: tuple[Object, ...] = ()
    flavors: Mapping[str, Object] = msgspec.field(default_factory=dict)
    classes: PriorityClasses = msgspec.field(default_factory=PriorityClasses)
    policy: JobPolicy = msgspec.field(default_factory=JobPolicy)
    now_ns: int = 0
