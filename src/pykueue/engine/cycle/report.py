"""Steps 5 and 6 of the cycle: book admissions, send the rest back to their queues, and say what was decided."""

from pykueue.engine import decisions, values
from pykueue.engine.cycle.entries import Entry, Fate
from pykueue.engine.policy import QuotaCheckStrategy
from pykueue.engine.quota import reservations
from pykueue.engine.quota.reservations import Reservation
from pykueue.engine.reasons import RequeueReason
from pykueue.engine.values import CheckState
from pykueue.engine.world import World


def admit(world: World, entry: Entry) -> decisions.Admit:
    """Charge the admission at once; the write to the API comes later."""
    assert entry.assignment is not None
    workload = entry.pending.workload
    admission = entry.assignment.admission(entry.queue.name)
    admitted = _checks_are_ready(workload, entry.queue.value, admission)
    entry.queue.pending.forget_preemptor(workload.key)
    usage = entry.assignment.full_usage()
    holding = Reservation(
        workload,
        admission,
        usage,
        flavor_resources=usage,
        reserved_at_ns=world.now_ns,
        taken=reservations.places_of(workload, admission),
    )
    world.charge(entry.queue, holding)
    world.assumed[workload.key] = entry.pending
    if entry.queue.value.uses_admission_fair_sharing and world.policy.admission_fair_sharing is not None:
        world.local_queue_usage.push_penalty(workload.local_queue, workload.key, _penalized(world, entry))
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
        reserved_at_ns=world.now_ns,
        replaces=None if entry.replaced is None else entry.replaced.key,
    )


def place(world: World, entry: Entry) -> decisions.AssignTopology:
    """Book the places of a workload that holds its quota; the write to the API comes later."""
    assert entry.assignment is not None
    workload = entry.pending.workload
    admission = entry.assignment.admission(entry.queue.name)
    before = world.release(workload.key)
    assert before is not None
    holding = Reservation(
        workload,
        admission,
        entry.assignment.usage,
        flavor_resources=entry.assignment.usage,
        reserved_at_ns=before.reserved_at_ns,
        taken=reservations.places_of(workload, admission),
    )
    world.charge(entry.queue, holding)
    world.assumed[workload.key] = entry.pending
    return decisions.AssignTopology(
        workload=workload.key,
        cluster_queue=entry.queue.name,
        admission=admission,
        admitted=_checks_are_ready(workload, entry.queue.value, admission),
        replaces_nodes=bool(workload.unhealthy_nodes),
    )


def place_later(world: World, entry: Entry) -> decisions.RetrySecondPass:
    assert entry.pending_reason is not None
    return decisions.RetrySecondPass(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        pending=entry.pending_reason,
        due_ns=world.second_passes.put_off(entry.pending.key, entry.attempt + 1, world.now_ns),
    )


def evict(world: World, entry: Entry) -> decisions.Evict:
    """If the API refuses, the next turn tries again."""
    assert entry.pending_reason is not None
    world.mark_evicted(entry.pending.key, evicted=True)
    world.second_passes.put_off(entry.pending.key, entry.attempt + 1, world.now_ns)
    return decisions.Evict(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        lost_nodes=entry.pending.workload.unhealthy_nodes,
        pending=entry.pending_reason,
    )


def _checks_are_ready(workload: values.Workload, queue: values.ClusterQueue, admission: values.Admission) -> bool:
    """Every check that applies to the flavors in use is there and ready, and so is every other that it carries."""
    used = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
    required = [
        check for check, flavors in queue.admission_checks.items() if not flavors or not flavors.isdisjoint(used)
    ]
    states = workload.check_states
    return all(check in states for check in required) and all(state is CheckState.READY for state in states.values())


def _penalized(world: World, entry: Entry) -> dict[values.ResourceName, int]:
    total: dict[values.ResourceName, int] = {}
    ignores = world.policy.quota_check_strategy is QuotaCheckStrategy.IGNORE_UNDECLARED
    for pod_set in entry.pending.workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            if not ignores or resource in entry.queue.group_of:
                total[resource] = total.get(resource, 0) + amount
    return total


def preempt(world: World, entry: Entry) -> decisions.Preempt:
    targets = []
    for holding, reason in entry.targets:
        targets.append(
            decisions.PreemptedWorkload(
                workload=holding.key,
                cluster_queue=holding.cluster_queue,
                reason=reason,
                path=world.cluster_queues[holding.cluster_queue].node.path,
                already_evicted=holding.evicted,
            )
        )
        if not holding.evicted:
            world.mark_evicted(holding.key, evicted=True)
        if world.loop_guard is not None:
            world.loop_guard.record(entry.pending.key, holding.key)
    return decisions.Preempt(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        targets=tuple(targets),
        path=entry.queue.node.path,
    )


def requeue(world: World, entry: Entry) -> decisions.Requeue | decisions.MarkInadmissible:
    if entry.fate is not Fate.PENDING and entry.requeue_reason is RequeueReason.GENERIC:
        entry.requeue_reason = RequeueReason.FAILED_AFTER_NOMINATION
    entry.back_in_heap = entry.queue.pending.requeue(entry.pending, entry.requeue_reason, world.now_ns)
    assert entry.pending_reason is not None
    kind = decisions.Requeue if entry.back_in_heap else decisions.MarkInadmissible
    return kind(
        workload=entry.pending.key,
        cluster_queue=entry.queue.name,
        reason=entry.requeue_reason,
        pending=entry.pending_reason,
        no_fit_reason=entry.no_fit_reason,
    )
