"""How a Workload changes: each function edits the
JSON it is given and says whether anything changed.

Callers pass a copy; what the copy then differs in becomes a patch. The words are those that Kueue
users read.
"""

from pykueue.api import conditions
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import predicates

KEPT_OF_A_CHECK = ("name", "requeueAfterSeconds", "podSetUpdates")


def sync_admitted(workload: Object, now_ns: int) -> bool:
    """Makes Admitted follow from reservation, checks and
    placement; written only when its truth changes.
    """
    reserved = predicates.has_quota_reservation(workload)
    ready = predicates.has_all_checks_ready(workload)
    placed = not predicates.waits_for_topology(workload)
    was_admitted = predicates.is_admitted(workload)
    if was_admitted == (reserved and ready and placed):
        return False
    if not was_admitted:
        return conditions.put(
            workload, "Admitted", status=True, reason="Admitted", message="The workload is admitted", now_ns=now_ns
        )
    _accumulate_execution_time(workload, now_ns)
    if not reserved and not ready:
        reason, message = "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
    elif not reserved:
        reason, message = "NoReservation", "The workload has no reservation"
    elif not ready:
        reason, message = "UnsatisfiedChecks", "The workload has not all checks ready"
    else:
        reason, message = "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    return conditions.put(workload, "Admitted", status=False, reason=reason, message=message, now_ns=now_ns)


def _accumulate_execution_time(workload: Object, now_ns: int) -> None:
    admitted = conditions.find(workload, "Admitted")
    assert admitted is not None
    elapsed = (now_ns - conditions.since_ns(admitted)) // SECOND_NS
    status = workload["status"]
    status["accumulatedPastExecutionTimeSeconds"] = status.get("accumulatedPastExecutionTimeSeconds", 0) + elapsed


def reserve_quota(workload: Object, admission: Object, now_ns: int) -> None:
    """Quota is ours: former eviction and preemption become history."""
    status = workload.setdefault("status", {})
    status["admission"] = admission
    status.pop("resourceRequests", None)
    conditions.put(
        workload,
        "QuotaReserved",
        status=True,
        reason="QuotaReserved",
        message=f"Quota reserved in ClusterQueue {admission['clusterQueue']}",
        now_ns=now_ns,
    )
    for condition_type in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        former = conditions.find(workload, condition_type)
        if former is not None and former["status"] == "True":
            conditions.put(
                workload,
                condition_type,
                status=False,
                reason="QuotaReserved",
                message=f"Previously: {former.get('message', '')}",
                now_ns=now_ns,
            )


def place(workload: Object, admission: Object, now_ns: int) -> None:
    """A workload that holds quota gets its places; nodes that it had lost are replaced."""
    reserve_quota(workload, admission, now_ns)
    workload["status"].pop("unhealthyNodes", None)
    sync_admitted(workload, now_ns)


def release_quota(workload: Object, *, reason: str, message: str, now_ns: int) -> bool:
    """Takes the reservation back and says why."""
    changed = conditions.put(workload, "QuotaReserved", status=False, reason=reason, message=message, now_ns=now_ns)
    if "admission" in workload["status"]:
        del workload["status"]["admission"]
        changed = True
    return sync_admitted(workload, now_ns) or changed


def set_requeued(workload: Object, *, allowed: bool, reason: str, message: str, now_ns: int) -> bool:
    return conditions.put(workload, "Requeued", status=allowed, reason=reason, message=message, now_ns=now_ns)


def target_deactivation(workload: Object, *, reason: str, message: str, now_ns: int) -> bool:
    return conditions.put(workload, "DeactivationTarget", status=True, reason=reason, message=message, now_ns=now_ns)


def finish(workload: Object, *, reason: str, message: str, now_ns: int) -> bool:
    if predicates.is_finished(workload):
        return False
    return conditions.put(workload, "Finished", status=True, reason=reason, message=message, now_ns=now_ns)


def evict(workload: Object, *, reason: str, message: str, cause: str = "", now_ns: int) -> None:
    """Marks the Workload evicted; whoever runs its job stops it and then releases the quota."""
    status = workload.setdefault("status", {})
    written = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    conditions.put(workload, "Evicted", status=True, reason=written, message=message, now_ns=now_ns)
    status.pop("clusterName", None)
    status.pop("nominatedClusterNames", None)
    status.pop("unhealthyNodes", None)
    _reset_checks(workload, now_ns)
    if conditions.is_true(workload, "BlockedOnPreemptionGates"):
        conditions.put(
            workload, "BlockedOnPreemptionGates", status=False, reason=written, message=message, now_ns=now_ns
        )
    for gate in status.get("preemptionGates") or ():
        gate["position"] = "Closed"
        gate["lastTransitionTime"] = from_ns(now_ns)
    _count_eviction(workload, reason, cause)


def preempt(workload: Object, *, reason: str, message: str, now_ns: int) -> None:
    evict(workload, reason="Preempted", message=message, now_ns=now_ns)
    conditions.put(workload, "Preempted", status=True, reason=reason, message=message, now_ns=now_ns)


def _reset_checks(workload: Object, now_ns: int) -> None:
    """What a check's controller wrote for the pods stays:
    Kueue does not own it and so cannot take it away.
    """
    for check in predicates.checks(workload):
        state = check["state"]
        if state == "Pending":
            continue
        kept: Object = {name: check[name] for name in KEPT_OF_A_CHECK if name in check}
        if state == "Retry":
            kept["retryCount"] = check.get("retryCount", 0) + 1
        check.clear()
        check.update(
            kept,
            state="Pending",
            message=f"Reset to Pending after eviction. Previously: {state}",
            lastTransitionTime=from_ns(now_ns),
        )


def _count_eviction(workload: Object, reason: str, cause: str) -> None:
    evictions = workload["status"].setdefault("schedulingStats", {}).setdefault("evictions", [])
    for eviction in evictions:
        if eviction["reason"] == reason and eviction.get("underlyingCause", "") == cause:
            eviction["count"] += 1
            return
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})


def eviction_event_reason(reason: str, cause: str) -> str:
    return f"EvictedDueTo{reason}DueTo{cause}" if reason == "Deactivated" and cause else f"EvictedDueTo{reason}"


def requeue_not_before(workload: Object, at_ns: int, *, count: bool) -> bool:
    """Moves requeueAt later, never earlier; `count` also counts the requeue."""
    state = workload.setdefault("status", {}).setdefault("requeueState", {})
    changed = False
    if "requeueAt" not in state or to_ns(state["requeueAt"]) < at_ns:
        state["requeueAt"] = from_ns(at_ns)
        changed = True
    if count:
        state["count"] = state.get("count", 0) + 1
        changed = True
    return changed


def backoff_seconds(attempt: int, *, base_seconds: int, max_seconds: int) -> int:
    """Base × 2^(attempt − 1), at most max."""
    return min(base_seconds << min(attempt - 1, 62), max_seconds)
