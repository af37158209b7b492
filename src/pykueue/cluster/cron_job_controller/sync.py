"""One sync of a CronJob: updates `status.active`, deletes old Jobs, creates the Job now due."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster.cron_job_controller import schedule
from pykueue.cluster.job_controller import job_view
from pykueue.kube.controller import writes

_MOST_MISSED = 100
_TOO_MANY = "too many missed start times: {}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(slots=True, kw_only=True)
class _CronJobSync:
    """The state of one sync: the status to write, and the writes so far."""

    cron_job: Object
    jobs: Sequence[Object]
    now: datetime
    status: Object
    batch: list[writes.Action] = field(default_factory=list)

    @property
    def spec(self) -> Object:
        spec: Object = self.cron_job["spec"]
        return spec

    def record(self, type_: str, reason: str, message: str) -> None:
        self.batch.append(writes.Event(about=self.cron_job, type=type_, reason=reason, message=message))

    def delete(self, job: Object) -> None:
        self.batch.append(writes.Delete(resource=resources.JOB, object=job))
        self.record("Normal", "SuccessfulDelete", f"Deleted job {objects.name(job)}")
        self.remove_from_active(objects.uid(job))

    def remove_from_active(self, uid: str) -> None:
        self.status["active"] = [reference for reference in self.status.get("active", ()) if reference["uid"] != uid]


def sync(cron_job: Object, jobs: Sequence[Object], now: datetime) -> writes.Sync:
    state = _CronJobSync(cron_job=cron_job, jobs=jobs, now=now, status=copy.deepcopy(objects.status(cron_job)))
    _reconcile_active(state)
    _delete_old_jobs(state)
    wait: float | None = None
    if not objects.is_deleted(cron_job) and not state.spec.get("suspend"):
        try:
            wait = yield from _start_if_due(state)
        except schedule.ScheduleError as error:
            state.record(
                "Warning", "UnparseableSchedule", f"unparseable schedule: {state.spec['schedule']!r} : {error}"
            )
    results = (yield state.batch) if state.batch else []
    if not state.status.get("active"):
        state.status.pop("active", None)
    patch = writes.merge_patch(objects.status(cron_job), state.status)
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
    return writes.Done(requeue_after_ns=writes.after_seconds(wait), errors=writes.refusals(results))


def _reconcile_active(state: _CronJobSync) -> None:
    active_uids = {reference["uid"] for reference in state.status.get("active", ())}
    present = {objects.uid(job): job for job in state.jobs}
    for uid, job in present.items():
        finished = job_view.finished_condition(job)
        if finished is None and uid not in active_uids:
            state.record(
                "Warning",
                "UnexpectedJob",
                f"Saw a job that the controller did not create or forgot: {objects.name(job)}",
            )
        elif finished is not None and uid in active_uids:
            state.remove_from_active(uid)
            state.record(
                "Normal", "SawCompletedJob", f"Saw completed job: {objects.name(job)}, condition: {finished['type']}"
            )
            ended = job["status"].get("completionTime")
            if finished["type"] == "Complete" and ended:
                state.status["lastSuccessfulTime"] = max(ended, state.status.get("lastSuccessfulTime", ""))
    for reference in list(state.status.get("active", ())):
        if reference["uid"] not in present:
            state.remove_from_active(reference["uid"])
            state.record("Normal", "MissingJob", f"Active job went missing: {reference['name']}")


def _delete_old_jobs(state: _CronJobSync) -> None:
    for type_, field_name, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [job for job in state.jobs if (job_view.finished_condition(job) or {}).get("type") == type_]
        ended.sort(key=lambda job: (job["status"].get("startTime", ""), objects.name(job)))
        for job in ended[: max(0, len(ended) - state.spec.get(field_name, default))]:
            state.delete(job)


def _start_if_due(state: _CronJobSync) -> writes.Step:
    """Create the Job of the latest missed time, if any; return the seconds until the next time."""
    cron_schedule = schedule.parse(state.spec["schedule"])
    now = state.now.astimezone(schedule.zone(state.spec.get("timeZone") or ""))
    due, upcoming = _due(state, cron_schedule, now)
    wait = None if upcoming is None else max(0.0, (upcoming - now).total_seconds())
    if due is None:
        return wait
    deadline = state.spec.get("startingDeadlineSeconds")
    if deadline is not None and due + times.span(deadline) < now:
        state.record("Warning", "MissSchedule", f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S %z}")
        return wait
    if not _apply_concurrency_policy(state):
        return wait
    name = f"{objects.name(state.cron_job)}-{int(due.timestamp()) // 60}"
    (result,) = yield [writes.Create(resource=resources.JOB, object=_job(state.cron_job, name, due))]
    if isinstance(result, writes.Refused):
        if getattr(result.error, "reason", "") != "AlreadyExists":
            state.record("Warning", "FailedCreate", f"Error creating job: {result.error}")
            raise result.error
        return wait
    state.record("Normal", "SuccessfulCreate", f"Created job {name}")
    state.status.setdefault("active", []).append(_reference(result))
    state.status["lastScheduleTime"] = times.to_text(due)
    return wait


def _due(
    state: _CronJobSync, cron_schedule: schedule.Schedule, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """The latest time missed since the last start, or None, and the next time of the schedule."""
    last = state.status.get("lastScheduleTime") or state.cron_job["metadata"]["creationTimestamp"]
    earliest = times.parse(last).astimezone(now.tzinfo)
    deadline = state.spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, now - times.span(deadline))
    missed, due, upcoming = 0, None, cron_schedule.next(earliest)
    while upcoming is not None and upcoming <= now and missed <= _MOST_MISSED:
        missed, due = missed + 1, upcoming
        upcoming = cron_schedule.next(upcoming)
    if missed > _MOST_MISSED and due is not None and upcoming is not None and upcoming <= now:
        missed += (now - upcoming) // (upcoming - due) + 1
        due = cron_schedule.latest(due, now)
        upcoming = cron_schedule.next(due)
    if missed > _MOST_MISSED:
        state.record("Warning", "TooManyMissedTimes", _TOO_MANY.format(missed))
    return due, upcoming


def _apply_concurrency_policy(state: _CronJobSync) -> bool:
    """Delete active Jobs if the policy is Replace; return whether a new Job may start."""
    policy = state.spec.get("concurrencyPolicy", "Allow")
    active_uids = {reference["uid"] for reference in state.status.get("active", ())}
    if policy == "Forbid" and active_uids:
        state.record(
            "Normal",
            "JobAlreadyActive",
            "Not starting job because prior execution is running and concurrency policy is Forbid",
        )
        return False
    if policy == "Replace":
        for job in state.jobs:
            if objects.uid(job) in active_uids:
                state.delete(job)
    return True


def _job(cron_job: Object, name: str, due: datetime) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    metadata = copy.deepcopy(objects.nested(template, "metadata"))
    job_metadata: Object = {key: metadata[key] for key in ("labels",) if metadata.get(key)}
    job_metadata["annotations"] = (metadata.get("annotations") or {}) | {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": due.isoformat().replace("+00:00", "Z")
    }
    job_metadata |= {
        "name": name,
        "namespace": objects.namespace(cron_job),
        "ownerReferences": [objects.controller_reference(cron_job)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": job_metadata, "spec": copy.deepcopy(template["spec"])}


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return reference | {"namespace": metadata["namespace"], "resourceVersion": metadata.get("resourceVersion", "")}
