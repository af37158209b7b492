"""Decides what the workload controller does next: returns the changed Workload and the events.

The decision is level-based: a step that changes the Workload ends the reconcile, and the change
triggers the next one. `controller` reads the objects, calls `decide` and applies the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from pykueue.api import conditions, objects
from pykueue.api.json_copy import copied
from pykueue.api.labels import CONCURRENT_ADMISSION_PARENT, JOB_UID, RESOURCE_IN_USE
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.workloads import causes, checks, predicates, transitions
from pykueue.controllers.workloads.context import LifecyclePolicy, WorkloadContext, WorkloadPlan
from pykueue.controllers.workloads.unadmitted import MISCONFIGURED, PENDING_EVALUATION, SUSPENDED
from pykueue.kube.controller.writes import Event
from pykueue.translate import variants


@dataclass(slots=True, kw_only=True)
class _Reconcile:
    """One reconcile of a Workload: its input, and the changes so far."""

    original: Object
    workload: Object
    context: WorkloadContext
    policy: LifecyclePolicy
    now_ns: int
    events: list[Event] = field(default_factory=list)
    delete: bool = False
    requeue_after_ns: int = 0

    def record_event(self, reason: str, message: str, *, event_type: str = "Normal") -> None:
        text = conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES)
        self.events.append(Event(about=self.original, reason=reason, message=text, type=event_type))

    def release_quota(self, granular: str, legacy: str, message: str) -> bool:
        """Releases the quota, with the reason that the gates ask for."""
        return transitions.release_quota(
            self.workload,
            reason=self.policy.unadmitted.reason(granular, legacy),
            message=message,
            now_ns=self.now_ns,
            unadmitted=self.policy.unadmitted,
        )

    def evict(self, reason: str, message: str, cause: str = "") -> None:
        had_admission = "admission" in self.workload.get("status", {})
        transitions.evict(self.workload, reason=reason, message=message, cause=cause, now_ns=self.now_ns)
        if had_admission:
            self.record_event(transitions.eviction_event_reason(reason, cause), message)


def decide(workload: Object, context: WorkloadContext, policy: LifecyclePolicy, now_ns: int) -> WorkloadPlan:
    reconcile = _Reconcile(
        original=workload, workload=_editable(workload), context=context, policy=policy, now_ns=now_ns
    )
    for step in _STEPS:
        if step(reconcile):
            break
    return WorkloadPlan(
        workload=reconcile.workload,
        events=tuple(reconcile.events),
        delete=reconcile.delete,
        requeue_after_ns=max(reconcile.requeue_after_ns, 0),
    )


def _editable(workload: Object) -> Object:
    """A copy whose status may be changed, and whose metadata and spec may get other values."""
    return workload | {
        "metadata": dict(workload["metadata"]),
        "spec": dict(workload["spec"]),
        "status": copied(workload.get("status") or {}),
    }


def remove_finalizer(workload: Object) -> bool:
    finalizers = objects.finalizers(workload)
    if RESOURCE_IN_USE not in finalizers:
        return False
    others = [name for name in finalizers if name != RESOURCE_IN_USE]
    if others:
        workload["metadata"]["finalizers"] = others
    else:
        del workload["metadata"]["finalizers"]
    return True


def _orphan(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    if workload["metadata"].get("ownerReferences"):
        return False
    deleted = objects.is_deleted(workload)
    had_job = JOB_UID in objects.labels(workload)
    if not deleted and not (reconcile.policy.finish_orphans and had_job):
        return False
    if reconcile.policy.finish_orphans and not deleted:
        transitions.finish(
            workload, reason="OwnerNotFound", message="The workload's owner no longer exists", now_ns=reconcile.now_ns
        )
    remove_finalizer(workload)
    return deleted or not reconcile.policy.finish_orphans


def _finished(reconcile: _Reconcile) -> bool:
    finished = conditions.find(reconcile.workload, "Finished")
    if finished is None or finished["status"] != "True":
        return False
    if reconcile.policy.retain_finished_ns is None:
        return True
    expires_ns = conditions.since_ns(finished) + reconcile.policy.retain_finished_ns
    if reconcile.now_ns < expires_ns:
        reconcile.requeue_after_ns = expires_ns - reconcile.now_ns
        return True
    remove_finalizer(reconcile.workload)
    if not objects.is_deleted(reconcile.workload):
        reconcile.delete = True
        reconcile.record_event("Deleted", "Deleted finished workload due to elapsed retention")
    return True


def _preemption_gates(reconcile: _Reconcile) -> bool:
    if reconcile.policy.syncs_preemption_gates:
        transitions.sync_preemption_gates(reconcile.workload, reconcile.now_ns)
    return False


def _parent_of_variants(reconcile: _Reconcile) -> bool:
    """Labels the Workload of a job whose ClusterQueue tries all flavors at a time."""
    workload = reconcile.workload
    if not reconcile.context.admits_concurrently or variants.is_parent(workload) or variants.is_variant(workload):
        return False
    workload["metadata"]["labels"] = {**objects.labels(workload), CONCURRENT_ADMISSION_PARENT: "true"}
    return True


def _retry_delay(reconcile: _Reconcile) -> bool:
    retry_at_ns = checks.retry_at_ns(reconcile.workload)
    if retry_at_ns <= reconcile.now_ns:
        return False
    requeue_state = objects.nested(reconcile.workload, "status", "requeueState")
    if "requeueAt" in requeue_state and to_ns(requeue_state["requeueAt"]) >= retry_at_ns:
        return False
    return transitions.requeue_not_before(reconcile.workload, retry_at_ns, count=False)


def _devices(reconcile: _Reconcile) -> bool:
    """A pending workload is inadmissible while its devices cannot be counted."""
    workload, fault = reconcile.workload, reconcile.context.device_fault
    if predicates.status_word(workload) != "pending" or predicates.is_on_hold(workload):
        return False
    if fault is None:
        if conditions.is_false_because(workload, "Requeued", "Inadmissible"):
            conditions.remove(workload, "Requeued")
            conditions.remove(workload, "QuotaReserved")
        return False
    if reconcile.release_quota(MISCONFIGURED, "Inadmissible", fault.text):
        transitions.set_requeued(
            workload, allowed=False, reason="Inadmissible", message=fault.requeued_text, now_ns=reconcile.now_ns
        )
    return True


def _deactivation(reconcile: _Reconcile) -> bool:
    """Evicts a Workload with `spec.active: false` once, and resets its backoff."""
    workload = reconcile.workload
    if predicates.is_active(workload):
        return False
    target = conditions.find(workload, "DeactivationTarget")
    has_backoff = "requeueState" in objects.status(workload)
    if predicates.is_evicted(workload) and not has_backoff:
        return False
    conditions.remove(workload, "DeactivationTarget")
    workload.setdefault("status", {}).pop("requeueState", None)
    if not predicates.is_evicted(workload):
        message, cause = "The workload is deactivated", ""
        if target is not None:
            message, cause = f"{message} due to {target['message']}", target["reason"]
        reconcile.evict("Deactivated", message, cause)
    return True


def _deactivation_target(reconcile: _Reconcile) -> bool:
    if not predicates.is_active(reconcile.workload) or not conditions.is_true(reconcile.workload, "DeactivationTarget"):
        return False
    reconcile.workload["spec"]["active"] = False
    return True


def _backoff(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    if not predicates.is_active(workload):
        return False
    requeue_state = objects.nested(workload, "status", "requeueState")
    if "requeueAt" not in requeue_state:
        return False
    remaining_ns = to_ns(requeue_state["requeueAt"]) - reconcile.now_ns
    if remaining_ns > 0:
        reconcile.requeue_after_ns = remaining_ns
        return True
    if predicates.status_word(workload) == "pending":
        del requeue_state["requeueAt"]
        return True
    return False


def _requeue_after_backoff(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    requeued = conditions.find(workload, "Requeued")
    if not predicates.is_active(workload) or requeued is None or requeued["status"] != "False":
        return False
    if requeued["reason"] == "Deactivated":
        reason, message = "Reactivated", "The workload was reactivated"
    elif requeued["reason"] in ("PodsReadyTimeout", "AdmissionCheck"):
        reason, message = "BackoffFinished", "The workload backoff was finished"
        (workload["status"].get("requeueState") or {}).pop("requeueAt", None)
    else:
        return False
    return transitions.set_requeued(workload, allowed=True, reason=reason, message=message, now_ns=reconcile.now_ns)


def _queue_restarted(reconcile: _Reconcile) -> bool:
    context = reconcile.context
    if (
        context.local_queue is not None
        and not predicates.stop_policy(context.local_queue)
        and _waits_for(reconcile, "LocalQueueStopped")
    ):
        reason, queue = "LocalQueueRestarted", "LocalQueue"
    elif (
        context.cluster_queue is not None
        and not predicates.stop_policy(context.cluster_queue)
        and _waits_for(reconcile, "ClusterQueueStopped")
        and not _gate_changed(reconcile.workload)
    ):
        reason, queue = "ClusterQueueRestarted", "ClusterQueue"
    else:
        return False
    message = f"The {queue} was restarted after being stopped"
    return transitions.set_requeued(
        reconcile.workload, allowed=True, reason=reason, message=message, now_ns=reconcile.now_ns
    )


def _waits_for(reconcile: _Reconcile, reason: str) -> bool:
    return conditions.is_false_because(reconcile.workload, "Requeued", reason)


def _gate_changed(workload: Object) -> bool:
    reserved = conditions.find(workload, "QuotaReserved")
    says_gated = reserved is not None and reserved.get("reason") == "AdmissionGated"
    return bool(predicates.admission_gate(workload)) != says_gated


def _admission_gate(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    if not reconcile.policy.admission_gates or not _gate_changed(workload):
        return False
    gate = predicates.admission_gate(workload)
    if gate:
        message = f"Admission is gated by: {gate}"
        reconcile.release_quota("AdmissionGated", "AdmissionGated", message)
        reconcile.record_event("AdmissionGated", f"Workload admission is gated by: {gate}")
    else:
        message = "AdmissionGatedBy cleared, waiting for quota reservation"
        reconcile.release_quota(PENDING_EVALUATION, "Pending", message)
        reconcile.record_event("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return True


def _has_variants(reconcile: _Reconcile) -> bool:
    """The admission checks of a parent are those of its variants."""
    return reconcile.policy.concurrent_admission and variants.is_parent(reconcile.workload)


def _sync_checks(reconcile: _Reconcile) -> bool:
    if reconcile.context.cluster_queue is None or _has_variants(reconcile):
        return False
    return checks.sync(
        reconcile.workload, checks.required(reconcile.workload, reconcile.context.cluster_queue), reconcile.now_ns
    )


def _sync_conditions(reconcile: _Reconcile) -> bool:
    """Updates QuotaReserved=False and Admitted; ends the reconcile if there is no reservation."""
    workload = reconcile.workload
    if predicates.is_admitted(workload):
        return False
    if not predicates.has_quota_reservation(workload):
        cause = causes.unadmitted_cause(workload, reconcile.context, reconcile.policy)
        if cause is not None:
            reason, message = cause
            conditions.put(
                workload, "QuotaReserved", status=False, reason=reason, message=message, now_ns=reconcile.now_ns
            )
    is_changed = transitions.sync_admitted(workload, reconcile.now_ns, reconcile.policy.unadmitted)
    if is_changed and predicates.is_admitted(workload):
        reserved = conditions.find(workload, "QuotaReserved")
        assert reserved is not None
        waited = round((reconcile.now_ns - conditions.since_ns(reserved)) / SECOND_NS)
        queue = predicates.cluster_queue_reserved(workload)
        reconcile.record_event(
            "Admitted", f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
        )
    return not predicates.has_quota_reservation(workload)


def _failed_checks(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    if predicates.is_evicted(workload) or _has_variants(reconcile):
        return False
    rejected, retry = predicates.checks_in(workload, "Rejected"), predicates.checks_in(workload, "Retry")
    if rejected:
        message = checks.summary(rejected, "Rejected")
        transitions.target_deactivation(workload, reason="AdmissionCheck", message=message, now_ns=reconcile.now_ns)
        reconcile.record_event("AdmissionCheckRejected", f"Deactivated due to {message}", event_type="Warning")
    elif retry:
        reconcile.evict("AdmissionCheck", f"Evicted due to {checks.summary(retry, 'Retry')}")
    return bool(rejected or retry)


def _stopped_queues(reconcile: _Reconcile) -> bool:
    """Releases the quota of unadmitted workloads of stopped queues; draining evicts others."""
    workload, context = reconcile.workload, reconcile.context
    queues = (
        ("LocalQueue", workload["spec"].get("queueName", ""), context.local_queue),
        ("ClusterQueue", context.cluster_queue_name, context.cluster_queue),
    )
    for kind, name, queue in queues:
        stop = predicates.stop_policy(queue) if queue is not None else ""
        if predicates.is_admitted(workload):
            if stop == "HoldAndDrain" and not predicates.is_evicted(workload):
                reconcile.evict(f"{kind}Stopped", f"The {kind} is stopped")
                return True
            continue
        if queue is None or objects.is_deleted(queue):
            reconcile.release_quota(MISCONFIGURED, "Inadmissible", f"{kind} {name} is terminating or missing")
        elif stop:
            reconcile.release_quota(SUSPENDED, "Inadmissible", f"{kind} {name} is stopped")
        else:
            continue
        return True
    return False


def _pods_ready_timeout(reconcile: _Reconcile) -> bool:
    workload, pods_ready = reconcile.workload, reconcile.policy.pods_ready
    if pods_ready is None or not predicates.is_active(workload) or predicates.is_evicted(workload):
        return False
    if reconcile.policy.concurrent_admission and variants.is_variant(workload):
        return False
    cause, remaining_ns = _remaining_pods_ready_time(reconcile)
    if not cause:
        return False
    if remaining_ns > 0:
        reconcile.requeue_after_ns = remaining_ns
        return False
    count = objects.nested(workload, "status", "requeueState").get("count", 0) + 1
    if pods_ready.backoff_limit_count is not None and count > pods_ready.backoff_limit_count:
        transitions.target_deactivation(
            workload,
            reason="RequeuingLimitExceeded",
            message="exceeding the maximum number of re-queuing retries",
            now_ns=reconcile.now_ns,
        )
        return False
    wait = transitions.backoff_seconds(
        count, base_seconds=pods_ready.backoff_base_seconds, max_seconds=pods_ready.backoff_max_seconds
    )
    transitions.requeue_not_before(workload, reconcile.now_ns + wait * SECOND_NS, count=True)
    reconcile.evict("PodsReadyTimeout", f"Exceeded the PodsReady timeout {predicates.key(workload)}", cause)
    return False


def _remaining_pods_ready_time(reconcile: _Reconcile) -> tuple[str, int]:
    admitted = conditions.find(reconcile.workload, "Admitted")
    ready = conditions.find(reconcile.workload, "PodsReady")
    policy = reconcile.policy.pods_ready
    if policy is None or admitted is None or admitted["status"] != "True" or (ready and ready["status"] == "True"):
        return "", 0
    if ready is None or ready["reason"] in ("WaitForStart", "PodsReady"):
        return "WaitForStart", conditions.since_ns(admitted) + policy.timeout_ns - reconcile.now_ns
    if ready["reason"] == "WaitForRecovery" and policy.recovery_timeout_ns is not None:
        return "WaitForRecovery", conditions.since_ns(ready) + policy.recovery_timeout_ns - reconcile.now_ns
    return "", 0


def _maximum_execution_time(reconcile: _Reconcile) -> bool:
    workload = reconcile.workload
    limit = workload["spec"].get("maximumExecutionTimeSeconds")
    admitted = conditions.find(workload, "Admitted")
    if limit is None or admitted is None or admitted["status"] != "True":
        return False
    past = workload["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    remaining_ns = (limit - past) * SECOND_NS - (reconcile.now_ns - conditions.since_ns(admitted))
    if remaining_ns > 0:
        reconcile.requeue_after_ns = (
            min(remaining_ns, reconcile.requeue_after_ns) if reconcile.requeue_after_ns else remaining_ns
        )
        return False
    if not conditions.is_true(workload, "DeactivationTarget"):
        transitions.target_deactivation(
            workload,
            reason="MaximumExecutionTimeExceeded",
            message="exceeding the maximum execution time",
            now_ns=reconcile.now_ns,
        )
        workload["status"].pop("accumulatedPastExecutionTimeSeconds", None)
        reconcile.record_event(
            "MaximumExecutionTimeExceeded", f"The maximum execution time ({limit}s) exceeded", event_type="Warning"
        )
    return False


_STEPS: tuple[Callable[[_Reconcile], bool], ...] = (
    _orphan,
    _preemption_gates,
    _parent_of_variants,
    _finished,
    _retry_delay,
    _devices,
    _deactivation_target,
    _backoff,
    _requeue_after_backoff,
    _deactivation,
    _queue_restarted,
    _admission_gate,
    _sync_checks,
    _sync_conditions,
    _failed_checks,
    _stopped_queues,
    _pods_ready_timeout,
    _maximum_execution_time,
)
"""The steps in order; a step that returns True ends the reconcile."""
