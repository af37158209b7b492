"""What the workload controller does next: Workload
and neighbours in, changed Workload and events out.

One step at a time, as a level-based controller should: a step that changes the Workload ends the
reconcile, and the change itself brings the next one. `controllers.workloads.controller` reads,
calls `decide` and applies the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pykueue.api import conditions, objects
from pykueue.api.json_copy import copied
from pykueue.api.labels import JOB_UID, RESOURCE_IN_USE
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.workloads import checks, predicates, transitions
from pykueue.translate.devices import DeviceFault


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReadyPolicy:
    """waitForPodsReady: how long pods may take, and how
    a Workload that took too long is queued again.
    """

    timeout_ns: int
    recovery_timeout_ns: int | None = None
    block_admission: bool = False
    backoff_limit_count: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecyclePolicy:
    pods_ready: PodsReadyPolicy | None = None
    retain_finished_ns: int | None = None
    retain_deactivated_ns: int | None = None
    finish_orphans: bool = True
    admission_gates: bool = True


class WorkloadContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a Workload's fate depends on besides itself."""

    local_queue: Object | None = None
    cluster_queue_name: str = ""
    """The ClusterQueue that the LocalQueue names; "" if there is no LocalQueue."""
    cluster_queue: Object | None = None
    is_cluster_queue_active: bool = False
    device_fault: DeviceFault | None = None
    """Why the devices that it claims cannot be counted."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    reason: str
    message: str


class WorkloadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`workload` as it should be; `delete` asks for its deletion;
    `requeue_after_ns` is when to look again, from now.
    """

    workload: Object
    events: tuple[Event, ...] = ()
    delete: bool = False
    requeue_after_ns: int = 0


@dataclass(slots=True, kw_only=True)
class _Case:
    workload: Object
    near: WorkloadContext
    policy: LifecyclePolicy
    now_ns: int
    events: list[Event] = field(default_factory=list)
    delete: bool = False
    requeue_after_ns: int = 0

    def tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        text = conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES)
        self.events.append(Event(type="Warning" if warning else "Normal", reason=reason, message=text))

    def evict(self, reason: str, message: str, cause: str = "") -> None:
        had_admission = "admission" in self.workload.get("status", {})
        transitions.evict(self.workload, reason=reason, message=message, cause=cause, now_ns=self.now_ns)
        if had_admission:
            self.tell(transitions.eviction_event_reason(reason, cause), message)


def decide(workload: Object, near: WorkloadContext, policy: LifecyclePolicy, now_ns: int) -> WorkloadPlan:
    case = _Case(workload=copied(workload), near=near, policy=policy, now_ns=now_ns)
    for step in _STEPS:
        if step(case):
            break
    return WorkloadPlan(
        workload=case.workload,
        events=tuple(case.events),
        delete=case.delete,
        requeue_after_ns=max(case.requeue_after_ns, 0),
    )


def remove_finalizer(workload: Object) -> bool:
    finalizers = objects.finalizers(workload)
    if RESOURCE_IN_USE not in finalizers:
        return False
    kept = [name for name in finalizers if name != RESOURCE_IN_USE]
    if kept:
        workload["metadata"]["finalizers"] = kept
    else:
        del workload["metadata"]["finalizers"]
    return True


def _orphan(case: _Case) -> bool:
    workload = case.workload
    if workload["metadata"].get("ownerReferences"):
        return False
    deleted = objects.is_deleted(workload)
    had_job = JOB_UID in objects.labels(workload)
    if not deleted and not (case.policy.finish_orphans and had_job):
        return False
    if case.policy.finish_orphans and not deleted:
        transitions.finish(
            workload, reason="OwnerNotFound", message="The workload's owner no longer exists", now_ns=case.now_ns
        )
    remove_finalizer(workload)
    return deleted or not case.policy.finish_orphans


def _finished(case: _Case) -> bool:
    finished = conditions.find(case.workload, "Finished")
    if finished is None or finished["status"] != "True":
        return False
    if case.policy.retain_finished_ns is None:
        return True
    expires_ns = conditions.since_ns(finished) + case.policy.retain_finished_ns
    if case.now_ns < expires_ns:
        case.requeue_after_ns = expires_ns - case.now_ns
        return True
    remove_finalizer(case.workload)
    if not objects.is_deleted(case.workload):
        case.delete = True
        case.tell("Deleted", "Deleted finished workload due to elapsed retention")
    return True


def _retry_delay(case: _Case) -> bool:
    retry_at_ns = checks.retry_at_ns(case.workload)
    if retry_at_ns <= case.now_ns:
        return False
    state = (case.workload.get("status") or {}).get("requeueState") or {}
    if "requeueAt" in state and to_ns(state["requeueAt"]) >= retry_at_ns:
        return False
    return transitions.requeue_not_before(case.workload, retry_at_ns, count=False)


