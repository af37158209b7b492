"""ClusterQueue: quota, and the policies by which workloads get it."""

from typing import Annotated, Literal

import msgspec

from pykueue.api.cel.rules import Rule
from pykueue.api.kueue.v1beta2.fields import (
    CheckName,
    Conditions,
    FairSharing,
    FairSharingStatus,
    Name,
    ResourceGroups,
    StopPolicy,
)
from pykueue.api.meta import Int32, LabelSelector, ObjectMeta, Quantity
from pykueue.api.structural import ABSENT, Part, about


class FlavorFungibility(Part):
    """Whether a flavor that needs borrowing or preemption is used, or the next is tried first."""

    rules = (
        Rule(
            cel="!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
            message="preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            check=lambda own, _: (
                "preference" not in own or own["whenCanBorrow"] == own["whenCanPreempt"] == "TryNextFlavor"
            ),
        ),
    )
    when_can_borrow: Annotated[
        Literal["MayStopSearch", "TryNextFlavor"], about("What to do with a flavor that fits by borrowing.")
    ] = "MayStopSearch"
    when_can_preempt: Annotated[
        Literal["MayStopSearch", "TryNextFlavor"], about("What to do with a flavor that fits by preempting.")
    ] = "TryNextFlavor"
    preference: Annotated[
        Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None,
        about("Which of the two is better when no flavor fits without either."),
    ] = None


class BorrowWithinCohort(Part):
    """Preemption of other queues' workloads while this queue borrows."""

    policy: Annotated[
        Literal["Never", "LowerPriority"],
        about("Whether workloads of lower priority may be preempted while borrowing."),
    ] = "Never"
    max_priority_threshold: Annotated[
        Int32 | None, about("Only workloads of at most this priority are preempted; absent: any lower priority.")
    ] = None


class Preemption(Part):
    """Which workloads may be preempted to make room."""

    rules = (
        Rule(
            cel=(
                "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
                " self.borrowWithinCohort.policy != 'Never')"
            ),
            message="reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            check=lambda own, _: (
                not (
                    own["reclaimWithinCohort"] == "Never"
                    and "borrowWithinCohort" in own
                    and own["borrowWithinCohort"]["policy"] != "Never"
                )
            ),
        ),
    )
    reclaim_within_cohort: Annotated[
        Literal["Never", "LowerPriority", "Any"],
        about("Which workloads of the cohort that use our quota are preempted."),
    ] = "Never"
    borrow_within_cohort: Annotated[
        BorrowWithinCohort, about("Whether we may preempt in the cohort even while borrowing.")
    ] = msgspec.field(default_factory=BorrowWithinCohort)
    within_cluster_queue: Annotated[
        Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        about("Which workloads of this queue are preempted for a pending one."),
    ] = "Never"


class AdmissionCheckStrategyRule(Part):
    """An admission check and the flavors for which it runs."""

    name: Annotated[CheckName, about("AdmissionCheck.")]
    on_flavors: Annotated[
        tuple[Name, ...], about("Flavors for which the check runs; none means all.", max_items=64, list_type="set")
    ] = ()


class AdmissionChecksStrategy(Part):
    """The admission checks of this queue."""

    admission_checks: Annotated[
        tuple[AdmissionCheckStrategyRule, ...],
        about(
            "Checks that must be ready before a workload is admitted.",
            min_items=1,
            max_items=64,
            list_map_keys=("name",),
        ),
    ]


class AdmissionScope(Part):
    """How the local queues of this queue compete."""

    admission_mode: Annotated[
        Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"],
        about("Whether local queues that used less in the past go first."),
    ]


class MigrationConstraints(Part):
    """Limits of a migration."""

    last_acceptable_flavor_name: Annotated[
        Name | None, about("The least preferred flavor to which a workload may still move.")
    ] = None


