"""Steps 5 and 6 of the cycle: charge admissions, requeue the rest, and make the decisions."""

from msgspec import structs

from pykueue.engine import decisions, values
from pykueue.engine.cycle.entries import CycleEntry, EntryStatus
from pykueue.engine.policy import QuotaCheckStrategy
from pykueue.engine.quota import reservations
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.state import EngineState
from pykueue.engine.values import CheckState


def admit(state: EngineState, entry: CycleEntry) -> decisions.Admit:
    """Assume an admission: charge it at once, before it is written to the API."""
    assert entry.assignment is not None
    workload = entry.pending.workload
    admission = entry.assignment.admission(entry.queue.name)
    admitted = _checks_are_ready(workload, entry.queue.value, admission)
    entry.queue.pending.forget_preemptor(workload.key)
    usage = entry.assignment.full_usage()
    reservation = Reservation(
        structs.replace(workload, admitted=admitted) if workload.parent_uid else workload,
        admission,
        usage,
        flavor_resources=usage,
        reserved_at_ns=state.now_ns,
        topology_usage=reservations.topology_usage_of(workload, admission),
    )
    state.charge(entry.queue, reservation)
    state.assumed[workload.key] = entry.pending
    if entry.queue.value.uses_admission_fair_sharing and state.policy.admission_fair_sharing is not None:
        state.local_queue_usage.push_penalty(workload.local_queue, workload.key, _penalized(state, entry))
    return decisions.Admit(
        workload=workload.key,
        cluster_queue=entry.queue.name,
        admission=admission,
        borrowing=entry.assignment.borrowing,
        admitted=admitted,
        considered=tuple(
            decisions.ConsideredFlavors(pod_set=pod_set.name, attempts=pod_set.attempts)
            for pod_set in entry.assignment.pod_sets
        ),
        reserved_at_ns=state.now_ns,
        replaces=None if entry.replaced is None else entry.replaced.key,
    )


def assign_topology(state: EngineState, entry: CycleEntry) -> decisions.AssignTopology:
    """Assume the topology assignment of a workload with quota, before it is written to the API."""
    assert entry.assignment is not None
    workload = entry.pending.workload
    admission = entry.assignment.admission(entry.queue.name)
    before = state.release(workload.key)
    assert before is not None
    reservation = Reservation(
        workload,
        admission,
        entry.assignment.usage,
        flavor_resources=entry.assignment.usage,
        reserved_at_ns=before.reserved_at_ns,
        topology_usage=reservations.topology_usage_of(workload, admission),
    )
    state.charge(entry.queue, reservation)
    state.assumed[workload.key] = entry.pending
    return decisions.AssignTopology(
        workload=workload.key,
        cluster_queue=entry.queue.name,
        admission=admission,
        admitted=_checks_are_ready(workload, entry.queue.value, admission),
        replaces_nodes=bool(workload.unhealthy_nodes),
    )


def retry_second_pass(state: EngineState, entry: CycleEntry) -> decisions.RetrySecondPass:
    assert entry.pending_reason is not None
    return decisions.RetrySecondPass(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        pending=entry.pending_reason,
        due_ns=state.second_passes.schedule(entry.pending.key, entry.attempt + 1, state.now_ns),
    )


def evict(state: EngineState, entry: CycleEntry) -> decisions.Evict:
    """Mark the workload evicted.

    If the write to the API is refused, the next attempt evicts it again.
    """
    assert entry.pending_reason is not None
    state.mark_evicted(entry.pending.key, evicted=True)
    state.second_passes.schedule(entry.pending.key, entry.attempt + 1, state.now_ns)
    return decisions.Evict(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        lost_nodes=entry.pending.workload.unhealthy_nodes,
        pending=entry.pending_reason,
    )


def _checks_are_ready(workload: values.Workload, queue: values.ClusterQueue, admission: values.Admission) -> bool:
    """Whether every check of the assigned flavors exists, and all checks are ready."""
    if not queue.admission_checks and not workload.check_states:
        return True
    used = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
    required = [
        check for check, flavors in queue.admission_checks.items() if not flavors or not flavors.isdisjoint(used)
    ]
    states = workload.check_states
    return all(check in states for check in required) and all(
        check_state is CheckState.READY for check_state in states.values()
    )


def _penalized(state: EngineState, entry: CycleEntry) -> dict[values.ResourceName, int]:
    total: dict[values.ResourceName, int] = {}
    ignores = state.policy.quota_check_strategy is QuotaCheckStrategy.IGNORE_UNDECLARED
    for pod_set in entry.pending.workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            if not ignores or resource in entry.queue.group_of:
                total[resource] = total.get(resource, 0) + amount
    return total


def preempt(state: EngineState, entry: CycleEntry) -> decisions.Preempt:
    targets = []
    for reservation, reason in entry.targets:
        targets.append(
            decisions.PreemptedWorkload(
                workload=reservation.key,
                cluster_queue=reservation.cluster_queue,
                reason=reason,
                path=state.cluster_queues[reservation.cluster_queue].node.path,
                already_evicted=reservation.evicted,
            )
        )
        if not reservation.evicted:
            state.mark_evicted(reservation.key, evicted=True)
            state.reactivations.preempted(
                entry.queue.node.root.key,
                preemptor_created_ns=entry.pending.workload.created_at_ns,
                priority=reservation.workload.priority,
            )
        if state.loop_guard is not None:
            state.loop_guard.record(entry.pending.key, reservation.key)
    return decisions.Preempt(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        targets=tuple(targets),
        path=entry.queue.node.path,
    )


def migrate(state: EngineState, entry: CycleEntry, victim: Reservation) -> list[decisions.Decision]:
    """Evict a variant for another one of the same parent, unless that is under way."""
    if victim.evicted:
        return []
    state.mark_evicted(victim.key, evicted=True)
    return [decisions.Migrate(workload=entry.pending.key, cluster_queue=entry.queue.name, victim=victim.key)]


def requeue(state: EngineState, entry: CycleEntry) -> decisions.Requeue | decisions.MarkInadmissible:
    pending, reason = entry.pending, entry.requeue_reason
    if reason is RequeueReason.GENERIC and entry.status is not EntryStatus.PENDING:
        reason = RequeueReason.FAILED_AFTER_NOMINATION
    entry.back_in_heap = entry.queue.pending.requeue(pending, reason, state.now_ns, entry.no_fit_reason)
    assert entry.pending_reason is not None
    kind = decisions.Requeue if entry.back_in_heap else decisions.MarkInadmissible
    last = pending.last_decision
    if (
        type(last) is kind
        and last.pending is entry.pending_reason
        and last.reason is reason
        and last.no_fit_reason is entry.no_fit_reason
    ):
        return last
    decision = pending.last_decision = kind(
        workload=pending.key,
        cluster_queue=entry.queue.name,
        reason=reason,
        pending=entry.pending_reason,
        no_fit_reason=entry.no_fit_reason,
    )
    return decision
