"""One sync of a Job, as a generator of writes.

The controller runtime calls it with the objects of its cache.

1. Delete or create pods. A pod that suspension deletes loses its finalizer first, so it is never
   counted.
2. Write the status: uids of newly finished pods in uncountedTerminatedPods, and the interim
   condition.
3. Remove the tracking finalizer of those pods.
4. Write the status: counters grow by the pods of step 3, and the final condition.

A finished Job is only cleaned up: its last pods lose their finalizer, and ttlSecondsAfterFinished
deletes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, resources, times
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods
from pykueue.cluster.job_controller import ending as job_ending
from pykueue.cluster.job_controller import indexes, job_view, policies, replicas
from pykueue.cluster.job_controller.backoff import Backoff
from pykueue.cluster.job_controller.ending import Ending
from pykueue.cluster.job_controller.job_view import FINALIZER, JobView
from pykueue.cluster.job_controller.pod_counts import PodCounts, is_tracked
from pykueue.kube.controller import writes

_MODES = (None, "NonIndexed", "Indexed")
MOST_UNCOUNTED = 500


@dataclass(slots=True, kw_only=True)
class Memory:
    """What the controller keeps of a Job between syncs. A restart may lose it."""

    backoff: Backoff = field(default_factory=Backoff)


class JobReconciler:
    """Syncs any Job, and keeps the backoff of each unfinished Job by uid."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}

    def sync(self, job: Object, owned: list[Object], now: datetime) -> writes.Sync:
        uid = objects.uid(job)
        if JobView(job).is_managed_elsewhere:
            return writes.Done()
        if (finished := job_view.finished_condition(job)) is not None:
            self.forget(uid)
            return (yield from _clean_up(job, finished, owned, now))
        if job["spec"].get("completionMode") not in _MODES:
            message = "Skipped Job sync because completion mode is unknown"
            yield [writes.Event(about=job, type="Warning", reason="UnknownCompletionMode", message=message)]
            return writes.Done()
        memory = self._memories.setdefault(uid, Memory())
        return (yield from sync(job, owned, memory, now))

    def forget(self, uid: str) -> None:
        self._memories.pop(uid, None)


def release(orphans: list[Object]) -> writes.Sync:
    """Remove the tracking finalizer of pods that no Job will count any more."""
    results = yield [
        writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER)
        for pod in orphans
        if FINALIZER in objects.finalizers(pod)
    ]
    return writes.Done(errors=writes.refusals(results))


def _clean_up(job: Object, finished: Object, owned: list[Object], now: datetime) -> writes.Sync:
    """Remove the last finalizers, and delete the Job when ttlSecondsAfterFinished is over."""
    done = yield from release(owned)
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or objects.is_deleted(job):
        return done
    remaining = (times.parse(finished["lastTransitionTime"]) + times.span(seconds) - now).total_seconds()
    if remaining > 0:
        return writes.Done(requeue_after_ns=writes.after_seconds(remaining), errors=done.errors)
    results = yield [writes.Delete(resource=resources.JOB, object=job, propagation_policy="Foreground")]
    return writes.Done(errors=(*done.errors, *writes.refusals(results)))


@dataclass(slots=True, kw_only=True)
class _JobSync:
    """The state of one sync: the status to write, and the events and errors so far."""

    job: JobView
    counts: PodCounts
    now: datetime
    stored: Object
    """The Job as last written; its resourceVersion guards the next status write."""
    status: Object
    active: int
    ready: int
    terminating: int
    backoff: Backoff
    ending: Ending | None = None
    wait: float | None = None
    events: list[writes.Action] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def record(self, type_: str, reason: str, message: str) -> None:
        self.events.append(writes.Event(about=self.job.object, type=type_, reason=reason, message=message))

    def requeue_after(self, seconds: float) -> None:
        self.wait = seconds if self.wait is None else min(self.wait, seconds)


def sync(job_object: Object, owned: Sequence[Object], memory: Memory, now: datetime) -> writes.Sync:
    state = _start(JobView(job_object), owned, memory, now)
    state.ending = job_ending.before_completion(state.counts, now)
    if state.ending is not None:
        yield from _stop_active(state)
    else:
        if not objects.is_deleted(job_object):
            yield from _adjust_pods(state)
        if job_ending.is_complete(state.counts, state.active):
            state.ending = job_ending.COMPLETED
        elif not objects.is_deleted(job_object):
            _set_suspended_condition(state)
    state.status |= {"active": state.active, "ready": state.ready, "terminating": state.terminating}
    yield from _count_finished(state, memory)
    return writes.Done(requeue_after_ns=writes.after_seconds(state.wait), errors=tuple(state.errors))


