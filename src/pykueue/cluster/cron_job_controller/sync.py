"""One sync of a CronJob: forget finished Jobs, start the one that is due, keep the history short."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster.cron_job_controller import schedule
from pykueue.cluster.job_controller import job_view
from pykueue.kube.controller import writes

_MOST_MISSED = 100
_TOO_MANY = "too many missed start times: {}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(slots=True, kw_only=True)
class _Course:
    cron_job: Object
    jobs: Sequence[Object]
    now: datetime
    status: Object
    batch: list[writes.Write] = field(default_factory=list)

    @property
    def spec(self) -> Object:
        spec: Object = self.cron_job["spec"]
        return spec

    def record(self, type_: str, reason: str, message: str) -> None:
        self.batch.append(writes.Event(about=self.cron_job, type=type_, reason=reason, message=message))

    def drop(self, job: Object) -> None:
        self.batch.append(writes.Delete(resource=resources.JOB, object=job))
        self.record("Normal", "SuccessfulDelete", f"Deleted job {objects.name(job)}")
        self.forget(objects.uid(job))

    def forget(self, uid: str) -> None:
        self.status["active"] = [reference for reference in self.status.get("active", ()) if reference["uid"] != uid]


def sync(cron_job: Object, jobs: Sequence[Object], now: datetime) -> writes.Sync:
    course = _Course(cron_job=cron_job, jobs=jobs, now=now, status=copy.deepcopy(cron_job.get("status") or {}))
    _reconcile_active(course)
    _shorten_history(course)
    wait: float | None = None
    if not objects.is_deleted(cron_job) and not course.spec.get("suspend"):
        try:
            wait = yield from _start_if_due(course)
        except schedule.ScheduleError as error:
            course.record(
                "Warning", "UnparseableSchedule", f"unparseable schedule: {course.spec['schedule']!r} : {error}"
            )
    results = (yield course.batch) if course.batch else []
    if not course.status.get("active"):
        course.status.pop("active", None)
    patch = writes.merge_patch(cron_job.get("status") or {}, course.status)
    if patch:
        results += yield [
            writes.Patch(
                resource=resources.CRON_JOB,
                object=cron_job,
                patch={"status": patch},
                subresource="status",
                guarded=False,
            )
        ]
    return writes.Done(look_again_after=wait, errors=writes.refusals(results))


def _reconcile_active(course: _Course) -> None:
    known = {reference["uid"] for reference in course.status.get("active", ())}
    present = {objects.uid(job): job for job in course.jobs}
    for uid, job in present.items():
        finished = job_view.finished_condition(job)
        if finished is None and uid not in known:
            course.record(
                "Warning",
                "UnexpectedJob",
                f"Saw a job that the controller did not create or forgot: {objects.name(job)}",
            )
        elif finished is not None and uid in known:
            course.forget(uid)
            course.record(
                "Normal", "SawCompletedJob", f"Saw completed job: {objects.name(job)}, condition: {finished['type']}"
            )
            ended = job["status"].get("completionTime")
            if finished["type"] == "Complete" and ended:
                course.status["lastSuccessfulTime"] = max(ended, course.status.get("lastSuccessfulTime", ""))
    for reference in list(course.status.get("active", ())):
        if reference["uid"] not in present:
            course.forget(reference["uid"])
            course.record("Normal", "MissingJob", f"Active job went missing: {reference['name']}")


def _shorten_history(course: _Course) -> None:
    for type_, field_name, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [job for job in course.jobs if (job_view.finished_condition(job) or {}).get("type") == type_]
        ended.sort(key=lambda job: (job["status"].get("startTime", ""), objects.name(job)))
        for job in ended[: max(0, len(ended) - course.spec.get(field_name, default))]:
            course.drop(job)


def _start_if_due(course: _Course) -> writes.Step:
    """Starts the most recent missed time, if any; returns the seconds until the next."""
    times_of = schedule.parse(course.spec["schedule"])
    zone = ZoneInfo(course.spec["timeZone"]) if course.spec.get("timeZone") else UTC
    now = course.now.astimezone(zone)
    due, upcoming = _due(course, times_of, now)
    wait = None if upcoming is None else max(0.0, (upcoming - now).total_seconds())
    if due is None:
        return wait
    deadline = course.spec.get("startingDeadlineSeconds")
    if deadline is not None and due + timedelta(seconds=deadline) < now:
        course.record(
            "Warning", "MissSchedule", f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S %z}"
        )
        return wait
    if not _make_room(course):
        return wait
    name = f"{objects.name(course.cron_job)}-{int(due.timestamp()) // 60}"
    (result,) = yield [writes.Create(resource=resources.JOB, object=_job(course.cron_job, name, due))]
    if isinstance(result, writes.Refused):
        if getattr(result.error, "reason", "") != "AlreadyExists":
            course.record("Warning", "FailedCreate", f"Error creating job: {result.error}")
            raise result.error
        return wait
    course.record("Normal", "SuccessfulCreate", f"Created job {name}")
    course.status.setdefault("active", []).append(_reference(result))
    course.status["lastScheduleTime"] = times.to_text(due)
    return wait


def _due(course: _Course, times_of: schedule.Schedule, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The latest time missed since the last start (None if there is none), and the next one to come."""
    last = course.status.get("lastScheduleTime") or course.cron_job["metadata"]["creationTimestamp"]
    earliest = times.parse(last).astimezone(now.tzinfo)
    deadline = course.spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=deadline))
    missed, due, upcoming = 0, None, times_of.next(earliest)
    while upcoming is not None and upcoming <= now:
        missed, due = missed + 1, upcoming
        upcoming = times_of.next(upcoming)
    if missed > _MOST_MISSED:
        course.record("Warning", "TooManyMissedTimes", _TOO_MANY.format(missed))
    return due, upcoming


def _make_room(course: _Course) -> bool:
    """Whether concurrencyPolicy lets a new Job start."""
    policy = course.spec.get("concurrencyPolicy", "Allow")
    running = {reference["uid"] for reference in course.status.get("active", ())}
    if policy == "Forbid" and running:
        course.record(
            "Normal",
            "JobAlreadyActive",
            "Not starting job because prior execution is running and concurrency policy is Forbid",
        )
        return False
    if policy == "Replace":
        for job in course.jobs:
            if objects.uid(job) in running:
                course.drop(job)
    return True


def _job(cron_job: Object, name: str, due: datetime) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    metadata = copy.deepcopy(template.get("metadata") or {})
    made: Object = {key: metadata[key] for key in ("labels",) if metadata.get(key)}
    made["annotations"] = (metadata.get("annotations") or {}) | {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": due.isoformat().replace("+00:00", "Z")
    }
    made |= {
        "name": name,
        "namespace": objects.namespace(cron_job),
        "ownerReferences": [objects.controller_reference(cron_job)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": copy.deepcopy(template["spec"])}


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return reference | {"namespace": metadata["namespace"], "resourceVersion": metadata.get("resourceVersion", "")}
