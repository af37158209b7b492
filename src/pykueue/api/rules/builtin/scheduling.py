"""Validation of where a pod may run: affinity, tolerations, spread constraints, gates."""

from collections.abc import Iterator, Mapping
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"
_NOT_POSITIVE = "must be greater than zero"
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check(path: str, spec: Object) -> Iterator[FieldError]:
    if affinity := reading.mapping(spec.get("affinity")):
        yield from _check_node_affinity(f"{path}.affinity.nodeAffinity", reading.mapping(affinity.get("nodeAffinity")))
        for name in ("podAffinity", "podAntiAffinity"):
            yield from _check_pod_affinity(f"{path}.affinity.{name}", reading.mapping(affinity.get(name)))
    for index, gate in enumerate(reading.mappings(spec.get("readinessGates"))):
        here = f"{path}.readinessGates[{index}].conditionType"
        yield from syntax.check_label_key(here, reading.text(gate.get("conditionType")))
    yield from _check_gates(f"{path}.schedulingGates", reading.mappings(spec.get("schedulingGates")))
    yield from _check_spread(
        f"{path}.topologySpreadConstraints", reading.mappings(spec.get("topologySpreadConstraints"))
    )


def select_by_own_labels(spec: Object, labels: Mapping[str, str]) -> None:
    """Add the pod's labels that `matchLabelKeys` and `mismatchLabelKeys` name to the selectors.

    A requirement that is already there is not added again, so that this may run repeatedly.
    """
    affinity = reading.mapping(spec.get("affinity"))
    terms = reading.mappings(spec.get("topologySpreadConstraints"))
    for name in ("podAffinity", "podAntiAffinity") if affinity else ():
        terms += reading.mappings(reading.at(affinity, name, _REQUIRED))
        preferred = reading.mappings(reading.at(affinity, name, _PREFERRED))
        terms += [reading.mapping(term.get("podAffinityTerm")) for term in preferred]
    for term in terms:
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in reading.texts(term.get(name)):
                if key in labels:
                    _require(term.get("labelSelector"), {"key": key, "operator": operator, "values": [labels[key]]})


def _require(selector: Any, requirement: Object) -> None:
    """Add the requirement to the selector; no selector selects nothing and stays so."""
    if isinstance(selector, dict):
        requirements = reading.sequence(selector.get("matchExpressions"))
        if requirement not in requirements:
            selector["matchExpressions"] = [*requirements, requirement]


