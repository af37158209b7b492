"""How the value of one Workload changes: reserved, evicted, stopped, requeued.

The functions do to engine values what `controllers.workloads.transitions` does to objects.
"""

from collections.abc import Mapping

from msgspec import structs

from pykueue.engine import decisions, values
from pykueue.engine.values import CheckState, EvictionCondition, Workload

REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
"""Only these evictions let a stopped job queue again without a further step."""


def arrived(prototype: Workload, key: values.WorkloadKey, *, arrival: int, created_at_ns: int) -> Workload:
    return structs.replace(prototype, key=key, uid=f"{arrival:010}", arrival=arrival, created_at_ns=created_at_ns)


def reserved(workload: Workload, decision: decisions.Admit) -> Workload:
    return structs.replace(
        workload,
        admission=decision.admission,
        reserved_at_ns=decision.reserved_at_ns,
        admitted=decision.admitted,
        eviction=None,
        preemption=None,
    )


def placed(workload: Workload, decision: decisions.AssignTopology) -> Workload:
    return structs.replace(workload, admission=decision.admission, admitted=decision.admitted, unhealthy_nodes=())


def checked(workload: Workload, required: Mapping[values.CheckName, CheckState]) -> Workload:
    """The checks of a reservation have answered; without a delayed topology it is admitted."""
    assert workload.admission is not None
    is_ready = all(state is CheckState.READY for state in required.values())
    waits_for_topology = any(
        pod_set.delayed_topology is not None and pod_set.topology is None for pod_set in workload.admission.pod_sets
    )
    return structs.replace(workload, check_states=required, admitted=is_ready and not waits_for_topology)


def evicted(workload: Workload, reason: str, at_ns: int, *, preemption_reason: str = "") -> Workload:
    preemption = EvictionCondition(reason=preemption_reason, at_ns=at_ns) if preemption_reason else workload.preemption
    return structs.replace(
        workload,
        eviction=EvictionCondition(reason=reason, at_ns=at_ns),
        preemption=preemption,
        check_states=dict.fromkeys(workload.check_states, CheckState.PENDING),
        unhealthy_nodes=(),
    )


def stopped(workload: Workload, *, requeue_at_ns: int | None = None) -> Workload:
    """The pods have ended, so the quota is free."""
    assert workload.eviction is not None
    return structs.replace(
        workload,
        admission=None,
        reserved_at_ns=None,
        admitted=False,
        pods_ready=False,
        requeued=workload.eviction.reason in REQUEUED_AT_ONCE,
        requeue_at_ns=requeue_at_ns,
    )


def requeued(workload: Workload) -> Workload:
    return structs.replace(workload, requeued=True, requeue_at_ns=None)
