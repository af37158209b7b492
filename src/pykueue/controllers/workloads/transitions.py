"""State transitions of a Workload: functions that edit its JSON in place.

Most return whether anything changed. Callers pass a copy, and the difference to the original
becomes a patch. The messages are Kueue's.
"""

from pykueue.api import conditions
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns, to_ns
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.unadmitted import LEGACY, UnadmittedStatus

PRESERVED_CHECK_FIELDS = ("name", "requeueAfterSeconds", "podSetUpdates", "retryCount")


def sync_admitted(workload: Object, now_ns: int, unadmitted: UnadmittedStatus = LEGACY) -> bool:
    """Sets Admitted from the quota reservation, the checks and the topology."""
    reserved = predicates.has_quota_reservation(workload)
    ready = predicates.has_all_checks_ready(workload)
    has_topology = not predicates.waits_for_topology(workload)
    was_admitted, is_admitted = predicates.is_admitted(workload), reserved and ready and has_topology
    if unadmitted.is_granular:
        is_new = all(conditions.find(workload, name) is None for name in ("QuotaReserved", "Admitted"))
        if is_new and not unadmitted.is_explicit:
            return False
    elif was_admitted == is_admitted:
        return False
    if was_admitted and not is_admitted:
        _accumulate_execution_time(workload, now_ns)
    if is_admitted:
        reason, message = "Admitted", "The workload is admitted"
    elif not reserved and not ready and not unadmitted.is_granular:
        reason, message = "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
    elif not reserved:
        reason, message = "NoReservation", "The workload has no reservation"
    elif not ready:
        reason = unadmitted.reason("UnsatisfiedAdmissionChecks", "UnsatisfiedChecks")
        message = "The workload has not all checks ready"
    else:
        reason, message = "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    return conditions.put(workload, "Admitted", status=is_admitted, reason=reason, message=message, now_ns=now_ns)


def _accumulate_execution_time(workload: Object, now_ns: int) -> None:
    admitted = conditions.find(workload, "Admitted")
    assert admitted is not None
    elapsed = (now_ns - conditions.since_ns(admitted)) // SECOND_NS
    status = workload["status"]
    status["accumulatedPastExecutionTimeSeconds"] = status.get("accumulatedPastExecutionTimeSeconds", 0) + elapsed


def reserve_quota(workload: Object, admission: Object, now_ns: int) -> None:
    """Sets the admission and QuotaReserved, and resets Evicted and Preempted."""
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


def assign_topology(workload: Object, admission: Object, now_ns: int, unadmitted: UnadmittedStatus = LEGACY) -> None:
    """Sets an admission with a topology assignment, which also replaces unhealthy nodes."""
    reserve_quota(workload, admission, now_ns)
    workload["status"].pop("unhealthyNodes", None)
    sync_admitted(workload, now_ns, unadmitted)


def release_quota(
    workload: Object, *, reason: str, message: str, now_ns: int, unadmitted: UnadmittedStatus = LEGACY
) -> bool:
    """Removes the admission and sets QuotaReserved to False."""
    changed = conditions.put(workload, "QuotaReserved", status=False, reason=reason, message=message, now_ns=now_ns)
    if "admission" in workload["status"]:
        del workload["status"]["admission"]
        changed = True
    return sync_admitted(workload, now_ns, unadmitted) or changed


def block_on_preemption_gates(workload: Object, *, message: str, now_ns: int) -> bool:
    """Says that the workload would preempt others, but has a closed preemption gate."""
    return conditions.put(
        workload,
        "BlockedOnPreemptionGates",
        status=True,
        reason="PreemptionGated",
        message=message,
        now_ns=now_ns,
    )


def sync_preemption_gates(workload: Object, now_ns: int) -> bool:
    """Adds the gates of the spec to the status as closed, and removes others from it."""
    names = [gate["name"] for gate in workload["spec"].get("preemptionGates") or ()]
    status = workload.setdefault("status", {})
    present = [gate for gate in status.get("preemptionGates") or () if gate["name"] in names]
    missing = [name for name in names if all(gate["name"] != name for gate in present)]
    gates = present + [_closed_gate(name, now_ns) for name in missing]
    return _set_preemption_gates(status, gates)


def open_preemption_gate(workload: Object, name: str, now_ns: int) -> bool:
    """Opens a gate of the spec; False if the spec does not have it."""
    if all(gate["name"] != name for gate in workload["spec"].get("preemptionGates") or ()):
        return False
    status = workload.setdefault("status", {})
    others = [gate for gate in status.get("preemptionGates") or () if gate["name"] != name]
    return _set_preemption_gates(status, [*others, {**_closed_gate(name, now_ns), "position": "Open"}])


def _closed_gate(name: str, now_ns: int) -> Object:
    return {"name": name, "position": "Closed", "lastTransitionTime": from_ns(now_ns)}


def _set_preemption_gates(status: Object, gates: list[Object]) -> bool:
    if (status.get("preemptionGates") or []) == gates:
        return False
    if gates:
        status["preemptionGates"] = gates
    else:
        del status["preemptionGates"]
    return True


def set_requeued(workload: Object, *, allowed: bool, reason: str, message: str, now_ns: int) -> bool:
    return conditions.put(workload, "Requeued", status=allowed, reason=reason, message=message, now_ns=now_ns)


def target_deactivation(workload: Object, *, reason: str, message: str, now_ns: int) -> bool:
    return conditions.put(workload, "DeactivationTarget", status=True, reason=reason, message=message, now_ns=now_ns)


def finish(workload: Object, *, reason: str, message: str, now_ns: int) -> bool:
    if predicates.is_finished(workload):
        return False
    return conditions.put(workload, "Finished", status=True, reason=reason, message=message, now_ns=now_ns)


def evict(workload: Object, *, reason: str, message: str, cause: str = "", now_ns: int) -> None:
    """Sets Evicted; the job controller then stops the job and releases the quota."""
    status = workload.setdefault("status", {})
    condition_reason = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    conditions.put(workload, "Evicted", status=True, reason=condition_reason, message=message, now_ns=now_ns)
    status.pop("clusterName", None)
    status.pop("nominatedClusterNames", None)
    status.pop("unhealthyNodes", None)
    _reset_checks(workload, now_ns)
    if conditions.is_true(workload, "BlockedOnPreemptionGates"):
        conditions.put(
            workload, "BlockedOnPreemptionGates", status=False, reason=condition_reason, message=message, now_ns=now_ns
        )
    for gate in status.get("preemptionGates") or ():
        gate["position"] = "Closed"
        gate["lastTransitionTime"] = from_ns(now_ns)
    _count_eviction(workload, reason, cause)


def preempt(workload: Object, *, reason: str, message: str, now_ns: int) -> None:
    evict(workload, reason="Preempted", message=message, now_ns=now_ns)
    conditions.put(workload, "Preempted", status=True, reason=reason, message=message, now_ns=now_ns)


def _reset_checks(workload: Object, now_ns: int) -> None:
    """Resets the checks to Pending; fields that their controllers set for the pods stay."""
    for check in predicates.checks(workload):
        state = check["state"]
        if state == "Pending":
            continue
        preserved: Object = {name: check[name] for name in PRESERVED_CHECK_FIELDS if name in check}
        if state == "Retry":
            preserved["retryCount"] = check.get("retryCount", 0) + 1
        check.clear()
        check.update(
            preserved,
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
    """Moves `requeueAt` later, never earlier; `count` also increments the number of requeues."""
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
