"""Validation of roles and bindings, as the API server validates them."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

GROUP = "rbac.authorization.k8s.io"
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def validate_role(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult(invalid=tuple(_check_rules(request.object, is_namespaced=True)))


def validate_cluster_role(request: AdmissionRequest) -> ValidationResult:
    role = request.object
    field_errors = [*_check_rules(role, is_namespaced=False)]
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = reading.mappings(reading.at(aggregation, "clusterRoleSelectors"))
        if not selectors:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            field_errors.append(faults.required(path, detail))
        for index, selector in enumerate(selectors):
            field_errors += syntax.check_label_selector(f"{path}[{index}]", selector)
    return ValidationResult(invalid=tuple(field_errors))


def validate_role_binding(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult(invalid=tuple(_check_binding(request, ("Role", "ClusterRole"))))


def validate_cluster_role_binding(request: AdmissionRequest) -> ValidationResult:
    return ValidationResult(invalid=tuple(_check_binding(request, ("ClusterRole",))))


def default_binding(request: AdmissionRequest) -> None:
    """Set the API groups that a client may leave out."""
    role_ref = reading.mapping(request.object.get("roleRef"))
    if not role_ref.get("apiGroup"):
        role_ref["apiGroup"] = GROUP
    for subject in reading.mappings(request.object.get("subjects")):
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def _check_rules(role: Object, *, is_namespaced: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(reading.mappings(role.get("rules"))):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield faults.required(f"{path}.verbs", "verbs must contain at least one value")
        urls = rule.get("nonResourceURLs")
        if urls:
            if is_namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                yield faults.invalid(f"{path}.nonResourceURLs", urls, detail)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                yield faults.invalid(f"{path}.nonResourceURLs", urls, detail)
            continue
        if not rule.get("apiGroups"):
            yield faults.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield faults.required(f"{path}.resources", "resource rules must supply at least one resource")


def _check_binding(request: AdmissionRequest, role_kinds: tuple[str, ...]) -> Iterator[FieldError]:
    role_ref = reading.mapping(request.object.get("roleRef"))
    if role_ref.get("apiGroup") != GROUP:
        yield faults.not_supported("roleRef.apiGroup", role_ref.get("apiGroup", ""), (GROUP,))
    if role_ref.get("kind") not in role_kinds:
        yield faults.not_supported("roleRef.kind", role_ref.get("kind", ""), role_kinds)
    name = reading.text(role_ref.get("name"))
    if not name:
        yield faults.required("roleRef.name")
    for words in syntax.path_segment(name) if name else ():
        yield faults.invalid("roleRef.name", name, words)
    for index, subject in enumerate(reading.mappings(request.object.get("subjects"))):
        yield from _check_subject(f"subjects[{index}]", subject, is_namespaced="Role" in role_kinds)
    if request.old is not None and role_ref != reading.mapping(request.old.get("roleRef")):
        value = {field[0].upper() + field[1:]: role_ref.get(field, "") for field in ("kind", "name")}
        yield faults.invalid("roleRef", {"APIGroup": role_ref.get("apiGroup", ""), **value}, "cannot change roleRef")


def _check_subject(path: str, subject: Object, *, is_namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = (reading.text(subject.get(field)) for field in ("kind", "name", "apiGroup"))
    if not name:
        yield faults.required(f"{path}.name")
    if kind not in _SUBJECT_KINDS:
        yield faults.not_supported(f"{path}.kind", kind, _SUBJECT_KINDS)
    elif kind == "ServiceAccount":
        for words in syntax.dns_subdomain(name) if name else ():
            yield faults.invalid(f"{path}.name", name, words)
        if group:
            yield faults.not_supported(f"{path}.apiGroup", group, ("",))
        if not is_namespaced and not subject.get("namespace"):
            yield faults.required(f"{path}.namespace")
    elif group != GROUP:
        yield faults.not_supported(f"{path}.apiGroup", group, (GROUP,))
