"""ClusterQueue and Cohort: resource groups, and what only a ClusterQueue has.

In Python: `api.rules.cluster_queue` and `api.rules.quota`.
"""

from pykueue.api import feature_gates
from pykueue.api.rules import cluster_queue, quota
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel
from pykueue.install.validations.table import Table, Validation, Variable

_GROUPS = "object.spec.resourceGroups"
_HAS_GROUPS = f"has(object.spec) && has({_GROUPS})"


def _every_group(text: str) -> str:
    return f"{_GROUPS}.all(g, {text})"


def _every_amount(text: str) -> str:
    """A condition on each resource `r` of each flavor."""
    return _every_group(f"g.flavors.all(f, !has(f.resources) || f.resources.all(r, {text}))")


def _in_one_only(lists: str) -> str:
    """Whether no name is in two lists; the schema checks within one list.

    The cost fits the largest queue.
    """
    return f"{lists}.all(names, names.all(name, {lists}.filter(other, name in other).size() == 1))"


def _quota(parent: str, noun: str) -> list[Validation]:
    """The rules of resource groups; `parent` is the field that names the parent of the quota."""
    no_parent = f"!has(object.spec.{parent}) || object.spec.{parent} == ''"
    limits = ("borrowingLimit", "lendingLimit")
    return [
        Validation(
            cel=f"variables.covered.all(names, names.all(n, {cel.is_label_key('n')}))",
            message="coveredResources must be valid resource names",
        ),
        Validation(
            cel=_in_one_only("variables.covered"),
            message="a resource may be covered by one resource group only",
        ),
        Validation(
            cel=_in_one_only("variables.flavors"),
            message="a flavor may be in one resource group only",
        ),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group("g.flavors.all(f, !has(f.resources) || f.resources.map(r, r.name) == g.coveredResources)"),
            message="the resources of a flavor must match the names in coveredResources",
        ),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_amount(
                " && ".join(
                    cel.optional(f"r.{name}", cel.is_not_negative(f"r.{name}")) for name in ("nominalQuota", *limits)
                )
            ),
            message="nominalQuota, borrowingLimit and lendingLimit must be greater than or equal to 0",
        ),
        Validation(
            when=f"{_HAS_GROUPS} && ({no_parent})",
            cel=_every_amount(" && ".join(f"!has(r.{name})" for name in limits)),
            message=f"borrowingLimit and lendingLimit must be nil when {noun} is empty",
        ),
        *_fair_sharing(),
    ]


def _fair_sharing() -> list[Validation]:
    weight = "object.spec.fairSharing.weight"
    has_weight = f"has(object.spec) && has(object.spec.fairSharing) && has({weight})"
    return [
        Validation(
            when=has_weight,
            cel=cel.is_not_negative(weight),
            message="spec.fairSharing.weight: must be greater than or equal to 0",
        ),
        Validation(
            when=has_weight,
            cel=f"{cel.amount(weight)}.compareTo(quantity('1n')) != 0",
            message=f"spec.fairSharing: {quota.WEIGHT_TOO_SMALL}",
        ),
    ]


def _totals() -> list[Validation]:
    return [
        Validation(
            cel=f"variables.{names}.map(each, size(each)).sum() <= 256",
            message=f"total number of {noun} across all resourceGroups must be ≤ 256",
        )
        for names, noun in (("flavors", "flavors"), ("covered", "covered resources"))
    ] + [
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group("g.flavors.map(f, has(f.resources) ? size(f.resources) : 0).sum() <= 512"),
            message="number of flavor-resource combinations in a resourceGroup must be ≤ 512",
        )
    ]


def _all_in(lists: str, others: str) -> str:
    return f"{lists}.all(names, names.all(name, {others}.exists(other, name in other)))"


def _on_flavors(settings: Settings) -> Validation:
    """The flavors of a check must be flavors of the ClusterQueue.

    Checks that the old object had already are tolerated, so that an update of something else is
    not refused.
    """
    checks = "?admissionChecksStrategy.?admissionChecks.orValue([])"
    flavors, old_flavors = ("c.?onFlavors.orValue([])", "o.?onFlavors.orValue([])")
    had = (
        f"oldObject != null && {_all_in('variables.flavors', 'variables.oldFlavors')} && "
        f"{_all_in('variables.oldFlavors', 'variables.flavors')} && "
        f"oldObject.spec.{checks}.exists(o, o.name == c.name && {cel.same_elements(flavors, old_flavors)})"
    )
    if feature_gates.is_enabled(settings.feature_gates, "RejectUpdatesToCQWithInvalidOnFlavors"):
        had = "false"
    return Validation(
        when="has(object.spec)",
        cel=f"object.spec.{checks}.all(c, {flavors}.all(n, variables.flavors.exists(names, n in names)) || ({had}))",
        message="spec.admissionChecksStrategy: onFlavors must be flavors of the ClusterQueue",
    )


