"""ClusterQueue: defaults and validation of its webhooks."""

from typing import Any

from pykueue.api import errors, feature_gates, quantity
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, quota, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

_CHECKS = "spec.admissionChecksStrategy.admissionChecks"
_POLICY = "spec.concurrentAdmissionPolicy"
NOT_CONCURRENT = f"{_POLICY} has no effect without the feature gate ConcurrentAdmission"
STRICT_FIFO_IS_NOT_CONCURRENT = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
BORROWS_WITHOUT_RECLAIM = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"


def default(request: AdmissionRequest) -> None:
    if request.operation == "CREATE":
        spec = quota.ensure_spec(request.object)
        if quota.malformed_quantity(spec):
            raise errors.undecodable("mclusterqueue.kb.io", quantity.SYNTAX_ERROR)
        quota.write_as_decoded(spec)
        quota.add_finalizer(request.object)


def validate(request: AdmissionRequest) -> ValidationResult:
    spec = reading.mapping(request.object.get("spec"))
    old = None if request.old is None else reading.mapping(request.old.get("spec"))
    gates = request.settings.feature_gates
    field_errors = _check_spec(spec)
    if feature_gates.is_enabled(gates, "ConcurrentAdmission"):
        field_errors += _check_concurrent_admission(spec)
    rejects_old_faults = feature_gates.is_enabled(gates, "RejectUpdatesToCQWithInvalidOnFlavors")
    field_errors += _check_on_flavors(spec, {} if old is None or rejects_old_faults else _tolerated_checks(spec, old))
    if old is not None:
        field_errors += faults.changed(
            _POLICY, spec.get("concurrentAdmissionPolicy"), old.get("concurrentAdmissionPolicy")
        )
    return ValidationResult(denied=tuple(field_errors), webhook="vclusterqueue.kb.io")


def _check_spec(spec: Object) -> list[FieldError]:
    parent = quota.Parent(noun="cohort", is_named=bool(spec.get("cohortName")), may_lend_above_nominal=False)
    return [
        *quota.check_resource_groups(spec, parent),
        *syntax.check_label_selector("spec.namespaceSelector", spec.get("namespaceSelector")),
        *_check_preemption(spec.get("preemption")),
        *_check_fungibility(reading.mapping(spec.get("flavorFungibility"))),
        *quota.check_fair_sharing(spec),
        *quota.check_totals(spec),
    ]


def _check_preemption(preemption: Any) -> list[FieldError]:
    borrow = reading.at(preemption, "borrowWithinCohort")
    if reading.at(preemption, "reclaimWithinCohort") != "Never" or not isinstance(borrow, dict):
        return []
    if borrow.get("policy") == "Never":
        return []
    return [faults.invalid("spec.preemption", preemption, BORROWS_WITHOUT_RECLAIM)]


def _check_fungibility(fungibility: Object) -> list[FieldError]:
    preference = fungibility.get("preference")
    tries_next = all(fungibility.get(name) == "TryNextFlavor" for name in ("whenCanBorrow", "whenCanPreempt"))
    if preference is None or tries_next:
        return []
    detail = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [faults.invalid("spec.flavorFungibility.preference", preference, detail)]


def _check_concurrent_admission(spec: Object) -> list[FieldError]:
    policy = spec.get("concurrentAdmissionPolicy")
    if not isinstance(policy, dict):
        return []
    field_errors = []
    groups = reading.mappings(spec.get("resourceGroups"))
    if len(groups) != 1:
        detail = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
        field_errors.append(faults.invalid("spec.resourceGroups", len(groups), detail))
    elif (flavors := len(reading.sequence(groups[0].get("flavors")))) > 16:
        detail = (
            "cannot have more than 16 resource flavors in the ResourceGroup when ConcurrentAdmissionPolicy is defined"
        )
        field_errors.append(faults.invalid("spec.resourceGroups[0].flavors", flavors, detail))
    field_errors += _check_migration(spec, reading.mapping(policy.get("migration")))
    if spec.get("queueingStrategy") == "StrictFIFO":
        field_errors.append(faults.invalid("spec.queueingStrategy", "StrictFIFO", STRICT_FIFO_IS_NOT_CONCURRENT))
    return field_errors


def _check_migration(spec: Object, migration: Object) -> list[FieldError]:
    constraints, mode = migration.get("constraints"), migration.get("mode")
    if not isinstance(constraints, dict):
        return []
    path = f"{_POLICY}.migration.constraints"
    if mode not in (None, "", "TryPreferredFlavors"):
        return [faults.forbidden(path, f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")')]
    last, flavors = constraints.get("lastAcceptableFlavorName"), quota.flavor_names(spec)
    if last is None or last in flavors:
        return []
    detail = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(flavors)}]"
    return [faults.invalid(f"{path}.lastAcceptableFlavorName", last, detail)]


def _check_on_flavors(spec: Object, tolerated: dict[str, set[str]]) -> list[FieldError]:
    flavors = quota.flavor_names(spec)
    field_errors = []
    for index, (name, on_flavors) in enumerate(_checks(spec)):
        if tolerated.get(name) == set(on_flavors):
            continue
        for position, flavor in enumerate(on_flavors):
            if flavor not in flavors:
                path = f"{_CHECKS}[{index}].onFlavors[{position}]"
                field_errors.append(faults.not_supported(path, flavor, flavors))
    return field_errors


def _tolerated_checks(spec: Object, old: Object) -> dict[str, set[str]]:
    """The flavors of each check that the old object had already.

    An update of something else is not refused because of them.
    """
    if set(quota.flavor_names(spec)) != set(quota.flavor_names(old)):
        return {}
    return {name: set(on_flavors) for name, on_flavors in _checks(old)}


def _checks(spec: Object) -> list[tuple[str, list[str]]]:
    checks = reading.mappings(reading.at(spec, "admissionChecksStrategy", "admissionChecks"))
    return [(reading.text(check.get("name")), reading.texts(check.get("onFlavors"))) for check in checks]


def warn_of_gate(request: AdmissionRequest) -> ValidationResult:
    """Warns of a policy that is stored, but has no effect because its feature gate is off."""
    if request.subresource or feature_gates.is_enabled(request.settings.feature_gates, "ConcurrentAdmission"):
        return ValidationResult()
    has_policy = reading.mapping(request.object.get("spec")).get("concurrentAdmissionPolicy") is not None
    had_policy = reading.mapping((request.old or {}).get("spec")).get("concurrentAdmissionPolicy") is not None
    return ValidationResult(warnings=(NOT_CONCURRENT,) if has_policy and not had_policy else ())