class ConcurrentAdmissionMigration(Part):
    """What happens to a workload that was admitted on a less preferred flavor."""

    mode: Annotated[
        Literal["TryPreferredFlavors", "RetainFirstAdmission"],
        about("Keep trying better flavors, or stay with the first.", max_length=253),
    ]
    constraints: Annotated[MigrationConstraints | None, about("Limits of the migration.")] = None


class ConcurrentAdmissionPolicy(Part):
    """Trying several flavors for one workload at the same time."""

    migration: Annotated[ConcurrentAdmissionMigration, about("Whether an admitted workload moves to a better flavor.")]


class ClusterQueueSpec(Part):
    """The quota of the queue, and the policies of its admission."""

    rules = (
        Rule(
            cel=(
                "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, "
                "f.resources.all(r, !has(r.borrowingLimit)))) : true"
            ),
            message="borrowingLimit must be nil when cohort is empty",
            check=lambda own, _: "cohortName" in own or not has_borrowing_limit(own),
        ),
    )
    resource_groups: Annotated[ResourceGroups, about("Quotas, in groups of resources that are assigned together.")] = ()
    cohort_name: Annotated[Name | None, about("Cohort with which quota is shared; absent: none.")] = None
    queueing_strategy: Annotated[
        Literal["StrictFIFO", "BestEffortFIFO"],
        about("Whether a workload that does not fit blocks the ones behind it (StrictFIFO) or is passed."),
    ] = "BestEffortFIFO"
    namespace_selector: Annotated[
        LabelSelector | None,
        about("Namespaces that may submit here; absent selects none, {} selects all.", map_type="atomic"),
    ] = None
    flavor_fungibility: FlavorFungibility = msgspec.field(default_factory=FlavorFungibility)
    preemption: Preemption = msgspec.field(default_factory=Preemption)
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: Annotated[
        StopPolicy, about("Hold admits nothing new; HoldAndDrain also evicts what was admitted.")
    ] = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ResourceUsage(Part):
    """Usage of one resource."""

    name: Annotated[str, about("Resource.")]
    total: Annotated[Quantity | None, about("Amount in use, borrowed quota included.")] = None
    borrowed: Annotated[Quantity | None, about("Amount of it that is borrowed from the cohort.")] = None


class FlavorUsage(Part):
    """Usage of one flavor."""

    name: Annotated[Name, about("ResourceFlavor.")]
    resources: Annotated[
        tuple[ResourceUsage, ...], about("Use of each resource.", max_items=64, list_map_keys=("name",))
    ]


FlavorsUsage = Annotated[tuple[FlavorUsage, ...], about(max_items=64, list_map_keys=("name",))]


class ClusterQueueStatus(Part):
    """The observed usage of the queue."""

    conditions: Conditions = ()
    flavors_reservation: Annotated[FlavorsUsage, about("Use by workloads that have quota reserved.")] = ()
    flavors_usage: Annotated[FlavorsUsage, about("Use by workloads that are admitted.")] = ()
    pending_workloads: Annotated[Int32, about("Workloads that wait.", default=ABSENT)] = 0
    reserving_workloads: Annotated[Int32, about("Workloads that have quota reserved.", default=ABSENT)] = 0
    admitted_workloads: Annotated[Int32, about("Workloads that are admitted and not finished.", default=ABSENT)] = 0
    fair_sharing: Annotated[FairSharingStatus | None, about("Present when fair sharing is on.")] = None


class ClusterQueue(Part):
    """A pool of quota for the whole cluster, from which local queues are served."""

    metadata: ObjectMeta
    spec: ClusterQueueSpec = msgspec.field(default_factory=ClusterQueueSpec)
    status: ClusterQueueStatus = msgspec.field(default_factory=ClusterQueueStatus)


def has_borrowing_limit(spec: dict[str, list[dict[str, list[dict[str, list[dict[str, object]]]]]]]) -> bool:
    return any(
        "borrowingLimit" in resource
        for group in spec.get("resourceGroups", ())
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    )
