"""One sync of a Job, as a generator of writes. Called by the shell with what the cache shows; driven by hand in tests.

1. remove or create pods                   (a pod removed by suspension is released first, so it never counts)
2. status: newly finished pods by uid in uncountedTerminatedPods, interim condition
3. release those pods from the tracking finalizer
4. status: counters grow by the pods that are released, final condition
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods
from pykueue.cluster.job_controller import ending as job_ending
from pykueue.cluster.job_controller import indexes, policies, replicas
from pykueue.cluster.job_controller import pod_counts as job_census
from pykueue.cluster.job_controller.backoff import Backoff
from pykueue.cluster.job_controller.ending import Ending
from pykueue.cluster.job_controller.job_view import FINALIZER, JobView
from pykueue.cluster.job_controller.pod_counts import PodCounts
from pykueue.kube.controller import writes

MOST_UNCOUNTED = 500


@dataclass(slots=True, kw_only=True)
class Memory:
    """What the controller remembers of a Job between syncs; losing it is harmless."""

    backoff: Backoff = field(default_factory=Backoff)


@dataclass(slots=True, kw_only=True)
class _Course:
    """The run of one sync: the status in the making and what happened so far."""

    job: JobView
    census: PodCounts
    now: datetime
    stored: Object
    """The Job as last written; its version guards the next status write."""
    status: Object
    active: int
    ready: int
    terminating: int
    backoff: Backoff
    ending: Ending | None = None
    wait: float | None = None
    events: list[writes.Write] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def record(self, type_: str, reason: str, message: str) -> None:
        self.events.append(writes.Event(about=self.job.object, type=type_, reason=reason, message=message))

    def look_again_after(self, seconds: float) -> None:
        self.wait = seconds if self.wait is None else min(self.wait, seconds)


def sync(job_object: Object, owned: Sequence[Object], memory: Memory, now: datetime) -> writes.Sync:
    course = _begin(JobView(job_object), owned, memory, now)
    course.ending = job_ending.before_completion(course.census, now)
    if course.ending is not None:
        yield from _stop_active(course)
    else:
        if not objects.is_deleted(job_object):
            yield from _adjust_pods(course)
        if job_ending.is_complete(course.census, course.active):
            course.ending = job_ending.COMPLETED
        elif not objects.is_deleted(job_object):
            _tell_suspension(course)
    course.status |= {"active": course.active, "ready": course.ready, "terminating": course.terminating}
    yield from _count_finished(course, memory)
    return writes.Done(look_again_after=course.wait, errors=tuple(course.errors))


def _begin(job: JobView, owned: Sequence[Object], memory: Memory, now: datetime) -> _Course:
    census = job_census.take(job, owned)
    status = copy.deepcopy(job.status)
    if job.start_time is None and not job.is_suspended:
        status["startTime"] = times.to_text(now)
    course = _Course(
        job=job,
        census=census,
        now=now,
        stored=job.object,
        status=status,
        active=len(census.active),
        ready=census.ready,
        terminating=census.terminating,
        backoff=memory.backoff.after(census.newly_succeeded, census.newly_failed),
    )
    left = job_ending.seconds_to_deadline(census, now)
    if left is not None and left > 0:
        course.look_again_after(left)
    return course


def _stop_active(course: _Course) -> writes.Step:
    """Ends active pods of a job that is over; they keep their finalizer until they are counted."""
    yield from _delete(course, course.census.active)
    if course.active:
        course.ending = None


def _adjust_pods(course: _Course) -> writes.Step:
    change = replicas.change(course.census, course.backoff, course.now)
    if change.wait:
        course.look_again_after(change.wait)
    if change.remove:
        released = yield [
            writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER) for pod in change.remove
        ]
        course.errors += writes.refusals(released)
        gone = [
            pod for pod, result in zip(change.remove, released, strict=True) if not isinstance(result, writes.Refused)
        ]
        yield from _delete(course, gone)
    created = yield from pod_control.create(course.job.object, change.create)
    course.errors += created.errors
    course.active += len(created.pods)


def _delete(course: _Course, some: Sequence[Object]) -> writes.Step:
    outcome = yield from pod_control.delete(course.job.object, some)
    course.errors += outcome.errors
    course.active -= len(outcome.pods)
    course.terminating += len(outcome.pods)
    course.ready -= sum(map(pods.is_ready, outcome.pods))


def _tell_suspension(course: _Course) -> None:
    if course.job.is_suspended:
        if _set_condition(course, "Suspended", "True", reason="JobSuspended", message="Job suspended"):
            course.status.pop("startTime", None)
            course.record("Normal", "Suspended", "Job suspended")
    elif api_conditions.find(course.job.object, "Suspended") is not None and _set_condition(
        course, "Suspended", "False", reason="JobResumed", message="Job resumed"
    ):
        course.status["startTime"] = times.to_text(course.now)
        course.record("Normal", "Resumed", "Job resumed")


def _set_condition(course: _Course, type_: str, status: str, *, reason: str, message: str) -> bool:
    """Adds or replaces a condition; False if it says so already."""
    stamp = times.to_text(course.now)
    told = {"type": type_, "status": status, "reason": reason, "message": message}
    conditions = course.status.get("conditions") or []
    for found in conditions:
        if found["type"] == type_:
            if told.items() <= found.items():
                return False
            found.update(told, lastProbeTime=stamp, lastTransitionTime=stamp)
            return True
    course.status["conditions"] = [*conditions, {"lastProbeTime": stamp, "lastTransitionTime": stamp, **told}]
    return True


def _count_finished(course: _Course, memory: Memory) -> writes.Step:
    tracked = {objects.uid(pod) for pod in course.census.pods if job_census.is_tracked(pod)}
    _move_released_to_counters(course.status, tracked)
    released, is_everything = _note_uncounted(course)
    if course.ending is not None and not course.ending.is_announced:
        _set_condition(
            course, course.ending.interim, "True", reason=course.ending.reason, message=course.ending.message
        )
    yield from _write_status(course)
    memory.backoff = course.backoff
    if released:
        results = yield [
            writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER) for pod in released
        ]
        course.errors += writes.refusals(results)
        tracked -= {
            objects.uid(pod)
            for pod, result in zip(released, results, strict=True)
            if not isinstance(result, writes.Refused)
        }
        _move_released_to_counters(course.status, tracked)
    if is_everything:
        _finish(course)
    yield from _write_status(course)


def _move_released_to_counters(status: Object, tracked: set[str]) -> None:
    """Counts every uncounted pod that lost its finalizer (or is gone)."""
    uncounted = status.setdefault("uncountedTerminatedPods", {})
    for outcome in ("succeeded", "failed"):
        waiting = [uid for uid in uncounted.get(outcome) or () if uid in tracked]
        if counted := len(uncounted.get(outcome) or ()) - len(waiting):
            status[outcome] = status.get(outcome, 0) + counted
            uncounted[outcome] = waiting
        if not waiting:
            uncounted.pop(outcome, None)


def _note_uncounted(course: _Course) -> tuple[list[Object], bool]:
    """Notes finished pods in the status; returns those that may now be released, and whether they are all."""
    job, census = course.job, course.census
    uncounted = course.status["uncountedTerminatedPods"]
    completed = set(job.completed_indexes())
    released: list[Object] = []
    is_everything = True
    for pod in sorted(census.pods, key=lambda pod: (job.index_of(pod) or 0, objects.uid(pod))):
        if not job_census.is_tracked(pod) or not _may_be_released(course, pod):
            continue
        if len(released) >= MOST_UNCOUNTED:
            is_everything = False
            break
        released.append(pod)
        if (outcome := _outcome(course, pod)) and objects.uid(pod) not in _noted(uncounted):
            uncounted.setdefault(outcome, []).append(objects.uid(pod))
        elif job.is_indexed and pods.phase(pod) == "Succeeded" and (index := job.index_of(pod)) is not None:
            completed.add(index)
    if job.is_indexed:
        course.status["completedIndexes"] = indexes.text(completed)
        course.status["succeeded"] = len(completed)
        if job.backoff_limit_per_index is not None:
            course.status["failedIndexes"] = indexes.text(census.failed_indexes)
        _drop_empty(course.status, "completedIndexes", "succeeded")
    return released, is_everything


def _noted(uncounted: Object) -> set[str]:
    return {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}


def _drop_empty(status: Object, *keys: str) -> None:
    for key in keys:
        if not status.get(key):
            status.pop(key, None)


def _may_be_released(course: _Course, pod: Object) -> bool:
    job = course.job
    if objects.is_deleted(job.object) or course.ending is not None or pods.phase(pod) == "Succeeded":
        return True
    if not job.is_failed(pod):
        return False
    return all(objects.uid(pod) != objects.uid(waiting) for waiting in course.census.awaiting_replacement.values())


def _outcome(course: _Course, pod: Object) -> str:
    """Which uncounted list a released pod belongs to; "" if it adds to no counter."""
    job = course.job
    if pods.phase(pod) == "Succeeded":
        return "" if job.is_indexed else "succeeded"
    is_cut_short = course.ending is not None and not course.ending.is_success
    if not job.is_failed(pod) and not is_cut_short:
        return ""
    if job.is_indexed and job.index_of(pod) is None:
        return ""
    return "failed" if policies.match_failure(job, pod).counts else ""


def _finish(course: _Course) -> None:
    ending = course.ending
    if ending is None or course.terminating or _noted(course.status["uncountedTerminatedPods"]):
        return
    if not _set_condition(course, ending.final, "True", reason=ending.reason, message=ending.message):
        return
    if not ending.is_success:
        course.record("Warning", ending.reason, ending.message)
        return
    course.status["completionTime"] = times.to_text(course.now)
    if course.job.completions is not None and course.status.get("succeeded", 0) > course.job.completions:
        course.record(
            "Warning",
            "TooManySucceededPods",
            "Too many succeeded pods running after completion count reached",
        )
    course.record("Normal", "Completed", "Job completed")


def _write_status(course: _Course) -> writes.Step:
    """Writes what changed, with the events that belong to it. A refusal ends the sync: the next one sees the truth."""
    shown = {key: value for key, value in course.status.items() if key != "active" or value}
    patch = writes.merge_patch(course.stored.get("status") or {}, shown)
    if patch:
        write = writes.Patch(
            resource=resources.JOB, object=course.stored, patch={"status": patch}, subresource="status"
        )
        (result,) = yield [write]
        if isinstance(result, writes.Refused):
            raise result.error
        course.stored = result
    events, course.events = course.events, []
    if events:
        yield events
