"""Resource groups and fair-sharing weights: the rules that ClusterQueues and Cohorts share.

A Cohort has no other rules, so that its `validate_cohort` is here too.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from pykueue.api import quantity
from pykueue.api.errors import FieldError
from pykueue.api.labels import RESOURCE_IN_USE
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

WEIGHT_TOO_SMALL = "When not 0, weight must be > 10e-9"
LENDS_ABOVE_NOMINAL = "must be less than or equal to the nominalQuota"
"""The finalizer that prevents the deletion of an object while others refer to it."""

_GROUPS = "spec.resourceGroups"


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The parent of the quota; `noun` is its name in messages."""

    noun: str
    is_named: bool
    may_lend_above_nominal: bool


def validate_cohort(request: AdmissionRequest) -> ValidationResult:
    spec = reading.mapping(request.object.get("spec"))
    parent = Parent(noun="parent", is_named=bool(spec.get("parentName")), may_lend_above_nominal=True)
    field_errors = [*check_fair_sharing(spec), *check_resource_groups(spec, parent)]
    return ValidationResult(denied=tuple(field_errors), webhook="vcohort.kb.io")


def add_finalizer(obj: Object) -> None:
    metadata = obj.setdefault("metadata", {})
    if isinstance(metadata, dict) and RESOURCE_IN_USE not in reading.sequence(metadata.get("finalizers")):
        metadata["finalizers"] = [*reading.sequence(metadata.get("finalizers")), RESOURCE_IN_USE]


def flavor_names(spec: Object) -> list[str]:
    """The flavors of all groups, in the order in which they first appear."""
    groups = reading.mappings(spec.get("resourceGroups"))
    flavors = (flavor for group in groups for flavor in reading.mappings(group.get("flavors")))
    return list(dict.fromkeys(reading.text(flavor.get("name")) for flavor in flavors))


def set_covered_resources(obj: Object) -> list[str]:
    """Set a group's missing `coveredResources` from its flavors; return a warning for each group.

    The resources have the order in which they first appear.
    """
    warnings = []
    for index, group in enumerate(reading.mappings(reading.at(obj, "spec", "resourceGroups"))):
        flavors = reading.mappings(group.get("flavors"))
        names = [resource.get("name") for flavor in flavors for resource in reading.mappings(flavor.get("resources"))]
        covered = list(dict.fromkeys(name for name in names if isinstance(name, str)))
        if group.get("coveredResources") or not covered:
            continue
        group["coveredResources"] = covered
        path = f"{_GROUPS}[{index}].coveredResources"
        warnings.append(f"{path}: missing, taken from the flavors' resources: {', '.join(covered)}")
    return warnings


