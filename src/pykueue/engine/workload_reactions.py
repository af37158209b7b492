"""What the engine does when workloads come, change and go."""

import dataclasses

from pykueue.engine import events, values
from pykueue.engine.reactions import react
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.world import World


@react.register
def _workload_seen(event: events.WorkloadArrived | events.WorkloadChanged, world: World) -> None:
    workload = event.workload
    old = world.workloads.get(workload.key)
    if old is not None and old.local_queue != workload.local_queue:
        world.dequeue(old)
        world.local_queue_usage.drop_penalty(old.local_queue, workload.key)
    world.index(workload)
    if workload.finished or not workload.active:
        _leave(world, workload)
        if workload.finished:
            world.remember_finished(workload)
    elif workload.admission is not None:
        _seen_reserved(world, old, workload)
    elif old is not None and old.admission is not None:
        _back_to_pending(world, workload)
    elif workload.key not in world.assumed:
        _seen_pending(world, workload)
    world.second_passes.note(workload, world.now_ns)


def _leave(world: World, workload: values.Workload) -> None:
    """Finished or deactivated: out of the queue, quota back, and others may try again."""
    world.dequeue(workload)
    world.release(workload.key)
    if workload.finished or workload.admission is None:
        world.local_queue_usage.drop_penalty(workload.local_queue, workload.key)
    _reactivate_around(world, workload)


def _seen_reserved(world: World, old: values.Workload | None, workload: values.Workload) -> None:
    world.dequeue(workload)
    before = None
    if not world.confirm(workload):
        before = world.release(workload.key)
        world.hold(workload)
    was_admitted = old is not None and old.admitted
    if workload.admitted and not was_admitted:
        world.local_queue_usage.settle(workload.local_queue, workload.key)
    after = world.holdings.get(workload.key)
    if before is not None and after is not None:
        if before.evicted and not after.evicted and old is not None and old.admission is not None:
            world.mark_evicted(workload.key, evicted=True)
        if before.usage != after.usage or before.workload.priority != workload.priority:
            _reactivate_around(world, workload)
    _pods_ready_seen(world)


def _back_to_pending(world: World, workload: values.Workload) -> None:
    world.release(workload.key)
    if workload.may_queue:
        world.enqueue(workload)
    _reactivate_around(world, workload)


def _seen_pending(world: World, workload: values.Workload) -> None:
    """One that waits for pods to be replaced keeps its place."""
    if workload.may_queue:
        world.enqueue(workload)
    elif not workload.waiting_for_replacement_pods:
        world.dequeue(workload)


def _reactivate_around(world: World, workload: values.Workload) -> None:
    world.reactivate_around(workload.local_queue)
    _pods_ready_seen(world)


def _pods_ready_seen(world: World) -> None:
    if world.policy.block_admission and not world.not_ready:
        world.stir_all()


@react.register
def _workload_finished(event: events.WorkloadFinished, world: World) -> None:
    workload = world.workloads.get(event.key)
    if workload is not None:
        _leave(world, workload)
        world.local_queue_usage.drop_penalty(workload.local_queue, workload.key)
        world.remember_finished(workload)


@react.register
def _workload_gone(event: events.WorkloadGone, world: World) -> None:
    finished_in = world.finished.pop(event.key, None)
    if finished_in is not None:
        world.reactivate_around(finished_in)
    workload = world.workloads.get(event.key)
    if workload is None:
        return
    world.dequeue(workload)
    world.release(event.key)
    world.local_queue_usage.drop_penalty(workload.local_queue, event.key)
    world.forget(workload)
    _reactivate_around(world, workload)


@react.register
def _checks_changed(event: events.ChecksChanged, world: World) -> None:
    workload = world.workloads.get(event.key)
    if workload is not None:
        changed = dataclasses.replace(workload, check_states=event.check_states)
        _workload_seen(events.WorkloadChanged(workload=changed), world)


@react.register
def _pods_ready_changed(event: events.PodsReadyChanged, world: World) -> None:
    workload = world.workloads.get(event.key)
    if workload is not None:
        world.index(dataclasses.replace(workload, pods_ready=event.pods_ready))
    if event.pods_ready:
        world.not_ready.pop(event.key, None)
    elif event.key in world.holdings:
        world.not_ready[event.key] = None
    _pods_ready_seen(world)


@react.register
def _admission_refused(event: events.AdmissionRefused, world: World) -> None:
    pending = world.assumed.get(event.key)
    if pending is None:
        return
    world.release(event.key)
    world.local_queue_usage.drop_penalty(pending.workload.local_queue, event.key)
    workload = world.workloads.get(event.key)
    if workload is not None and workload.admission is not None:
        world.hold(workload)
        world.second_passes.note(workload, world.now_ns)
        return
    queue = None if workload is None else world.queue_of(workload)
    if workload is not None and queue is not None and workload.may_queue:
        queue.pending.requeue(pending, RequeueReason.FAILED_AFTER_NOMINATION, world.now_ns)
        queue.pending.put(workload, world.now_ns)
        world.stir(queue.node)


@react.register
def _eviction_refused(event: events.EvictionRefused, world: World) -> None:
    if event.key in world.holdings:
        world.mark_evicted(event.key, evicted=False)