def _concurrent_admission(settings: Settings) -> list[Validation]:
    if not feature_gates.is_enabled(settings.feature_gates, "ConcurrentAdmission"):
        return []
    policy, groups = "object.?spec.?concurrentAdmissionPolicy", "object.spec.?resourceGroups.orValue([])"
    is_given = f"{policy}.hasValue()"
    last = f"{policy}.?migration.?constraints.?lastAcceptableFlavorName"
    return [
        Validation(
            when=is_given,
            cel=f"size({groups}) == 1 && {groups}.all(g, size(g.flavors) <= 16)",
            message="must have exactly one ResourceGroup, of at most 16 flavors, when ConcurrentAdmissionPolicy is defined",
        ),
        Validation(
            when=is_given,
            cel="object.spec.?queueingStrategy.orValue('') != 'StrictFIFO'",
            message=cluster_queue.STRICT_FIFO_IS_NOT_CONCURRENT,
        ),
        Validation(
            when=f"{policy}.?migration.?constraints.hasValue()",
            cel=f"{policy}.?migration.?mode.orValue('') in ['', 'TryPreferredFlavors']",
            message='migration.constraints may only be set when migration.mode is "TryPreferredFlavors"',
        ),
        Validation(
            when=f"{last}.hasValue()",
            cel=f"{groups}.exists(g, g.flavors.exists(f, f.name == {last}.orValue('')))",
            message="lastAcceptableFlavorName must be one of the flavors defined in the ClusterQueue",
        ),
    ]


def _cluster_queue(settings: Settings) -> list[Validation]:
    preemption, fungibility = "object.spec.preemption", "object.spec.flavorFungibility"
    borrow = f"{preemption}.borrowWithinCohort"
    policy = "spec.concurrentAdmissionPolicy"
    both_try = " && ".join(
        f"has({fungibility}.{name}) && {fungibility}.{name} == 'TryNextFlavor'"
        for name in ("whenCanBorrow", "whenCanPreempt")
    )
    lends = f"{cel.amount('r.lendingLimit')}.compareTo({cel.amount('r.nominalQuota')}) <= 0"
    return [
        *_quota("cohortName", "cohort"),
        *_totals(),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_amount(cel.optional("r.lendingLimit", lends)),
            message=f"lendingLimit {quota.LENDS_ABOVE_NOMINAL}",
        ),
        Validation(
            when="has(object.spec) && has(object.spec.namespaceSelector) && object.spec.namespaceSelector != null",
            cel=cel.is_selector("object.spec.namespaceSelector"),
            message="spec.namespaceSelector must be a valid label selector",
        ),
        Validation(
            when=f"has(object.spec) && has({preemption}) && has({borrow}) && has({preemption}.reclaimWithinCohort)",
            cel=f"{preemption}.reclaimWithinCohort != 'Never' || (has({borrow}.policy) && {borrow}.policy == 'Never')",
            message=f"spec.preemption: {cluster_queue.BORROWS_WITHOUT_RECLAIM}",
        ),
        Validation(
            when=f"has(object.spec) && has({fungibility}) && has({fungibility}.preference)",
            cel=both_try,
            message="spec.flavorFungibility.preference requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor",
        ),
        _on_flavors(settings),
        *_concurrent_admission(settings),
        Validation(
            when="oldObject != null && has(object.spec) && has(oldObject.spec)",
            cel=f"has(object.{policy}) == has(oldObject.{policy}) && "
            f"(!has(object.{policy}) || object.{policy} == oldObject.{policy})",
            message=f"{policy}: field is immutable",
        ),
    ]


_NAMES = "{0}.?spec.?resourceGroups.orValue([]).map(g, g.?{1}.orValue([]){2})"
_FLAVORS, _OLD_FLAVORS = (_NAMES.format(obj, "flavors", ".map(f, f.name)") for obj in ("object", "oldObject"))
_VARIABLES = (
    Variable(name="covered", cel=_NAMES.format("object", "coveredResources", "")),
    Variable(name="flavors", cel=_FLAVORS),
    Variable(name="oldFlavors", cel=f"oldObject == null ? [] : {_OLD_FLAVORS}"),
)
"""Names, as one list for each group."""


def of_cluster_queues(settings: Settings) -> Table:
    return Table(variables=_VARIABLES, validations=tuple(_cluster_queue(settings)))


def of_cohorts() -> Table:
    return Table(variables=_VARIABLES, validations=tuple(_quota("parentName", "parent")))
