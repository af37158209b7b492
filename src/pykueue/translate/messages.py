"""Kueue's messages for the reasons and decisions of the engine.

The texts equal those of Kueue, character by character. Amounts are printed by a `Formatter` of the
caller.
"""

from collections import Counter
from collections.abc import Callable
from typing import assert_never

from pykueue.engine import decisions, reasons, values
from pykueue.engine.explain.explanation import Refusal
from pykueue.engine.quota import amounts

Formatter = Callable[[values.ResourceName, int], str]

MODES = {
    reasons.Mode.NO_FIT: "NoFit",
    reasons.Mode.PREEMPT: "Preempt",
    reasons.Mode.DEFERRED_FIT: "DeferredFit",
    reasons.Mode.FIT: "Fit",
}
POSSIBILITIES = {
    reasons.Possibility.NO_CANDIDATES: "NoCandidates",
    reasons.Possibility.PREEMPT: "Preempt",
    reasons.Possibility.RECLAIM: "Reclaim",
}

_PREEMPTION_TEXTS = {
    reasons.PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    reasons.PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    reasons.PreemptionReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    reasons.PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def amount(resource: values.ResourceName, value: int, formatter: Formatter) -> str:
    return "<unlimited>" if value == amounts.UNLIMITED else formatter(resource, value)


def taint(value: values.Taint) -> str:
    """The taint as Go prints the struct; the last field is its unset `timeAdded`."""
    return f"{{{value.key} {value.value} {value.effect} <nil>}}"


_TOPOLOGY_MISMATCHES = {
    reasons.TopologyMismatch.ONLY_TOPOLOGY_AWARE: "supports only TopologyAwareScheduling",
    reasons.TopologyMismatch.NOT_TOPOLOGY_AWARE: "does not support TopologyAwareScheduling",
    reasons.TopologyMismatch.TOPOLOGY_MISSING: "information missing in TAS cache",
    reasons.TopologyMismatch.LEVEL_MISSING: "does not contain the requested level",
}


def flavor_reason(reason: reasons.FlavorReason, formatter: Formatter) -> str:  # noqa: C901 - one case a reason
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
        case reasons.FlavorNotAllowed(flavor=flavor):
            return f"skipping flavor {flavor} due to WorkloadAllowedResourceFlavorAnnotation annotation"
        case reasons.SliceFlavorDiffers(flavor=flavor, original=original):
            return f"could not assign {flavor} flavor since the original workload is assigned: {original}"
        case reasons.FlavorTopologyMismatch(flavor=flavor, mismatch=mismatch):
            return f'Flavor "{flavor}" {_TOPOLOGY_MISMATCHES[mismatch]}'
        case reasons.PlacementImpossible(cause=cause):
            return placement(cause)


def flavor_reasons(causes: tuple[reasons.FlavorReason, ...], formatter: Formatter) -> list[str]:
    return sorted(flavor_reason(reason, formatter) for reason in causes)


def placement(reason: reasons.PlacementReason) -> str:  # noqa: C901 - one case a reason
    """Why pods cannot be placed on the nodes of a flavor."""
    match reason:
        case reasons.DomainsShort() | reasons.SliceLayersShort():
            return _capacity(reason)
        case reasons.LevelUnspecified():
            return "topology level not specified"
        case reasons.LevelMissing(level=level):
            return f"no requested topology level: {level}"
        case reasons.SliceSizeUnspecified():
            return "slice topology requested, but slice size not provided"
        case reasons.SliceLevelMissing(level=level):
            return f"no requested topology level for slices: {level}"
        case reasons.SliceLevelTooHigh(slice_level=slice_level, level=level):
            return f"podset slice topology {slice_level} is above the podset topology {level}"
        case reasons.SliceLayerMissing(level=level):
            return f"no requested topology level for additional slice layer: {level}"
        case reasons.SliceLayerTooHigh(level=level, parent_level=parent):
            return f"additional slice layer topology {level} must be at a lower level than {parent}"
        case reasons.SliceLayerUneven(size=size, parent_size=parent_size):
            return f"additional slice layer size {size} must evenly divide parent layer size {parent_size}"
        case reasons.DomainsMissing(level=level):
            return f"no topology domains at level: {level}"
        case reasons.DomainStale(domain=domain):
            return (
                "Cannot replace the node, because the existing topologyAssignment is invalid,"
                f" as it contains the stale domain {domain}"
            )
        case reasons.ReplacementNodeMissing(node=node):
            return f"cannot find replacement assignment for unhealthy node: {node}"
        case _:
            assert_never(reason)


def _capacity(reason: reasons.DomainsShort | reasons.SliceLayersShort) -> str:
    if isinstance(reason, reasons.SliceLayersShort):
        layers = "".join(
            f"; {layer.fitting}/{layer.requested} slice(s) fit on level {layer.level}" for layer in reason.layers
        )
        return f'topology "{reason.topology}" doesn\'t allow to fit{layers}{exclusions(reason.exclusions)}'
    fit = f"allows to fit only {reason.fitting} out of" if reason.fitting else "doesn't allow to fit any of"
    unit = "slice" if reason.of_slices else "pod"
    return f'topology "{reason.topology}" {fit} {reason.requested} {unit}(s){exclusions(reason.exclusions)}'


def exclusions(excluded: reasons.NodeExclusions) -> str:
    """How many nodes were excluded for each reason; empty if none was."""
    counts: Counter[str] = Counter(
        topologyDomain=excluded.topology_domain, nodeSelector=excluded.node_selector, affinity=excluded.affinity
    )
    for untolerated, count in excluded.taints:
        key = f"{untolerated.key}={untolerated.value}" if untolerated.value else untolerated.key
        counts[f'taint "{key}:{untolerated.effect}"'] += count
    for resource, count in excluded.resources:
        counts[f'resource "{resource}"'] += count
    texts = sorted(f"{reason}: {count}" for reason, count in counts.items() if count)
    return f". Total nodes: {excluded.total}; excluded: {', '.join(texts)}" if texts else ""


def flavors_conflict(conflict: reasons.FlavorsConflict) -> str:
    match conflict:
        case reasons.TopologyUnavailable():
            return "workload requires Topology, but there is no TAS cache information"
        case reasons.ElasticLevelRefused(is_required=is_required):
            word = "required" if is_required else "preferred"
            return f"{word} topology is not supported with ElasticJobsViaWorkloadSlices"
        case reasons.TopologyFlavorMissing():
            return "no TAS flavor assigned"
        case reasons.TopologyFlavorsMixed(flavors=flavors):
            return f"more than one TAS flavor assigned: {', '.join(flavors)}"


_INVALID_REQUESTS = {
    values.RequestsRule.WITHIN_LIMITS: "resources validation failed",
    values.RequestsRule.LIMIT_RANGE: "resources didn't satisfy LimitRange constraints",
}


def invalid_requests(invalid: values.InvalidRequests) -> str:
    return f"{_INVALID_REQUESTS[invalid.rule]}: {invalid.field_errors}"


def flavors_short(pod_sets: tuple[reasons.PodSetShortage, ...], formatter: Formatter) -> str:
    for pod_set in pod_sets:
        if pod_set.conflict is not None:
            return f"failed to assign flavors to pod set {pod_set.name}: {flavors_conflict(pod_set.conflict)}"
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
        case reasons.MigrationPending(pod_sets=pod_sets):
            return f"{flavors_short(pod_sets, formatter)}. Pending the migration of 1 workload(s)"
        case reasons.ClusterQueueInactive(name=name):
            return f"ClusterQueue {name} is inactive"
        case reasons.NamespaceMissing(name=name):
            return f'workload namespace "{name}" does not exist: namespaces "{name}" not found'
        case reasons.RequestsInvalid(invalid=invalid):
            return invalid_requests(invalid)
        case _:
            return _PENDING_TEXTS[type(reason)]


_PENDING_TEXTS = {
    reasons.ChecksFailed: "The workload has failed admission checks",
    reasons.NamespaceMismatch: "workload namespace doesn't match ClusterQueue selector",
    reasons.TargetsOverlap: "Workload has overlapping preemption targets with another workload",
    reasons.FitsAfterPreemptions: (
        "Workload has overlapping preemption targets with another workload,"
        " but will fit after these preemptions complete"
    ),
    reasons.NoLongerFits: "Workload no longer fits after processing another workload",
    reasons.PreemptionGated: "Workload requires preemption, but it's gated",
    reasons.BetterVariantAdmitted: "A more favorable variant is already admitted",
    reasons.MigrationForbidden: "Target flavor is below LastAcceptableFlavorName",
    reasons.PodsNotReady: "waiting for all admitted workloads to be in PodsReady condition",
}


def preemption(preemptor: values.Workload, decision: decisions.Preempt, target: decisions.PreemptedWorkload) -> str:
    """The message of Evicted and Preempted on the target."""
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'},"
        f" JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {_PREEMPTION_TEXTS[target.reason]};"
        f" preemptor path: {path(decision.path)}; preemptee path: {path(target.path)}"
    )