def _start(job: JobView, owned: Sequence[Object], memory: Memory, now: datetime) -> _JobSync:
    counts = PodCounts.of(job, owned)
    status = copied(job.status)
    if job.start_time is None and not job.is_suspended:
        status["startTime"] = times.to_text(now)
    state = _JobSync(
        job=job,
        counts=counts,
        now=now,
        stored=job.object,
        status=status,
        active=len(counts.active),
        ready=counts.ready,
        terminating=counts.terminating,
        backoff=memory.backoff.after(counts.newly_succeeded, counts.newly_failed),
    )
    remaining = job_ending.seconds_to_deadline(counts, now)
    if remaining is not None and remaining > 0:
        state.requeue_after(remaining)
    return state


def _stop_active(state: _JobSync) -> writes.Step:
    """Delete the active pods. They keep their finalizer until they are counted."""
    yield from _delete(state, state.counts.active)
    if state.active:
        state.ending = None


def _adjust_pods(state: _JobSync) -> writes.Step:
    change = replicas.change(state.counts, state.backoff, state.now)
    if change.wait:
        state.requeue_after(change.wait)
    if change.remove:
        finalizer_results = yield [
            writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER) for pod in change.remove
        ]
        state.errors += writes.refusals(finalizer_results)
        released_pods = [
            pod
            for pod, result in zip(change.remove, finalizer_results, strict=True)
            if not isinstance(result, writes.Refused)
        ]
        yield from _delete(state, released_pods)
    created = yield from pod_control.create(state.job.object, change.create)
    state.errors += created.errors
    state.active += len(created.pods)


def _delete(state: _JobSync, unwanted: Sequence[Object]) -> writes.Step:
    outcome = yield from pod_control.delete(state.job.object, unwanted)
    state.errors += outcome.errors
    state.active -= len(outcome.pods)
    state.terminating += len(outcome.pods)
    state.ready -= sum(map(pods.is_ready, outcome.pods))


def _set_suspended_condition(state: _JobSync) -> None:
    if state.job.is_suspended:
        if _set_condition(state, "Suspended", "True", reason="JobSuspended", message="Job suspended"):
            state.status.pop("startTime", None)
            state.record("Normal", "Suspended", "Job suspended")
    elif api_conditions.find(state.job.object, "Suspended") is not None and _set_condition(
        state, "Suspended", "False", reason="JobResumed", message="Job resumed"
    ):
        state.status["startTime"] = times.to_text(state.now)
        state.record("Normal", "Resumed", "Job resumed")


def _set_condition(state: _JobSync, type_: str, status: str, *, reason: str, message: str) -> bool:
    """Add or replace a condition, with lastProbeTime; False if nothing changes."""
    stamp = times.to_text(state.now)
    condition = {"type": type_, "status": status, "reason": reason, "message": message}
    conditions = state.status.get("conditions") or []
    for current in conditions:
        if current["type"] == type_:
            if condition.items() <= current.items():
                return False
            current.update(condition, lastProbeTime=stamp, lastTransitionTime=stamp)
            return True
    state.status["conditions"] = [*conditions, {"lastProbeTime": stamp, "lastTransitionTime": stamp, **condition}]
    return True


def _count_finished(state: _JobSync, memory: Memory) -> writes.Step:
    tracked = {objects.uid(pod) for pod in state.counts.pods if is_tracked(pod)}
    _move_released_to_counters(state.status, tracked)
    released, has_all = _add_uncounted(state)
    if state.ending is not None and not state.ending.is_announced:
        _set_condition(state, state.ending.interim, "True", reason=state.ending.reason, message=state.ending.message)
    yield from _write_status(state)
    memory.backoff = state.backoff
    if released:
        results = yield [
            writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER) for pod in released
        ]
        state.errors += writes.refusals(results)
        tracked -= {
            objects.uid(pod)
            for pod, result in zip(released, results, strict=True)
            if not isinstance(result, writes.Refused)
        }
        _move_released_to_counters(state.status, tracked)
    if has_all:
        _finish(state)
    yield from _write_status(state)


