"""Kueue's words for the engine's reasons, made at the edge.

`translate`, the CLI and the conformance replay call it. Amounts are printed by the caller's `Formatter`, for the engine
knows no quantities.
"""

from collections.abc import Callable

from pykueue.engine import decisions, reasons, values
from pykueue.engine.quota import amounts

Formatter = Callable[[values.ResourceName, int], str]

_PREEMPTION_TEXTS = {
    reasons.PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    reasons.PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    reasons.PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    reasons.PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def amount(resource: values.ResourceName, value: int, formatter: Formatter) -> str:
    return "<unlimited>" if value == amounts.UNLIMITED else formatter(resource, value)


def taint(value: values.Taint) -> str:
    """As Go prints the struct; the last field is its unset time."""
    return f"{{{value.key} {value.value} {value.effect} <nil>}}"


def flavor_reason(reason: reasons.FlavorReason, formatter: Formatter) -> str:
    match reason:
        case reasons.ResourceUndeclared(resource=resource):
            return f"resource {resource} unavailable in ClusterQueue"
        case reasons.FlavorMissing(flavor=flavor):
            return f"flavor {flavor} not found"
        case reasons.TaintUntolerated(flavor=flavor, taint=untolerated):
            return f"untolerated taint {taint(untolerated)} in flavor {flavor}"
        case reasons.AffinityMismatch(flavor=flavor):
            return f"flavor {flavor} doesn't match node affinity"
        case reasons.CapacityExceeded(flavor=flavor, resource=resource):
            return (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests"
                f" ({amount(resource, reason.assumed, formatter)}) + current podset request"
                f" ({formatter(resource, reason.requested)}) > maximum capacity"
                f" ({amount(resource, reason.capacity, formatter)})"
            )
        case reasons.QuotaShort(flavor=flavor, resource=resource):
            needed = amount(resource, reason.needed, formatter)
            return f"insufficient unused quota for {resource} in flavor {flavor}, {needed} more needed"
        case reasons.ResourceNotProvided(flavor=flavor, resource=resource):
            return f"flavor {flavor} does not provide resource {resource}"
        case reasons.FlavorNotNominated(flavor=flavor, resource=resource):
            return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
        case reasons.SliceFlavorDiffers(flavor=flavor, original=original):
            return f"could not assign {flavor} flavor since the original workload is assigned: {original}"
        case reasons.PlacementImpossible(text=text):
            return text


def flavor_reasons(found: tuple[reasons.FlavorReason, ...], formatter: Formatter) -> list[str]:
    return sorted(flavor_reason(reason, formatter) for reason in found)


def flavors_short(pod_sets: tuple[reasons.PodSetShortage, ...], formatter: Formatter) -> str:
    faulty = next((pod_set for pod_set in pod_sets if pod_set.fault), None)
    if faulty is not None:
        return f"failed to assign flavors to pod set {faulty.name}: {faulty.fault}"
    return "; ".join(
        f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(flavor_reasons(pod_set.reasons, formatter))}"
        for pod_set in pod_sets
    )


def pending(reason: reasons.PendingReason, formatter: Formatter) -> str:
    """The message of QuotaReserved=False."""
    match reason:
        case reasons.FlavorsShort(pod_sets=pod_sets, preempting=preempting):
            suffix = f". Pending the preemption of {preempting} workload(s)" if preempting else ""
            return flavors_short(pod_sets, formatter) + suffix
        case reasons.ClusterQueueInactive(name=name):
            return f"ClusterQueue {name} is inactive"
        case reasons.ClusterQueueMissing(name=name):
            return f"ClusterQueue {name} not found"
        case reasons.NamespaceMissing(name=name):
            return f'workload namespace "{name}" does not exist: namespaces "{name}" not found'
        case reasons.RequestsInvalid(text=text):
            return text
        case _:
            return _PENDING_TEXTS[type(reason)]


_PENDING_TEXTS = {
    reasons.ChecksFailed: "The workload has failed admission checks",
    reasons.NamespaceMismatch: "workload namespace doesn't match ClusterQueue selector",
    reasons.TargetsOverlap: "Workload has overlapping preemption targets with another workload",
    reasons.TargetsOverlapThenFit: (
        "Workload has overlapping preemption targets with another workload,"
        " but will fit after these preemptions complete"
    ),
    reasons.NoLongerFits: "Workload no longer fits after processing another workload",
    reasons.PreemptionGated: "Workload requires preemption, but it's gated",
    reasons.PodsNotReady: "waiting for all admitted workloads to be in PodsReady condition",
}


def preemption(preemptor: values.Workload, decision: decisions.Preempt, target: decisions.PreemptedWorkload) -> str:
    """The message of Evicted and Preempted on the target."""
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'},"
        f" JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {_PREEMPTION_TEXTS[target.reason]};"
        f" preemptor path: {path(decision.path)}; preemptee path: {path(target.path)}"
    )


def slice_replaced(replacement: values.Workload) -> str:
    """The message of Finished on a slice of an elastic job."""
    return (
        f"Replaced to accommodate a workload (UID: {replacement.uid}, JobUID: {replacement.job_uid})"
        " due to workload slice aggregation"
    )


def no_replacement(nodes: tuple[str, ...]) -> str:
    """The message of Evicted on a workload that lost nodes."""
    return f"Workload was evicted as there was no replacement for unhealthy node(s): {','.join(nodes)}"


def priorities(preemptor: values.Workload, target: values.Workload) -> str:
    """What the events Preempted and PreemptedWorkload add."""
    return f"; preemptor {_priority(preemptor)}; preemptee {_priority(target)}"


def _priority(workload: values.Workload) -> str:
    base = workload.priority - workload.priority_boost
    return f"effective priority: {workload.priority} (base: {base}, boost: {workload.priority_boost})"


def path(names: tuple[str, ...]) -> str:
    return "/" + "/".join(names)


def quota_reserved(cluster_queue: values.ClusterQueueName) -> str:
    return f"Quota reserved in ClusterQueue {cluster_queue}"


def considered_flavors(considered: tuple[decisions.ConsideredFlavors, ...], formatter: Formatter) -> str:
    """The part of the QuotaReserved event after "Flavors considered: "; empty when every first choice just fitted."""
    parts = []
    for pod_set in considered:
        attempts = [
            _attempt(attempt, formatter)
            for attempt in pod_set.attempts
            if attempt.mode is not reasons.Mode.FIT or attempt.borrowing
        ]
        if attempts:
            parts.append(f"{pod_set.pod_set}: {', '.join(attempts)}")
    return " | ".join(parts)


def _attempt(attempt: reasons.FlavorAttempt, formatter: Formatter) -> str:
    if attempt.possibility is None:
        facts = [reasons.MODE_WORDS[attempt.mode]]
    else:
        facts = [f"preemptionMode={reasons.POSSIBILITY_WORDS[attempt.possibility]}"]
    if attempt.borrowing:
        facts.append(f"borrow={attempt.borrowing}")
    facts += flavor_reasons(attempt.reasons, formatter)
    return f"{attempt.flavor}({';'.join(facts)})"
