"""Handlers for workloads: how one is queued, charged, released or forgotten."""

from pykueue.engine import events, values
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.state import EngineState


def workload_changed(state: EngineState, workload: values.Workload) -> None:
    """Handle a new or changed workload by comparing it with the value that the state has."""
    old = state.workloads.get(workload.key)
    if old is not None and old.local_queue != workload.local_queue:
        state.dequeue(old)
        state.local_queue_usage.drop_penalty(old.local_queue, workload.key)
    state.index(workload)
    if workload.finished or not workload.active:
        _release(state, workload)
        if workload.finished:
            state.remember_finished(workload)
    elif workload.admission is not None:
        _reserve(state, old, workload)
    elif old is not None and old.admission is not None:
        _requeue(state, workload)
    elif workload.key not in state.assumed:
        _enqueue(state, workload)
    state.second_passes.update(workload, state.now_ns)


def workload_gone(state: EngineState, event: events.WorkloadGone) -> None:
    local_queue = state.finished.pop(event.key, None)
    if local_queue is not None:
        state.reactivate_around(local_queue)
    workload = state.workloads.get(event.key)
    if workload is None:
        return
    state.dequeue(workload)
    released = state.release(event.key)
    state.local_queue_usage.drop_penalty(workload.local_queue, event.key)
    state.forget(workload)
    _reactivate_around(state, workload, released)


def admission_refused(state: EngineState, event: events.AdmissionRefused) -> None:
    pending = state.assumed.get(event.key)
    if pending is None:
        return
    state.release(event.key)
    state.local_queue_usage.drop_penalty(pending.workload.local_queue, event.key)
    workload = state.workloads.get(event.key)
    if workload is not None and workload.admission is not None:
        state.reserve(workload)
        state.second_passes.update(workload, state.now_ns)
        return
    queue = None if workload is None else state.queue_of(workload)
    if workload is not None and queue is not None and workload.may_queue:
        queue.pending.requeue(pending, RequeueReason.FAILED_AFTER_NOMINATION, state.now_ns)
        queue.pending.put(workload, state.now_ns)
        state.mark_dirty(queue.node)


def eviction_refused(state: EngineState, event: events.EvictionRefused) -> None:
    if event.key in state.reservations:
        state.mark_evicted(event.key, evicted=False)


def _release(state: EngineState, workload: values.Workload) -> None:
    """Dequeue a finished or deactivated workload, release its quota, reactivate its tree."""
    state.dequeue(workload)
    released = state.release(workload.key)
    if workload.finished or workload.admission is None:
        state.local_queue_usage.drop_penalty(workload.local_queue, workload.key)
    _reactivate_around(state, workload, released)


def _reserve(state: EngineState, old: values.Workload | None, workload: values.Workload) -> None:
    """Charge an admission, unless it is the assumed one, which is charged already."""
    state.dequeue(workload)
    before = None
    if not state.confirm(workload):
        before = state.release(workload.key)
        state.reserve(workload)
    was_admitted = old is not None and old.admitted
    if workload.admitted and not was_admitted:
        state.local_queue_usage.settle(workload.local_queue, workload.key)
    after = state.reservations.get(workload.key)
    if before is not None and after is not None:
        if before.evicted and not after.evicted and old is not None and old.admission is not None:
            state.mark_evicted(workload.key, evicted=True)
        if before.usage != after.usage or before.workload.priority != workload.priority:
            _reactivate_around(state, workload)
    _unblock_admission(state)


def _requeue(state: EngineState, workload: values.Workload) -> None:
    """Release the quota of a workload that lost its admission, and queue it again."""
    released = state.release(workload.key)
    if workload.may_queue:
        state.enqueue(workload)
    _reactivate_around(state, workload, released)


def _enqueue(state: EngineState, workload: values.Workload) -> None:
    """Queue a pending workload. One that waits for replacement pods keeps its position."""
    if workload.may_queue:
        state.enqueue(workload)
    elif not workload.waiting_for_replacement_pods:
        state.dequeue(workload)


def _reactivate_around(state: EngineState, workload: values.Workload, released: Reservation | None = None) -> None:
    """Let the workloads be tried again that may fit now.

    Kueue finds them by the local queue and forgets them if it was deleted before its workloads.
    """
    state.reactivate_around(workload.local_queue)
    if released is not None and workload.local_queue not in state.local_queues:
        state.reactivate_queue(released.cluster_queue)
    _unblock_admission(state)


def _unblock_admission(state: EngineState) -> None:
    """With `waitForPodsReady.blockAdmission`, admission goes on when all pods are ready."""
    if state.policy.block_admission and not state.not_ready:
        state.mark_all_dirty()