_REFUSALS = {
    Refusal.WITHIN_QUEUE_NEVER: "withinClusterQueue is Never",
    Refusal.RECLAIM_NEVER: "reclaimWithinCohort is Never",
    Refusal.WITHIN_NOMINAL: "its queue uses no more than its own quota",
    Refusal.POLICY: "its priority is not low enough",
    Refusal.NOT_ENOUGH: "it would not make enough room",
}


def refusal(reason: Refusal) -> str:
    """Why a workload is not preempted. The words are not Kueue's, which does not report this."""
    return _REFUSALS[reason]


def slice_replaced(replacement: values.Workload) -> str:
    """The message of Finished on a slice of an elastic job."""
    return (
        f"Replaced to accommodate a workload (UID: {replacement.uid}, JobUID: {replacement.job_uid})"
        " due to workload slice aggregation"
    )


def migration(variant: values.Workload) -> str:
    """The message of Evicted on a variant for which another variant starts."""
    return f"Evicted to accommodate a workload (UID: {variant.uid}) due to migration to more favorable resource flavor"


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
    """The end of the QuotaReserved event; empty if all first flavors fit without borrowing."""
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
        facts = [MODES[attempt.mode]]
    else:
        facts = [f"preemptionMode={POSSIBILITIES[attempt.possibility]}"]
    if attempt.borrowing:
        facts.append(f"borrow={attempt.borrowing}")
    facts += flavor_reasons(attempt.reasons, formatter)
    return f"{attempt.flavor}({';'.join(facts)})"