def ensure_spec(obj: Object) -> Any:
    """The spec, created if absent: a Go webhook writes back a spec even if there was none."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    return obj["spec"]


def malformed_quantity(spec: Any) -> bool:
    """Whether a quota or a weight is not a quantity, so that Kueue cannot decode the object."""
    amounts = (holder.get(name) for holder, name in _quantities(spec))
    return any(amount is not None and _decoded(amount) is None for amount in amounts)


def _decoded(amount: Any) -> Quantity | None:
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return None
    return reading.amount(amount.strip() if isinstance(amount, str) else amount)


def write_as_decoded(spec: Any) -> None:
    """Write the spec as a Go webhook writes it back after decoding.

    Quantities get their canonical form, and missing names become "".
    """
    for holder, name in _quantities(spec):
        if holder.get(name) is None:
            if name == "nominalQuota":
                holder[name] = "0"
        elif (amount := _decoded(holder[name])) is not None and abs(amount.units()) < quantity.MAX_UNITS:
            holder[name] = str(amount)
    for group in reading.mappings(reading.at(spec, "resourceGroups")):
        for flavor in reading.mappings(group.get("flavors")):
            flavor.setdefault("name", "")
    for expression in reading.mappings(reading.at(spec, "namespaceSelector", "matchExpressions")):
        expression.setdefault("key", "")
        expression.setdefault("operator", "")


def _quantities(spec: Any) -> Iterator[tuple[Object, str]]:
    yield reading.mapping(reading.at(spec, "fairSharing")), "weight"
    for group in reading.mappings(reading.at(spec, "resourceGroups")):
        for flavor in reading.mappings(group.get("flavors")):
            for resource in reading.mappings(flavor.get("resources")):
                for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                    yield resource, name


def check_resource_groups(spec: Object, parent: Parent) -> list[FieldError]:
    field_errors: list[FieldError] = []
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for index, group in enumerate(reading.mappings(spec.get("resourceGroups"))):
        path = f"{_GROUPS}[{index}]"
        covered = reading.texts(group.get("coveredResources"))
        for position, name in enumerate(covered):
            here = f"{path}.coveredResources[{position}]"
            field_errors += syntax.check_label_key(here, name)
            field_errors += _check_unique(here, name, seen_resources)
        for position, flavor in enumerate(reading.mappings(group.get("flavors"))):
            here = f"{path}.flavors[{position}]"
            field_errors += _check_flavor(here, flavor, covered, parent)
            field_errors += _check_unique(f"{here}.name", reading.text(flavor.get("name")), seen_flavors)
    return field_errors


def check_fair_sharing(spec: Object) -> list[FieldError]:
    weight = reading.amount(reading.at(spec, "fairSharing", "weight"))
    if weight is None:
        return []
    if weight.nano < 0:
        return [faults.invalid("spec.fairSharing", str(weight), faults.NEGATIVE)]
    if weight.nano == 1:
        return [faults.invalid("spec.fairSharing", str(weight), WEIGHT_TOO_SMALL)]
    return []


def check_totals(spec: Object) -> list[FieldError]:
    field_errors = []
    groups = reading.mappings(spec.get("resourceGroups"))
    flavors = sum(len(reading.sequence(group.get("flavors"))) for group in groups)
    if flavors > 256:
        detail = f"total number of flavors across all resourceGroups must be ≤ 256, got {flavors}"
        field_errors.append(faults.invalid(_GROUPS, flavors, detail))
    covered = sum(len(reading.sequence(group.get("coveredResources"))) for group in groups)
    if covered > 256:
        detail = f"total number of covered resources across all resourceGroups must be ≤ 256, got {covered}"
        field_errors.append(faults.invalid(_GROUPS, covered, detail))
    for index, group in enumerate(groups):
        of_flavors = (reading.sequence(flavor.get("resources")) for flavor in reading.mappings(group.get("flavors")))
        pairs = sum(map(len, of_flavors))
        if pairs > 512:
            detail = f"number of flavor-resource combinations in a resourceGroup must be ≤ 512, got {pairs}"
            field_errors.append(faults.invalid(f"{_GROUPS}[{index}]", pairs, detail))
    return field_errors


def _check_unique(path: str, name: str, names: set[str]) -> list[FieldError]:
    if name in names:
        return [faults.duplicate(path, name)]
    names.add(name)
    return []


def _check_flavor(path: str, flavor: Object, covered: list[str], parent: Parent) -> Iterator[FieldError]:
    resources = reading.mappings(flavor.get("resources"))
    for index, (resource, expected) in enumerate(zip(resources, covered, strict=False)):
        here = f"{path}.resources[{index}]"
        if resource.get("name") != expected:
            detail = "must match the name in coveredResources"
            yield faults.invalid(f"{here}.name", resource.get("name", ""), detail)
        yield from _check_amounts(here, resource, parent)


def _check_amounts(path: str, resource: Object, parent: Parent) -> Iterator[FieldError]:
    nominal = reading.amount(resource.get("nominalQuota")) or Quantity(0)
    yield from check_not_negative(f"{path}.nominalQuota", nominal)
    borrowing = reading.amount(resource.get("borrowingLimit"))
    if borrowing is not None:
        here = f"{path}.borrowingLimit"
        yield from _check_limit_has_parent(here, borrowing, parent)
        yield from check_not_negative(here, borrowing)
    lending = reading.amount(resource.get("lendingLimit"))
    if lending is not None:
        here = f"{path}.lendingLimit"
        yield from check_not_negative(here, lending)
        yield from _check_limit_has_parent(here, lending, parent)
        if lending.nano > nominal.nano and not parent.may_lend_above_nominal:
            yield faults.invalid(here, str(lending), LENDS_ABOVE_NOMINAL)


def check_not_negative(path: str, amount: Quantity) -> list[FieldError]:
    return [faults.invalid(path, str(amount), faults.NEGATIVE)] if amount.nano < 0 else []


def _check_limit_has_parent(path: str, limit: Quantity, parent: Parent) -> list[FieldError]:
    if parent.is_named:
        return []
    return [faults.invalid(path, str(limit), f"must be nil when {parent.noun} is empty")]
