"""What the Job controller does with any Job: leave it, count and steer it, or clean up after it."""

from datetime import datetime, timedelta

from pykueue.api import objects, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster.job_controller import job_view
from pykueue.cluster.job_controller import sync as job_sync
from pykueue.cluster.job_controller.job_view import FINALIZER, JobView
from pykueue.cluster.job_controller.sync import Memory
from pykueue.kube.controller import writes

_MODES = (None, "NonIndexed", "Indexed")


class JobReconciler:
    """Remembers the backoff of each unfinished Job by uid."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}

    def sync(self, job: Object, owned: list[Object], now: datetime) -> writes.Sync:
        uid = objects.uid(job)
        if JobView(job).is_managed_elsewhere:
            return writes.Done()
        if (ended := job_view.finished_condition(job)) is not None:
            self.forget(uid)
            return (yield from _clean_up(job, ended, owned, now))
        if job["spec"].get("completionMode") not in _MODES:
            message = "Skipped Job sync because completion mode is unknown"
            yield [writes.Event(about=job, type="Warning", reason="UnknownCompletionMode", message=message)]
            return writes.Done()
        memory = self._memories.setdefault(uid, Memory())
        return (yield from job_sync.sync(job, owned, memory, now))

    def forget(self, uid: str) -> None:
        self._memories.pop(uid, None)


def release(orphans: list[Object]) -> writes.Sync:
    """Pods whose Job is gone must not wait for it."""
    results = yield [
        writes.RemoveFinalizer(resource=resources.POD, object=pod, finalizer=FINALIZER)
        for pod in orphans
        if FINALIZER in objects.finalizers(pod)
    ]
    return writes.Done(errors=writes.refusals(results))


def _clean_up(job: Object, ended: Object, owned: list[Object], now: datetime) -> writes.Sync:
    """A finished Job lets its last pods go, and goes itself when its time to live is over."""
    done = yield from release(owned)
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or objects.is_deleted(job):
        return done
    left = (times.parse(ended["lastTransitionTime"]) + timedelta(seconds=seconds) - now).total_seconds()
    if left > 0:
        return writes.Done(look_again_after=left, errors=done.errors)
    results = yield [writes.Delete(resource=resources.JOB, object=job, propagation_policy="Foreground")]
    return writes.Done(errors=(*done.errors, *writes.refusals(results)))