def _move_released_to_counters(status: Object, tracked: set[str]) -> None:
    """Add every uncounted pod that has lost its finalizer, or no longer exists, to its counter."""
    uncounted = status.setdefault("uncountedTerminatedPods", {})
    for outcome in ("succeeded", "failed"):
        waiting = [uid for uid in uncounted.get(outcome) or () if uid in tracked]
        if counted := len(uncounted.get(outcome) or ()) - len(waiting):
            status[outcome] = status.get(outcome, 0) + counted
            uncounted[outcome] = waiting
        if not waiting:
            uncounted.pop(outcome, None)


def _add_uncounted(state: _JobSync) -> tuple[list[Object], bool]:
    """Add finished pods to uncountedTerminatedPods.

    Returns the pods whose finalizer may be removed now, and whether these are all finished pods.
    """
    job, counts = state.job, state.counts
    uncounted = state.status["uncountedTerminatedPods"]
    completed = set(job.completed_indexes())
    released: list[Object] = []
    has_all = True
    for pod in sorted(counts.pods, key=lambda pod: (job.index_of(pod) or 0, objects.uid(pod))):
        if not is_tracked(pod) or not _may_be_released(state, pod):
            continue
        if len(released) >= MOST_UNCOUNTED:
            has_all = False
            break
        released.append(pod)
        if (outcome := _outcome(state, pod)) and objects.uid(pod) not in _uncounted_uids(uncounted):
            uncounted.setdefault(outcome, []).append(objects.uid(pod))
        elif job.is_indexed and pods.phase(pod) == "Succeeded" and (index := job.index_of(pod)) is not None:
            completed.add(index)
    if job.is_indexed:
        state.status["completedIndexes"] = indexes.text(completed)
        state.status["succeeded"] = len(completed)
        if job.backoff_limit_per_index is not None:
            state.status["failedIndexes"] = indexes.text(counts.failed_indexes)
        _drop_empty(state.status, "completedIndexes", "succeeded")
    return released, has_all


def _uncounted_uids(uncounted: Object) -> set[str]:
    return {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}


def _drop_empty(status: Object, *keys: str) -> None:
    for key in keys:
        if not status.get(key):
            status.pop(key, None)


def _may_be_released(state: _JobSync, pod: Object) -> bool:
    job = state.job
    if objects.is_deleted(job.object) or state.ending is not None or pods.phase(pod) == "Succeeded":
        return True
    if not job.is_failed(pod):
        return False
    return all(objects.uid(pod) != objects.uid(failed_pod) for failed_pod in state.counts.awaiting_replacement.values())


def _outcome(state: _JobSync, pod: Object) -> str:
    """The list of uncountedTerminatedPods for a pod; "" if it adds to no counter."""
    job = state.job
    if pods.phase(pod) == "Succeeded":
        return "" if job.is_indexed else "succeeded"
    is_cut_short = state.ending is not None and not state.ending.is_success
    if not job.is_failed(pod) and not is_cut_short:
        return ""
    if job.is_indexed and job.index_of(pod) is None:
        return ""
    return "failed" if policies.match_failure(job, pod).counts else ""


def _finish(state: _JobSync) -> None:
    ending = state.ending
    if ending is None or state.terminating or _uncounted_uids(state.status["uncountedTerminatedPods"]):
        return
    if not _set_condition(state, ending.final, "True", reason=ending.reason, message=ending.message):
        return
    if not ending.is_success:
        state.record("Warning", ending.reason, ending.message)
        return
    state.status["completionTime"] = times.to_text(state.now)
    if state.job.completions is not None and state.status.get("succeeded", 0) > state.job.completions:
        state.record(
            "Warning",
            "TooManySucceededPods",
            "Too many succeeded pods running after completion count reached",
        )
    state.record("Normal", "Completed", "Job completed")


def _write_status(state: _JobSync) -> writes.Step:
    """Write a changed status, then its events. A refused write ends the sync."""
    status = {key: value for key, value in state.status.items() if key != "active" or value}
    patch = writes.merge_patch(objects.status(state.stored), status)
    if patch:
        write = writes.Patch(resource=resources.JOB, object=state.stored, patch={"status": patch}, subresource="status")
        (result,) = yield [write]
        if isinstance(result, writes.Refused):
            raise result.error
        state.stored = result
    events, state.events = state.events, []
    if events:
        yield events
