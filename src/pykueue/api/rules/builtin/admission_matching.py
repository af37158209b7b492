"""What admission policies and webhooks have in common: rules, selectors, match conditions.

Defaults and validation of Kubernetes. Expressions are compiled, so that one that cannot be
evaluated is refused at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pykueue.api import policy_expressions as expressions
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

GROUP = "admissionregistration.k8s.io"
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MOST_CONDITIONS = 64

Faults = Iterator[FieldError]


def default_match(match: Any) -> None:
    if isinstance(match, dict):
        default_selectors(match)
        default_rules(match.get("resourceRules"))
        default_rules(match.get("excludeResourceRules"))


def default_selectors(match: Object) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})


def default_rules(rules: Any) -> None:
    for rule in reading.sequence(rules):
        if isinstance(rule, dict):
            rule.setdefault("scope", "*")


def validator(check: Callable[[Object, Object | None], Faults]) -> Callable[[AdmissionRequest], ValidationResult]:
    def validate(request: AdmissionRequest) -> ValidationResult:
        if request.subresource:
            return ValidationResult()
        return ValidationResult(invalid=tuple(check(request.object, request.old)))

    return validate


def match_faults(match: Object, path: str) -> Faults:
    yield from choice_faults(match, path, "matchPolicy", ("Equivalent", "Exact"))
    for name in ("namespaceSelector", "objectSelector"):
        yield from syntax.check_label_selector(f"{path}.{name}", match.get(name) or {})
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(reading.mappings(match.get(name))):
            yield from rule_faults(rule, f"{path}.{name}[{index}]")


def rule_faults(rule: Object, path: str) -> Faults:
    names: set[str] = set()
    for index, name in enumerate(reading.texts(rule.get("resourceNames"))):
        for detail in syntax.path_segment(name):
            yield faults.invalid(f"{path}.resourceNames[{index}]", name, detail)
        if name in names:
            yield faults.duplicate(f"{path}.resourceNames[{index}]", name)
        names.add(name)
    operations = reading.texts(rule.get("operations"))
    yield from _wildcard_faults(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield faults.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from _wildcard_faults(reading.texts(rule.get("apiGroups")), f"{path}.apiGroups", "API groups")
    versions = reading.texts(rule.get("apiVersions"))
    yield from _wildcard_faults(versions, f"{path}.apiVersions", "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield faults.required(f"{path}.apiVersions[{index}]")
    yield from _resource_faults(reading.texts(rule.get("resources")), f"{path}.resources")
    if rule.get("scope", "*") not in ("*", "Cluster", "Namespaced"):
        yield faults.not_supported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _wildcard_faults(items: Sequence[str], path: str, words: str) -> Faults:
    if not items:
        yield faults.required(path)
    elif len(items) > 1 and "*" in items:
        yield faults.invalid(path, list(items), f"if '*' is present, must not specify other {words}")


def _resource_faults(names: Sequence[str], path: str) -> Faults:
    if not names:
        yield faults.required(path)
    resources_with_all: set[str] = set()
    subresources_of_all: set[str] = set()
    for index, name in enumerate(names):
        resource, slash, subresource = name.partition("/")
        if not name:
            yield faults.required(f"{path}[{index}]")
        if not slash:
            continue
        if resource in resources_with_all:
            detail = f"if '{resource}/*' is present, must not specify {name}"
            yield faults.invalid(f"{path}[{index}]", name, detail)
        if subresource in subresources_of_all:
            detail = f"if '*/{subresource}' is present, must not specify {name}"
            yield faults.invalid(f"{path}[{index}]", name, detail)
        if subresource == "*":
            resources_with_all.add(resource)
        if resource == "*":
            subresources_of_all.add(subresource)
    if len(names) > 1 and "*/*" in names:
        yield faults.invalid(path, list(names), "if '*/*' is present, must not specify other resources")
    if "*" in names and any("/" not in name and name != "*" for name in names):
        detail = "if '*' is present, must not specify other resources without subresources"
        yield faults.invalid(path, list(names), detail)


def condition_faults(conditions: Any, path: str, *, has_params: bool) -> Faults:
    listed = reading.mappings(conditions)
    if len(listed) > _MOST_CONDITIONS:
        yield faults.too_many(path, len(listed), _MOST_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(listed[:_MOST_CONDITIONS]):
        below, text = f"{path}[{index}]", reading.text(condition.get("expression"))
        if not text.strip():
            yield faults.required(f"{below}.expression")
        else:
            scope = expressions.Scope(has_params=has_params)
            yield from expression_faults(text, f"{below}.expression", scope, expressions.BOOL)
        name = reading.text(condition.get("name"))
        if not name:
            yield faults.required(f"{below}.name")
        else:
            yield from syntax.check_label_key(f"{below}.name", name)
        if name in names:
            yield faults.duplicate(f"{below}.name", name)
        names.add(name)


def expression_faults(text: str, path: str, scope: expressions.Scope, results: tuple[str, ...]) -> Faults:
    try:
        expressions.compile_expression(text, scope, results)
    except EvaluationError as error:
        yield faults.invalid(path, text, str(error))


def choice_faults(obj: Object, path: str, field: str, choices: Sequence[str]) -> Faults:
    value = obj.get(field)
    if not value:
        yield faults.required(f"{path}.{field}")
    elif value not in choices:
        yield faults.not_supported(f"{path}.{field}", value, choices)
