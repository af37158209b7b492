"""Converts the engine's decisions to statuses, condition messages and events of Workloads.

Pure functions of a decision and the engine values that it is about. Called by the scheduler, which
writes the results, and by replays, which compare them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pykueue.api import conditions
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.engine import decisions, reasons, values
from pykueue.translate import amounts, messages

SLICE_REPLACED = "WorkloadSliceReplaced"
FLAVOR_MIGRATION = "FlavorMigration"
_MAX_WAIT_NS = 2**63 - 1


class WorkloadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes event about one workload."""

    workload: values.WorkloadKey
    reason: str
    message: str
    is_warning: bool = False


def admission(admitted: values.Admission, *, by_hostname_prefix: bool = True) -> Object:
    """The value of `status.admission`; topologies may be encoded by prefixes of host names."""
    return {
        "clusterQueue": admitted.cluster_queue,
        "podSetAssignments": [
            {
                "name": pod_set.name,
                **({"flavors": dict(pod_set.flavors)} if pod_set.flavors else {}),
                **({"resourceUsage": _quantities(pod_set.usage)} if pod_set.usage else {}),
                "count": pod_set.count,
                **_topology_fields(pod_set, by_hostname_prefix=by_hostname_prefix),
            }
            for pod_set in admitted.pod_sets
        ],
    }


def _topology_fields(pod_set: values.PodSetAdmission, *, by_hostname_prefix: bool) -> Object:
    fields: Object = {}
    if pod_set.topology is not None:
        domains = [
            topology_encoding.TopologyDomainAssignment(domain.values, domain.pods)
            for domain in pod_set.topology.domains
        ]
        fields["topologyAssignment"] = topology_encoding.encode(
            list(pod_set.topology.levels), domains, by_hostname_prefix=by_hostname_prefix
        )
    if pod_set.delayed_topology is not None:
        fields["delayedTopologyRequest"] = pod_set.delayed_topology.value
    return fields


def resource_requests(workload: values.Workload) -> list[Object]:
    """The value of `status.resourceRequests`, which is set while a workload is pending."""
    return [
        {"name": pod_set.name, **({"resources": _quantities(pod_set.requests)} if pod_set.requests else {})}
        for pod_set in workload.pod_sets
    ]


def admission_events(decision: decisions.Admit, *, waited_ns: int) -> list[WorkloadEvent]:
    """`waited_ns` is the time since the workload was created or last requeued."""
    waited = f"{min(waited_ns, _MAX_WAIT_NS) / 10**9:.0f}s"
    text = f"{messages.quota_reserved(decision.cluster_queue)}, wait time since queued was {waited}"
    if considered := messages.considered_flavors(decision.considered, amount_text):
        text += f"; Flavors considered: {considered}"
    events = [_event(decision.workload, "QuotaReserved", text)]
    if decision.admitted:
        events.append(_admitted(decision))
    return events


def slice_replaced_event(replaced: values.WorkloadKey, replacement: values.Workload) -> WorkloadEvent:
    """The event about the replaced slice; the message is also that of its Finished condition."""
    return _event(replaced, SLICE_REPLACED, messages.slice_replaced(replacement))


def placement_events(decision: decisions.AssignTopology) -> list[WorkloadEvent]:
    """The Admitted event; a workload that only got replacement nodes was admitted before."""
    return [_admitted(decision)] if decision.admitted and not decision.replaces_nodes else []


def no_place_event(decision: decisions.RetrySecondPass | decisions.Evict) -> WorkloadEvent:
    """The event of a second pass that found no topology assignment."""
    return _event(
        decision.workload, "SecondPassFailed", messages.pending(decision.pending, amount_text), is_warning=True
    )


def no_replacement_message(decision: decisions.Evict) -> str:
    return messages.no_replacement(decision.lost_nodes)


def no_replacement_event(decision: decisions.Evict) -> WorkloadEvent:
    return _event(decision.workload, "EvictedDueToNodeFailures", no_replacement_message(decision))


def migration_event(decision: decisions.Migrate, variant: values.Workload) -> WorkloadEvent:
    """The event about the evicted variant; the message is also that of its Evicted condition."""
    return _event(decision.victim, f"EvictedDueTo{FLAVOR_MIGRATION}", messages.migration(variant))


def _admitted(decision: decisions.Admit | decisions.AssignTopology) -> WorkloadEvent:
    text = f"Admitted by ClusterQueue {decision.cluster_queue}, wait time since reservation was 0s"
    return _event(decision.workload, "Admitted", text)


def pending_reason(decision: decisions.Requeue | decisions.MarkInadmissible, *, is_granular: bool) -> str:
    """The reason of QuotaReserved=False; the Configuration may turn granular reasons on."""
    if is_granular and decision.no_fit_reason is not reasons.NoFitReason.NONE:
        return decision.no_fit_reason.value
    return "Waiting" if isinstance(decision.pending, reasons.PodsNotReady) else "Pending"


def pending_message(decision: decisions.Requeue | decisions.MarkInadmissible) -> str:
    return messages.pending(decision.pending, amount_text)


def pending_event(decision: decisions.Requeue | decisions.MarkInadmissible, *, is_granular: bool) -> WorkloadEvent:
    reason = pending_reason(decision, is_granular=is_granular)
    return _event(decision.workload, reason, pending_message(decision), is_warning=True)


def preemption_message(
    preemptor: values.Workload, decision: decisions.Preempt, target: decisions.PreemptedWorkload
) -> str:
    """The message of the target's Evicted and Preempted conditions."""
    return messages.preemption(preemptor, decision, target)


def preemption_events(
    decision: decisions.Preempt,
    target: decisions.PreemptedWorkload,
    *,
    preemptor: values.Workload,
    victim: values.Workload,
) -> list[WorkloadEvent]:
    """Two events about the preempted workload and one about the preemptor."""
    message = preemption_message(preemptor, decision, target)
    priorities = messages.priorities(preemptor, victim)
    return [
        _event(victim.key, "EvictedDueToPreempted", message),
        _event(victim.key, "Preempted", message + priorities),
        _event(
            preemptor.key,
            "PreemptedWorkload",
            f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {target.cluster_queue}{priorities}",
        ),
    ]


def amount_text(resource: values.ResourceName, amount: int) -> str:
    """Formats an amount for the messages of the engine."""
    return amounts.to_text(resource, amount)


def usage_by_name(usage: Iterable[tuple[values.FlavorResource, int]]) -> dict[str, int]:
    """The usage with keys of the form `flavor/resource`."""
    return {f"{name.flavor}/{name.resource}": amount for name, amount in usage}


def _quantities(usage: Mapping[values.ResourceName, int]) -> dict[str, str]:
    return {name: amounts.to_text(name, amount) for name, amount in usage.items()}


def _event(workload: values.WorkloadKey, reason: str, message: str, *, is_warning: bool = False) -> WorkloadEvent:
    return WorkloadEvent(
        workload=workload,
        reason=reason,
        message=conditions.truncate(message, conditions.EVENT_MESSAGE_BYTES),
        is_warning=is_warning,
    )