def _check_gates(path: str, gates: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, gate in enumerate(gates):
        name = reading.text(gate.get("name"))
        yield from syntax.check_label_key(f"{path}[{index}]", name)
        if name in names:
            yield faults.duplicate(f"{path}[{index}]", name)
        names.add(name)


def _check_node_affinity(path: str, affinity: Object) -> Iterator[FieldError]:
    required = affinity.get(_REQUIRED)
    if isinstance(required, dict):
        here = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = reading.mappings(required.get("nodeSelectorTerms"))
        if not terms:
            yield faults.required(here, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _check_node_term(f"{here}[{index}]", term, checks_values=True)
    for index, preferred in enumerate(reading.mappings(affinity.get(_PREFERRED))):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(here, preferred)
        yield from _check_node_term(
            f"{here}.preference", reading.mapping(preferred.get("preference")), checks_values=False
        )


def _check_weight(path: str, preferred: Object) -> Iterator[FieldError]:
    if not 1 <= (weight := reading.integer(preferred.get("weight"))) <= 100:
        yield faults.invalid(f"{path}.weight", weight, _WEIGHT)


def _check_node_term(path: str, term: Object, *, checks_values: bool) -> Iterator[FieldError]:
    for index, expression in enumerate(reading.mappings(term.get("matchExpressions"))):
        yield from _check_node_requirement(f"{path}.matchExpressions[{index}]", expression, checks_values=checks_values)
    for index, expression in enumerate(reading.mappings(term.get("matchFields"))):
        yield from _check_field_requirement(f"{path}.matchFields[{index}]", expression)


def _check_node_requirement(path: str, expression: Object, *, checks_values: bool) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), reading.texts(expression.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            yield faults.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield faults.forbidden(f"{path}.values", detail)
    elif operator in _NODE_OPERATORS:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield faults.required(f"{path}.values", detail)
    else:
        yield faults.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from syntax.check_label_key(f"{path}.key", reading.text(expression.get("key")))
    for index, value in enumerate(values if checks_values else ()):
        for explanation in syntax.label_value(value):
            yield faults.invalid(f"{path}.values[{index}]", value, explanation)


def _check_field_requirement(path: str, expression: Object) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), reading.texts(expression.get("values"))
    if operator not in ("In", "NotIn"):
        yield faults.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield faults.required(f"{path}.values", detail)
    if (key := expression.get("key", "")) != "metadata.name":
        yield faults.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from syntax.check_dns_subdomain(f"{path}.values[{index}]", value)


def _check_pod_affinity(path: str, affinity: Object) -> Iterator[FieldError]:
    for index, term in enumerate(reading.mappings(affinity.get(_REQUIRED))):
        yield from _check_pod_term(f"{path}.{_REQUIRED}[{index}]", term)
    for index, preferred in enumerate(reading.mappings(affinity.get(_PREFERRED))):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(here, preferred)
        yield from _check_pod_term(f"{here}.podAffinityTerm", reading.mapping(preferred.get("podAffinityTerm")))


def _check_pod_term(path: str, term: Object) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from syntax.check_label_selector(f"{path}.{name}", term.get(name))
    for namespace in reading.texts(term.get("namespaces")):
        yield from syntax.check_dns_label(f"{path}.namespace", namespace)
    yield from _check_label_keys(path, term)
    key = reading.text(term.get("topologyKey"))
    if not key:
        yield faults.required(f"{path}.topologyKey", "can not be empty")
    yield from syntax.check_label_key(f"{path}.topologyKey", key)


def _check_label_keys(path: str, term: Object) -> Iterator[FieldError]:
    match, mismatch = (reading.texts(term.get(name)) for name in ("matchLabelKeys", "mismatchLabelKeys"))
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and not isinstance(term.get("labelSelector"), dict):
            yield faults.forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from syntax.check_label_key(f"{path}.{name}[{index}]", key)
    yield from _check_selected_once(path, match, reading.mapping(term.get("labelSelector")))
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield faults.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _check_selected_once(path: str, match: list[str], selector: Object) -> Iterator[FieldError]:
    """A key of `matchLabelKeys` is in the selector once, with the pod's own value."""
    indexes = {key: index for index, key in enumerate(match)}
    selected = set(reading.text_map(selector.get("matchLabels")))
    for expression in reading.mappings(selector.get("matchExpressions")):
        key = reading.text(expression.get("key"))
        if key in indexes and key in selected:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield faults.invalid(f"{path}[{indexes[key]}]", key, detail)
        selected.add(key)


def _check_spread(path: str, constraints: list[Object]) -> Iterator[FieldError]:
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        if (skew := reading.integer(constraint.get("maxSkew"))) <= 0:
            yield faults.invalid(f"{here}.maxSkew", skew, _NOT_POSITIVE)
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable", "")
        if not key:
            yield faults.required(f"{here}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            yield faults.not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        others = constraints[index + 1 :]
        if any((other.get("topologyKey"), other.get("whenUnsatisfiable")) == (key, action) for other in others):
            yield faults.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        domains = constraint.get("minDomains")
        if domains is not None and reading.integer(domains) <= 0:
            yield faults.invalid(f"{here}.minDomains", domains, _NOT_POSITIVE)
        if domains is not None and action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield faults.invalid(f"{here}.minDomains", domains, detail)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := constraint.get(name)) is not None and policy not in ("Honor", "Ignore"):
                yield faults.not_supported(f"{here}.{name}", policy, ("Honor", "Ignore"))
        yield from _check_label_keys(here, constraint)
        yield from syntax.check_label_selector(f"{here}.labelSelector", constraint.get("labelSelector"))


def check_tolerations(path: str, tolerations: list[Object]) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        here, key = f"{path}[{index}]", reading.text(toleration.get("key"))
        operator, value = toleration.get("operator") or "", reading.text(toleration.get("value"))
        effect = toleration.get("effect") or ""
        if key:
            yield from syntax.check_label_key(f"{here}.key", key)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield faults.invalid(f"{here}.operator", operator, detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield faults.invalid(f"{here}.effect", effect, detail)
        yield from _check_toleration_value(here, operator, value)
        if effect and effect not in _EFFECTS:
            yield faults.not_supported(f"{here}.effect", effect, _EFFECTS)


def _check_toleration_value(path: str, operator: str, value: str) -> Iterator[FieldError]:
    if operator in ("", "Equal"):
        if explanations := syntax.label_value(value):
            yield faults.invalid(f"{path}.operator", value, ";".join(explanations))
    elif operator == "Exists":
        if value:
            yield faults.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield faults.not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield faults.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