def _devices(case: _Case) -> bool:
    """Devices that cannot be counted make a pending workload inadmissible until they can."""
    workload, fault = case.workload, case.near.device_fault
    if predicates.status_word(workload) != "pending" or predicates.is_on_hold(workload):
        return False
    if fault is None:
        if conditions.is_false_because(workload, "Requeued", "Inadmissible"):
            conditions.remove(workload, "Requeued")
            conditions.remove(workload, "QuotaReserved")
        return False
    if transitions.release_quota(workload, reason="Inadmissible", message=fault.text, now_ns=case.now_ns):
        transitions.set_requeued(
            workload, allowed=False, reason="Inadmissible", message=fault.requeued_text, now_ns=case.now_ns
        )
    return True


def _deactivation(case: _Case) -> bool:
    """spec.active is false: evict, once, and forget the backoff."""
    workload = case.workload
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
        case.evict("Deactivated", message, cause)
    return True


def _deactivation_target(case: _Case) -> bool:
    if not predicates.is_active(case.workload) or not conditions.is_true(case.workload, "DeactivationTarget"):
        return False
    case.workload["spec"]["active"] = False
    return True


def _backoff(case: _Case) -> bool:
    workload = case.workload
    if not predicates.is_active(workload):
        return False
    state = objects.status(workload).get("requeueState") or {}
    if "requeueAt" not in state:
        return False
    remaining_ns = to_ns(state["requeueAt"]) - case.now_ns
    if remaining_ns > 0:
        case.requeue_after_ns = remaining_ns
        return True
    if predicates.status_word(workload) == "pending":
        del state["requeueAt"]
        return True
    return False


def _requeue_allowed_again(case: _Case) -> bool:
    workload = case.workload
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
    return transitions.set_requeued(workload, allowed=True, reason=reason, message=message, now_ns=case.now_ns)


def _queue_restarted(case: _Case) -> bool:
    near = case.near
    if near.local_queue is not None and not _stop_policy(near.local_queue) and _waits_for(case, "LocalQueueStopped"):
        reason, queue = "LocalQueueRestarted", "LocalQueue"
    elif (
        near.cluster_queue is not None
        and not _stop_policy(near.cluster_queue)
        and _waits_for(case, "ClusterQueueStopped")
        and not _gate_is_news(case.workload)
    ):
        reason, queue = "ClusterQueueRestarted", "ClusterQueue"
    else:
        return False
    message = f"The {queue} was restarted after being stopped"
    return transitions.set_requeued(case.workload, allowed=True, reason=reason, message=message, now_ns=case.now_ns)


def _waits_for(case: _Case, reason: str) -> bool:
    return conditions.is_false_because(case.workload, "Requeued", reason)


def _stop_policy(queue: Object) -> str:
    policy = str(queue["spec"].get("stopPolicy") or "None")
    return "" if policy == "None" else policy


def _gate_is_news(workload: Object) -> bool:
    reserved = conditions.find(workload, "QuotaReserved")
    says_gated = reserved is not None and reserved.get("reason") == "AdmissionGated"
    return bool(predicates.admission_gate(workload)) != says_gated


