"""Why a Workload has no quota, as the workload controller sees it: queues, gates, scheduler."""

from pykueue.api import conditions
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.context import LifecyclePolicy, WorkloadContext
from pykueue.controllers.workloads.unadmitted import (
    BYPASSED_TEXT,
    EVALUATION_TEXT,
    MISCONFIGURED,
    PENDING_EVALUATION,
    RETURNING_REASONS,
    SCHEDULER_REASONS,
    SUSPENDED,
    UnadmittedStatus,
)

Cause = tuple[str, str]
"""The reason and the message of a condition."""


def queue_blocker(workload: Object, context: WorkloadContext) -> Cause | None:
    """The granular reason and the message if a queue keeps the Workload from being tried."""
    queue_name = workload["spec"].get("queueName", "")
    if context.local_queue is None:
        return MISCONFIGURED, f"LocalQueue {queue_name} doesn't exist"
    if predicates.stop_policy(context.local_queue):
        return SUSPENDED, f"LocalQueue {queue_name} is inactive"
    if context.cluster_queue is None:
        return MISCONFIGURED, f"ClusterQueue {context.cluster_queue_name} doesn't exist"
    if not context.is_cluster_queue_active:
        return SUSPENDED, f"ClusterQueue {context.cluster_queue_name} is inactive"
    return None


def unadmitted_cause(workload: Object, context: WorkloadContext, policy: LifecyclePolicy) -> Cause | None:
    """Reason and message of QuotaReserved=False; None leaves the condition as it is."""
    status = policy.unadmitted
    blocker = queue_blocker(workload, context)
    if not status.is_granular:
        return None if blocker is None else ("Inadmissible", blocker[1])
    if not predicates.is_active(workload):
        return "Deactivated", "The workload is deactivated"
    if predicates.is_on_hold(workload):
        return None
    if blocker is not None:
        return blocker
    if context.inadmissibility:
        return MISCONFIGURED, context.inadmissibility
    if policy.admission_gates and predicates.admission_gate(workload):
        return "AdmissionGated", f"Admission is gated by: {predicates.admission_gate(workload)}"
    return _evaluation_cause(conditions.find(workload, "QuotaReserved"), context.bypassed_reason, status)


def _evaluation_cause(
    reserved: conditions.Condition | None, bypassed_reason: str, status: UnadmittedStatus
) -> Cause | None:
    """The cause of a Workload that only the scheduler keeps waiting."""
    if reserved is None and not status.is_explicit:
        return None
    reason = "" if reserved is None else str(reserved.get("reason", ""))
    if bypassed_reason and (not reason or reason in RETURNING_REASONS):
        return bypassed_reason, BYPASSED_TEXT
    return None if reason in SCHEDULER_REASONS else (PENDING_EVALUATION, EVALUATION_TEXT)
