"""The engine's decisions as the API shows them: `status.admission`, `status.resourceRequests`, conditions' words, events.

Pure: a decision and the engine values it is about go in, JSON and texts come out. Called by the scheduler, which writes them,
and by replays, which compare them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.engine import decisions, reasons, values
from pykueue.translate import amounts, messages

LONGEST_EVENT_BYTES = 1024
SLICE_REPLACED = "WorkloadSliceReplaced"
_LONGEST_WAIT_NS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event about one workload."""

    workload: values.WorkloadKey
    reason: str
    message: str
    is_warning: bool = False


def admission(admitted: values.Admission) -> Object:
    """`status.admission`."""
    return {
        "clusterQueue": admitted.cluster_queue,
        "podSetAssignments": [
            {
                "name": pod_set.name,
                **({"flavors": dict(pod_set.flavors)} if pod_set.flavors else {}),
                **({"resourceUsage": _quantities(pod_set.usage)} if pod_set.usage else {}),
                "count": pod_set.count,
                **_placed(pod_set),
            }
            for pod_set in admitted.pod_sets
        ],
    }


def _placed(pod_set: values.PodSetAdmission) -> Object:
    shown: Object = {}
    if pod_set.topology is not None:
        domains = [topology_encoding.Domain(domain.values, domain.pods) for domain in pod_set.topology.domains]
        shown["topologyAssignment"] = topology_encoding.encode(list(pod_set.topology.levels), domains)
    if pod_set.delayed_topology is not None:
        shown["delayedTopologyRequest"] = pod_set.delayed_topology.value
    return shown


def resource_requests(workload: values.Workload) -> list[Object]:
    """`status.resourceRequests`, shown while a workload is pending."""
    return [
        {"name": pod_set.name, **({"resources": _quantities(pod_set.requests)} if pod_set.requests else {})}
        for pod_set in workload.pod_sets
    ]


def admission_events(decision: decisions.Admit, *, waited_ns: int) -> list[Event]:
    """`waited_ns` is the time since the workload was queued: created, or put back into its queue."""
    waited = f"{min(waited_ns, _LONGEST_WAIT_NS) / 10**9:.0f}s"
    text = f"{messages.quota_reserved(decision.cluster_queue)}, wait time since queued was {waited}"
    if considered := messages.considered_flavors(decision.considered, shown):
        text += f"; Flavors considered: {considered}"
    events = [_event(decision.workload, "QuotaReserved", text)]
    if decision.admitted:
        events.append(_admitted(decision))
    return events


def slice_replaced_event(replaced: values.WorkloadKey, replacement: values.Workload) -> Event:
    """Its message is also that of the Finished condition of the slice that ended."""
    return _event(replaced, SLICE_REPLACED, messages.slice_replaced(replacement))


def placement_events(decision: decisions.AssignTopology) -> list[Event]:
    """A workload that only got other nodes was admitted long ago."""
    return [_admitted(decision)] if decision.admitted and not decision.replaces_nodes else []


def no_place_event(decision: decisions.RetrySecondPass | decisions.Evict) -> Event:
    """Of a second pass that came to nothing."""
    return _event(decision.workload, "SecondPassFailed", messages.pending(decision.pending, shown), is_warning=True)


def no_replacement_message(decision: decisions.Evict) -> str:
    return messages.no_replacement(decision.lost_nodes)


def no_replacement_event(decision: decisions.Evict) -> Event:
    return _event(decision.workload, "EvictedDueToNodeFailures", no_replacement_message(decision))


def _admitted(decision: decisions.Admit | decisions.AssignTopology) -> Event:
    text = f"Admitted by ClusterQueue {decision.cluster_queue}, wait time since reservation was 0s"
    return _event(decision.workload, "Admitted", text)


def pending_reason(decision: decisions.Requeue | decisions.MarkInadmissible, *, is_granular: bool) -> str:
    """The reason of QuotaReserved=False; granular ones are an option of the configuration."""
    if is_granular and decision.no_fit_reason is not reasons.NoFitReason.NONE:
        return decision.no_fit_reason.value
    return "Waiting" if isinstance(decision.pending, reasons.PodsNotReady) else "Pending"


def pending_message(decision: decisions.Requeue | decisions.MarkInadmissible) -> str:
    return messages.pending(decision.pending, shown)


def pending_event(decision: decisions.Requeue | decisions.MarkInadmissible, *, is_granular: bool) -> Event:
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
) -> list[Event]:
    """Two events about the victim, one about who took its place."""
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


def shown(resource: values.ResourceName, amount: int) -> str:
    """How the engine's messages print an amount."""
    return amounts.shown(resource, amount)


def usage_by_name(usage: Iterable[tuple[values.FlavorResource, int]]) -> dict[str, int]:
    """Usage keyed `flavor/resource`."""
    return {f"{name.flavor}/{name.resource}": amount for name, amount in usage}


def _quantities(usage: Mapping[values.ResourceName, int]) -> dict[str, str]:
    return {name: amounts.shown(name, amount) for name, amount in usage.items()}


def _event(workload: values.WorkloadKey, reason: str, message: str, *, is_warning: bool = False) -> Event:
    return Event(workload=workload, reason=reason, message=_truncated(message), is_warning=is_warning)


def _truncated(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= LONGEST_EVENT_BYTES:
        return message
    cut = " ..."
    return encoded[: LONGEST_EVENT_BYTES - len(cut)].decode(errors="ignore") + cut
