"""What Kueue's webhooks refuse of ClusterQueues, Cohorts and ResourceFlavors, as CEL for a cluster without webhooks.

The same rules in Python are in `api.rules`, for the embedded API; a test holds them against each other. Rules that are in the
schemas are not repeated here.
"""

from dataclasses import dataclass

from pykueue.api.scheme import Object
from pykueue.install import cel_texts

_GROUPS = "object.spec.resourceGroups"
_HAS_GROUPS = f"has(object.spec) && has({_GROUPS})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """`unless` the condition is false, the text must hold: so rules need not repeat which fields are there."""

    when: str = "true"
    cel: str
    message: str

    def schema(self) -> Object:
        text = self.cel if self.when == "true" else f"!({self.when}) || ({self.cel})"
        return {"expression": text, "message": self.message}


def _every_group(text: str) -> str:
    return f"{_GROUPS}.all(g, {text})"


def _every_amount(text: str) -> str:
    """Of each resource `r` of each flavor that says which amounts it has."""
    return _every_group(f"g.flavors.all(f, !has(f.resources) || f.resources.all(r, {text}))")


def _optional(field: str, text: str) -> str:
    return f"(!has({field}) || {text})"


def _quota(parent: str, noun: str) -> list[Validation]:
    """Of everything that has resource groups; `parent` is the field that names what the quota hangs below."""
    no_parent = f"!has(object.spec.{parent}) || object.spec.{parent} == ''"
    once = "size({0}.filter(x, {1})) == 1"
    limits = ("borrowingLimit", "lendingLimit")
    return [
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group(f"g.coveredResources.all(n, {cel_texts.is_label_key('n')})"),
            message="coveredResources must be valid resource names",
        ),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group(
                f"g.coveredResources.all(n, {once.format(_GROUPS, 'n in x.coveredResources')} && "
                f"{once.format('g.coveredResources', 'x == n')})"
            ),
            message="a resource may be covered by one resource group only, and once",
        ),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group(
                f"g.flavors.all(f, {once.format(_GROUPS, 'x.flavors.exists(e, e.name == f.name)')} && "
                f"{once.format('g.flavors', 'x.name == f.name')})"
            ),
            message="a flavor may be in one resource group only, and once",
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
                    _optional(f"r.{name}", cel_texts.is_not_negative(f"r.{name}")) for name in ("nominalQuota", *limits)
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
            cel=cel_texts.is_not_negative(weight),
            message="spec.fairSharing.weight: must be greater than or equal to 0",
        ),
        Validation(
            when=has_weight,
            cel=f"{cel_texts.amount(weight)}.compareTo(quantity('1n')) != 0",
            message="spec.fairSharing: When not 0, weight must be > 10e-9",
        ),
    ]


def _totals() -> list[Validation]:
    return [
        Validation(
            when=_HAS_GROUPS,
            cel=f"{_GROUPS}.map(g, size(g.{field})).sum() <= 256",
            message=f"total number of {noun} across all resourceGroups must be ≤ 256",
        )
        for field, noun in (("flavors", "flavors"), ("coveredResources", "covered resources"))
    ] + [
        Validation(
            when=_HAS_GROUPS,
            cel=_every_group("g.flavors.map(f, has(f.resources) ? size(f.resources) : 0).sum() <= 512"),
            message="number of flavor-resource combinations in a resourceGroup must be ≤ 512",
        )
    ]


def _on_flavors() -> Validation:
    """Flavors of checks that the old object had already are tolerated: an update of something else is not refused."""
    checks = "spec.admissionChecksStrategy.admissionChecks"
    is_known = f"{_HAS_GROUPS} && {_GROUPS}.exists(g, g.flavors.exists(f, f.name == n))"
    names = "spec.resourceGroups.map(g, g.flavors.map(f, f.name))"
    had = (
        f"oldObject != null && has(oldObject.spec.admissionChecksStrategy) && has(oldObject.{checks}) && "
        f"{_HAS_GROUPS} && has(oldObject.spec.resourceGroups) && object.{names} == oldObject.{names} && "
        f"oldObject.{checks}.exists(o, o.name == c.name && has(o.onFlavors) && o.onFlavors == c.onFlavors)"
    )
    return Validation(
        when=f"has(object.spec) && has(object.spec.admissionChecksStrategy) && has(object.{checks})",
        cel=f"object.{checks}.all(c, !has(c.onFlavors) || c.onFlavors.all(n, {is_known}) || ({had}))",
        message="spec.admissionChecksStrategy: onFlavors must be flavors of the ClusterQueue",
    )


def _cluster_queue() -> list[Validation]:
    preemption, fungibility = "object.spec.preemption", "object.spec.flavorFungibility"
    borrow = f"{preemption}.borrowWithinCohort"
    policy = "spec.concurrentAdmissionPolicy"
    both_try = " && ".join(
        f"has({fungibility}.{name}) && {fungibility}.{name} == 'TryNextFlavor'"
        for name in ("whenCanBorrow", "whenCanPreempt")
    )
    lends = f"{cel_texts.amount('r.lendingLimit')}.compareTo({cel_texts.amount('r.nominalQuota')}) <= 0"
    return [
        *_quota("cohortName", "cohort"),
        *_totals(),
        Validation(
            when=_HAS_GROUPS,
            cel=_every_amount(_optional("r.lendingLimit", lends)),
            message="lendingLimit must be less than or equal to the nominalQuota",
        ),
        Validation(
            when="has(object.spec) && has(object.spec.namespaceSelector) && object.spec.namespaceSelector != null",
            cel=cel_texts.is_selector("object.spec.namespaceSelector"),
            message="spec.namespaceSelector must be a valid label selector",
        ),
        Validation(
            when=f"has(object.spec) && has({preemption}) && has({borrow}) && has({preemption}.reclaimWithinCohort)",
            cel=f"{preemption}.reclaimWithinCohort != 'Never' || (has({borrow}.policy) && {borrow}.policy == 'Never')",
            message="spec.preemption: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
        Validation(
            when=f"has(object.spec) && has({fungibility}) && has({fungibility}.preference)",
            cel=both_try,
            message="spec.flavorFungibility.preference requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor",
        ),
        _on_flavors(),
        Validation(
            when="oldObject != null && has(object.spec) && has(oldObject.spec)",
            cel=f"has(object.{policy}) == has(oldObject.{policy}) && "
            f"(!has(object.{policy}) || object.{policy} == oldObject.{policy})",
            message=f"{policy}: field is immutable",
        ),
    ]


def _resource_flavor() -> list[Validation]:
    taints, labels = "object.spec.nodeTaints", "object.spec.nodeLabels"
    tolerations = "object.spec.tolerations"
    value = _optional("t.value", cel_texts.is_label_value("t.value"))
    twice = f"size({taints}.filter(x, x.key == t.key && x.effect == t.effect)) == 1"
    key = cel_texts.is_label_key("t.key")
    return [
        Validation(
            when=f"has(object.spec) && has({labels})",
            cel=cel_texts.are_labels(labels),
            message="spec.nodeLabels must be valid labels",
        ),
        Validation(
            when=f"has(object.spec) && has({taints})",
            cel=f"{taints}.all(t, {key} && {value})",
            message="spec.nodeTaints must have valid keys and values",
        ),
        Validation(
            when=f"has(object.spec) && has({taints})",
            cel=f"{taints}.all(t, {twice})",
            message="spec.nodeTaints: taints must be unique by key and effect pair",
        ),
        Validation(
            when=f"has(object.spec) && has({tolerations})",
            cel=f"{tolerations}.all(t, !has(t.key) || t.key == '' || {key})",
            message="spec.tolerations must have valid keys",
        ),
    ]


VALIDATIONS: dict[str, list[Validation]] = {
    "ClusterQueue": _cluster_queue(),
    "Cohort": _quota("parentName", "parent"),
    "ResourceFlavor": _resource_flavor(),
}