def _admission_gate(case: _Case) -> bool:
    workload = case.workload
    if not case.policy.admission_gates or not _gate_is_news(workload):
        return False
    gate = predicates.admission_gate(workload)
    if gate:
        message = f"Admission is gated by: {gate}"
        transitions.release_quota(workload, reason="AdmissionGated", message=message, now_ns=case.now_ns)
        case.tell("AdmissionGated", f"Workload admission is gated by: {gate}")
    else:
        message = "AdmissionGatedBy cleared, waiting for quota reservation"
        transitions.release_quota(workload, reason="Pending", message=message, now_ns=case.now_ns)
        case.tell("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return True


def _checks_list(case: _Case) -> bool:
    if case.near.cluster_queue is None:
        return False
    return checks.sync(case.workload, checks.required(case.workload, case.near.cluster_queue), case.now_ns)


def _reservation_and_admission(case: _Case) -> bool:
    """Keeps QuotaReserved=False and Admitted truthful; never ends the reconcile by itself."""
    workload = case.workload
    if predicates.is_admitted(workload):
        return False
    if not predicates.has_quota_reservation(workload):
        blocker = queue_blocker(workload, case.near)
        if blocker:
            conditions.put(
                workload, "QuotaReserved", status=False, reason="Inadmissible", message=blocker, now_ns=case.now_ns
            )
    if transitions.sync_admitted(workload, case.now_ns) and predicates.is_admitted(workload):
        reserved = conditions.find(workload, "QuotaReserved")
        assert reserved is not None
        waited = round((case.now_ns - conditions.since_ns(reserved)) / SECOND_NS)
        queue = predicates.cluster_queue_reserved(workload)
        case.tell("Admitted", f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s")
    return not predicates.has_quota_reservation(workload)


def queue_blocker(workload: Object, near: WorkloadContext) -> str:
    queue_name = workload["spec"].get("queueName", "")
    if near.local_queue is None:
        return f"LocalQueue {queue_name} doesn't exist"
    if _stop_policy(near.local_queue):
        return f"LocalQueue {queue_name} is inactive"
    if near.cluster_queue is None:
        return f"ClusterQueue {near.cluster_queue_name} doesn't exist"
    if not near.is_cluster_queue_active:
        return f"ClusterQueue {near.cluster_queue_name} is inactive"
    return ""


def _failed_checks(case: _Case) -> bool:
    workload = case.workload
    if predicates.is_evicted(workload):
        return False
    rejected, retry = predicates.checks_in(workload, "Rejected"), predicates.checks_in(workload, "Retry")
    if rejected:
        message = checks.summary(rejected, "Rejected")
        transitions.target_deactivation(workload, reason="AdmissionCheck", message=message, now_ns=case.now_ns)
        case.tell("AdmissionCheckRejected", f"Deactivated due to {message}", warning=True)
    elif retry:
        case.evict("AdmissionCheck", f"Evicted due to {checks.summary(retry, 'Retry')}")
    return bool(rejected or retry)


def _queues_still_open(case: _Case) -> bool:
    """A stopped or missing queue takes back what is not admitted; draining evicts what is."""
    workload, near = case.workload, case.near
    queues = (
        ("LocalQueue", workload["spec"].get("queueName", ""), near.local_queue),
        ("ClusterQueue", near.cluster_queue_name, near.cluster_queue),
    )
    for kind, name, queue in queues:
        stop = _stop_policy(queue) if queue is not None else ""
        if predicates.is_admitted(workload):
            if stop == "HoldAndDrain" and not predicates.is_evicted(workload):
                case.evict(f"{kind}Stopped", f"The {kind} is stopped")
                return True
            continue
        if queue is None or objects.is_deleted(queue):
            message = f"{kind} {name} is terminating or missing"
        elif stop:
            message = f"{kind} {name} is stopped"
        else:
            continue
        transitions.release_quota(workload, reason="Inadmissible", message=message, now_ns=case.now_ns)
        return True
    return False


def _pods_ready_in_time(case: _Case) -> bool:
    workload, pods_ready = case.workload, case.policy.pods_ready
    if pods_ready is None or not predicates.is_active(workload) or predicates.is_evicted(workload):
        return False
    cause, remaining_ns = _time_left_to_get_ready(case)
    if not cause:
        return False
    if remaining_ns > 0:
        case.requeue_after_ns = remaining_ns
        return False
    count = (objects.status(workload).get("requeueState") or {}).get("count", 0) + 1
    if pods_ready.backoff_limit_count is not None and count > pods_ready.backoff_limit_count:
        transitions.target_deactivation(
            workload,
            reason="RequeuingLimitExceeded",
            message="exceeding the maximum number of re-queuing retries",
            now_ns=case.now_ns,
        )
        return False
    wait = transitions.backoff_seconds(
        count, base_seconds=pods_ready.backoff_base_seconds, max_seconds=pods_ready.backoff_max_seconds
    )
    transitions.requeue_not_before(workload, case.now_ns + wait * SECOND_NS, count=True)
    case.evict("PodsReadyTimeout", f"Exceeded the PodsReady timeout {predicates.key(workload)}", cause)
    return False


def _time_left_to_get_ready(case: _Case) -> tuple[str, int]:
    admitted = conditions.find(case.workload, "Admitted")
    ready = conditions.find(case.workload, "PodsReady")
    policy = case.policy.pods_ready
    if policy is None or admitted is None or admitted["status"] != "True" or (ready and ready["status"] == "True"):
        return "", 0
    if ready is None or ready["reason"] in ("WaitForStart", "PodsReady"):
        return "WaitForStart", conditions.since_ns(admitted) + policy.timeout_ns - case.now_ns
    if ready["reason"] == "WaitForRecovery" and policy.recovery_timeout_ns is not None:
        return "WaitForRecovery", conditions.since_ns(ready) + policy.recovery_timeout_ns - case.now_ns
    return "", 0


def _maximum_execution_time(case: _Case) -> bool:
    workload = case.workload
    limit = workload["spec"].get("maximumExecutionTimeSeconds")
    admitted = conditions.find(workload, "Admitted")
    if limit is None or admitted is None or admitted["status"] != "True":
        return False
    past = workload["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    remaining_ns = (limit - past) * SECOND_NS - (case.now_ns - conditions.since_ns(admitted))
    if remaining_ns > 0:
        case.requeue_after_ns = min(remaining_ns, case.requeue_after_ns) if case.requeue_after_ns else remaining_ns
        return False
    if not conditions.is_true(workload, "DeactivationTarget"):
        transitions.target_deactivation(
            workload,
            reason="MaximumExecutionTimeExceeded",
            message="exceeding the maximum execution time",
            now_ns=case.now_ns,
        )
        workload["status"].pop("accumulatedPastExecutionTimeSeconds", None)
        case.tell("MaximumExecutionTimeExceeded", f"The maximum execution time ({limit}s) exceeded", warning=True)
    return False


_STEPS: tuple[Callable[[_Case], bool], ...] = (
    _orphan,
    _finished,
    _retry_delay,
    _devices,
    _deactivation_target,
    _backoff,
    _requeue_allowed_again,
    _deactivation,
    _queue_restarted,
    _admission_gate,
    _checks_list,
    _reservation_and_admission,
    _failed_checks,
    _queues_still_open,
    _pods_ready_in_time,
    _maximum_execution_time,
)
"""In this order; a step that answers True ends the reconcile."""
