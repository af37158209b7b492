"""Validation of ResourceQuotas, as the API server validates them."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

_COUNTS = frozenset(
    [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_COMPUTE = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ]
)
_STANDARD = _COUNTS | _COMPUTE | {"requests.storage"}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_OF_CLAIMS = "VolumeAttributesClass"
_SCOPES_OF_PODS = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_CONFLICTS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate(request: AdmissionRequest) -> ValidationResult:
    if request.subresource:
        return ValidationResult()
    spec = reading.mapping(request.object.get("spec"))
    scopes = reading.texts(spec.get("scopes"))
    field_errors = [*_check_hard(spec), *_check_scopes(spec, scopes), *_check_selector(spec)]
    if request.old is not None:
        before = reading.texts(reading.at(request.old, "spec", "scopes"))
        if set(before) != set(scopes):
            field_errors.append(faults.invalid("spec.scopes", scopes, faults.IMMUTABLE))
    return ValidationResult(invalid=tuple(field_errors))


def _check_hard(spec: Object) -> Iterator[FieldError]:
    for name, amount in reading.amounts(spec.get("hard")).items():
        path = f"spec.hard[{name}]"
        if "/" not in name and not _is_standard(name):
            yield faults.invalid(path, name, "must be a standard resource for quota")
        if amount.nano < 0:
            yield faults.invalid(path, str(amount), faults.NEGATIVE)
        if name in _COUNTS and amount.nano % 10**9:
            yield faults.invalid(path, str(amount), "must be an integer")


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(_HUGE_PAGES)


def _is_valid_for(scope: str, name: str) -> bool:
    if scope == _OF_CLAIMS:
        return name in ("persistentvolumeclaims", "requests.storage")
    if scope == "BestEffort":
        return name == "pods"
    return name == "pods" or name in _COMPUTE or name.startswith(_HUGE_PAGES)


def _check_scopes(spec: Object, scopes: list[str]) -> Iterator[FieldError]:
    hard = sorted(reading.mapping(spec.get("hard")))
    for scope in scopes:
        if scope not in (*_SCOPES_OF_PODS, _OF_CLAIMS):
            yield faults.invalid("spec.scopes", scopes, "unsupported scope")
            continue
        for name in hard:
            if _is_standard(name) and not _is_valid_for(scope, name):
                yield faults.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        if set(pair) <= set(scopes):
            yield faults.invalid("spec.scopes", scopes, "conflicting scopes")


def _check_selector(spec: Object) -> Iterator[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    selector = spec.get("scopeSelector")
    expressions = reading.mappings(reading.at(selector, "matchExpressions"))
    for expression in expressions:
        scope, operator = (reading.text(expression.get(field)) for field in ("scopeName", "operator"))
        values = reading.texts(expression.get("values"))
        if scope not in (*_SCOPES_OF_PODS, _OF_CLAIMS):
            yield faults.invalid(f"{path}.scopeName", scope, "unsupported scope")
        else:
            for name in sorted(reading.mapping(spec.get("hard"))):
                if _is_standard(name) and not _is_valid_for(scope, name):
                    yield faults.invalid(path, selector, "unsupported scope applied to resource")
        if scope not in ("PriorityClass", _OF_CLAIMS) and operator != "Exists":
            yield faults.invalid(f"{path}.operator", operator, _EXISTS_ONLY)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield faults.required(f"{path}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield faults.invalid(f"{path}.values", values, detail)
        else:
            yield faults.invalid(f"{path}.operator", operator, "not a valid selector operator")
