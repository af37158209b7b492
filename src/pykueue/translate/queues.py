"""Converts ClusterQueues, Cohorts, LocalQueues,
ResourceFlavors and AdmissionChecks to engine values.

Objects may lack their defaults, as in recordings of unit tests: an absent field has the meaning
that Kueue gives it. Called by the scheduler and by replays.
"""

from collections.abc import Iterable, Mapping

from pykueue.api import conditions, objects, quantity
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.translate import amounts, selectors

_USAGE_BASED = "UsageBasedAdmissionFairSharing"


def cluster_queue(obj: Object) -> values.ClusterQueue:
    spec = objects.spec(obj)
    return values.ClusterQueue(
        name=values.ClusterQueueName(obj["metadata"]["name"]),
        cohort=_cohort_name(spec.get("cohortName")),
        queueing_strategy=values.QueueingStrategy(spec.get("queueingStrategy") or "BestEffortFIFO"),
        namespace_selector=selectors.label_selector(spec.get("namespaceSelector")),
        resource_groups=_resource_groups(spec.get("resourceGroups")),
        flavor_fungibility=_flavor_fungibility(spec.get("flavorFungibility") or {}),
        preemption=_preemption(spec.get("preemption")),
        admission_checks=_admission_checks(spec.get("admissionChecksStrategy") or {}),
        stop_policy=_stop_policy(spec),
        fair_weight=_fair_weight(spec),
        uses_admission_fair_sharing=objects.nested(spec, "admissionScope").get("admissionMode") == _USAGE_BASED,
        concurrent_admission=_concurrent_admission(spec.get("concurrentAdmissionPolicy")),
        terminating=objects.is_deleted(obj),
    )


def _concurrent_admission(policy: Object | None) -> values.ConcurrentAdmission | None:
    if policy is None:
        return None
    name = objects.nested(policy, "migration", "constraints").get("lastAcceptableFlavorName")
    return values.ConcurrentAdmission(last_acceptable_flavor=None if name is None else values.FlavorName(name))


def cohort(obj: Object) -> values.Cohort:
    spec = objects.spec(obj)
    return values.Cohort(
        name=values.CohortName(obj["metadata"]["name"]),
        parent=_cohort_name(spec.get("parentName")),
        resource_groups=_resource_groups(spec.get("resourceGroups")),
        fair_weight=_fair_weight(spec),
    )


def local_queue(obj: Object) -> values.LocalQueue:
    spec = objects.spec(obj)
    return values.LocalQueue(
        key=values.LocalQueueKey(f"{objects.namespace(obj)}/{objects.name(obj)}"),
        cluster_queue=values.ClusterQueueName(spec.get("clusterQueue", "")),
        stop_policy=_stop_policy(spec),
        fair_weight=1.0 if (weight := _fair_weight(spec)) is None else weight,
    )


def resource_flavor(obj: Object) -> values.ResourceFlavor:
    spec = objects.spec(obj)
    return values.ResourceFlavor(
        name=values.FlavorName(obj["metadata"]["name"]),
        node_labels=dict(spec.get("nodeLabels") or {}),
        node_taints=selectors.taints(spec.get("nodeTaints")),
        tolerations=selectors.tolerations(spec.get("tolerations")),
        topology=spec.get("topologyName"),
    )


def admission_check(obj: Object) -> values.AdmissionCheck:
    return values.AdmissionCheck(
        name=values.CheckName(obj["metadata"]["name"]),
        controller=objects.spec(obj).get("controllerName", ""),
        active=conditions.is_true(obj, "Active"),
    )


def _cohort_name(name: str | None) -> values.CohortName | None:
    return values.CohortName(name) if name else None


def _stop_policy(spec: Object) -> values.StopPolicy:
    return values.StopPolicy(spec.get("stopPolicy") or "None")


def _fair_weight(spec: Object) -> float | None:
    weight = objects.nested(spec, "fairSharing").get("weight")
    return None if weight is None else quantity.parse(weight).nano / quantity.NANO_PER_UNIT


def _resource_groups(groups: Iterable[Object] | None) -> tuple[values.ResourceGroup, ...]:
    return tuple(
        values.ResourceGroup(
            covered_resources=tuple(values.ResourceName(name) for name in group.get("coveredResources") or ()),
            flavors=tuple(
                values.FlavorQuotas(
                    name=values.FlavorName(flavor["name"]),
                    resources={
                        values.ResourceName(entry["name"]): _quota(entry) for entry in flavor.get("resources") or ()
                    },
                )
                for flavor in group.get("flavors") or ()
            ),
        )
        for group in groups or ()
    )


def _quota(entry: Object) -> values.Quota:
    def limit(name: str) -> int | None:
        return None if entry.get(name) is None else amounts.of_quota(entry["name"], entry[name])

    return values.Quota(
        nominal=amounts.of_quota(entry["name"], entry.get("nominalQuota", 0)),
        borrowing_limit=limit("borrowingLimit"),
        lending_limit=limit("lendingLimit"),
    )


def _flavor_fungibility(spec: Object) -> values.FlavorFungibility:
    preference = spec.get("preference")
    return values.FlavorFungibility(
        when_can_borrow=values.FungibilityPolicy(spec.get("whenCanBorrow") or "MayStopSearch"),
        when_can_preempt=values.FungibilityPolicy(spec.get("whenCanPreempt") or "TryNextFlavor"),
        preference=values.FungibilityPreference(preference) if preference else None,
    )


def _preemption(spec: Object | None) -> values.Preemption:
    if spec is None:
        return values.Preemption()
    borrowing = spec.get("borrowWithinCohort") or {}
    return values.Preemption(
        within_cluster_queue=values.PreemptionPolicy(spec.get("withinClusterQueue") or ""),
        reclaim_within_cohort=values.PreemptionPolicy(spec.get("reclaimWithinCohort") or ""),
        borrow_within_cohort=(
            values.BorrowWithinCohort(max_priority_threshold=borrowing.get("maxPriorityThreshold"))
            if borrowing.get("policy", "Never") != "Never"
            else None
        ),
    )


def _admission_checks(strategy: Object) -> Mapping[values.CheckName, frozenset[values.FlavorName]]:
    return {
        values.CheckName(check["name"]): frozenset(values.FlavorName(name) for name in check.get("onFlavors") or ())
        for check in strategy.get("admissionChecks") or ()
    }
