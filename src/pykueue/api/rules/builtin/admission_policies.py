"""Kubernetes' defaults and validation of admission policies and their bindings."""

import re

from pykueue.api import policy_expressions as expressions
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import admission_matching as matching
from pykueue.api.rules.builtin.admission_matching import Faults
from pykueue.api.scheme import AdmissionRequest, Object

_MUTATED_OPERATIONS = ("*", "CREATE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_ACTIONS = ("Audit", "Deny", "Warn")
_MOST_ANNOTATIONS = 20
_LONGEST_ANNOTATION_EXPRESSION = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


def default_policy(request: AdmissionRequest) -> None:
    spec = reading.mapping(request.object.get("spec"))
    if spec:
        spec.setdefault("failurePolicy", "Fail")
        matching.default_match(spec.get("matchConstraints"))


def default_mutating_policy(request: AdmissionRequest) -> None:
    default_policy(request)
    spec = reading.mapping(request.object.get("spec"))
    if spec:
        spec.setdefault("reinvocationPolicy", "Never")


def default_binding(request: AdmissionRequest) -> None:
    spec = reading.mapping(request.object.get("spec"))
    matching.default_match(spec.get("matchResources"))


def _policy_faults(policy: Object, _old: Object | None) -> Faults:
    spec = reading.mapping(policy.get("spec"))
    yield from _head_faults(spec)
    yield from _variable_faults(spec)
    validations, annotations = (reading.mappings(spec.get(name)) for name in ("validations", "auditAnnotations"))
    if not validations and not annotations:
        for name in ("validations", "auditAnnotations"):
            yield faults.required(f"spec.{name}", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(validations):
        yield from _validation_faults(spec, validation, f"spec.validations[{index}]")
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield faults.invalid("spec.auditAnnotations", annotations, detail)
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", reading.text(annotation.get("key"))
        name = reading.text(reading.at(policy, "metadata", "name"))
        yield from syntax.check_label_key(f"{path}.key", f"{name}/{key}")
        yield from _annotation_faults(spec, annotation, path)
        if key in keys:
            yield faults.duplicate(f"{path}.key", key)
        keys.add(key)


def _mutating_policy_faults(policy: Object, _old: Object | None) -> Faults:
    spec = reading.mapping(policy.get("spec"))
    yield from _head_faults(spec)
    yield from _mutated_operation_faults(spec.get("matchConstraints"), "spec.matchConstraints")
    yield from _variable_faults(spec)
    mutations = reading.mappings(spec.get("mutations"))
    if not mutations:
        yield faults.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation_faults(spec, mutation, f"spec.mutations[{index}]")
    yield from matching.choice_faults(spec, "spec", "reinvocationPolicy", ("IfNeeded", "Never"))


def _head_faults(spec: Object) -> Faults:
    yield from matching.choice_faults(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
    if spec.get("paramKind") is not None:
        yield from _param_kind_faults(reading.mapping(spec.get("paramKind")))
    match = spec.get("matchConstraints")
    if not isinstance(match, dict):
        yield faults.required("spec.matchConstraints")
    else:
        yield from matching.match_faults(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield faults.required("spec.matchConstraints.resourceRules")
    has_params = spec.get("paramKind") is not None
    yield from matching.condition_faults(spec.get("matchConditions"), "spec.matchConditions", has_params=has_params)


def _param_kind_faults(param_kind: Object) -> Faults:
    path, api_version = "spec.paramKind", reading.text(param_kind.get("apiVersion"))
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield faults.required(f"{path}.apiVersion")
    elif api_version.count("/") > 1:
        yield faults.invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        for text, check in ((group, syntax.dns_subdomain), (version, syntax.dns_1035_label)):
            if text and (wrong := check(text)):
                yield faults.invalid(f"{path}.apiVersion", text, ",".join(wrong))
        if not version:
            yield faults.invalid(f"{path}.apiVersion", api_version, "version must be specified")
    kind = reading.text(param_kind.get("kind"))
    if not kind:
        yield faults.required(f"{path}.kind")
    elif wrong := syntax.dns_1035_label(kind.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
        yield faults.invalid(f"{path}.kind", kind, detail)


def _scope(spec: Object, *, before: int | None = None, has_authorizer: bool = True) -> expressions.Scope:
    """With the variables of the policy, or only those before one of them."""
    has_params = spec.get("paramKind") is not None
    variables = reading.mappings(spec.get("variables"))[:before]
    variable_types = expressions.variable_types(variables, has_params=has_params)
    return expressions.Scope(has_params=has_params, variables=variable_types, has_authorizer=has_authorizer)


def _variable_faults(spec: Object) -> Faults:
    for index, variable in enumerate(reading.mappings(spec.get("variables"))):
        path, name = f"spec.variables[{index}]", reading.text(variable.get("name"))
        if not name.strip():
            yield faults.required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            yield faults.invalid(f"{path}.name", name, "must be a valid CEL identifier")
        text = reading.text(variable.get("expression"))
        if not text.strip():
            yield faults.required(f"{path}.expression", "expression is not specified")
        else:
            yield from matching.expression_faults(text, f"{path}.expression", _scope(spec, before=index), ())


def _validation_faults(spec: Object, validation: Object, path: str) -> Faults:
    text = reading.text(validation.get("expression"))
    if not text.strip():
        yield faults.required(f"{path}.expression", "expression is not specified")
    else:
        scope = _scope(spec)
        yield from matching.expression_faults(text, f"{path}.expression", scope, expressions.BOOL)
    message_expression = reading.text(validation.get("messageExpression"))
    if message_expression and not message_expression.strip():
        yield faults.invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified")
    elif message_expression:
        scope = _scope(spec, has_authorizer=False)
        yield from matching.expression_faults(message_expression, f"{path}.messageExpression", scope, expressions.TEXT)
    message = reading.text(validation.get("message"))
    if message and not message.strip():
        yield faults.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield faults.invalid(f"{path}.message", message, "must not contain line breaks")
    if validation.get("reason") is not None and validation["reason"] not in _REASONS:
        yield faults.not_supported(f"{path}.reason", validation["reason"], _REASONS)


def _annotation_faults(spec: Object, annotation: Object, path: str) -> Faults:
    text = reading.text(annotation.get("valueExpression"))
    if not text.strip():
        yield faults.required(f"{path}.valueExpression", "valueExpression is not specified")
    elif len(text.strip()) > _LONGEST_ANNOTATION_EXPRESSION:
        detail = f"must not exceed {_LONGEST_ANNOTATION_EXPRESSION} bytes in length"
        yield faults.required(f"{path}.valueExpression", detail)
    else:
        scope = _scope(spec)
        yield from matching.expression_faults(text, f"{path}.valueExpression", scope, expressions.TEXT_OR_NULL)


def _mutation_faults(spec: Object, mutation: Object, path: str) -> Faults:
    fields = {
        "ApplyConfiguration": ("applyConfiguration", expressions.APPLY_CONFIGURATION),
        "JSONPatch": ("jsonPatch", expressions.JSON_PATCH),
    }
    patch_type = mutation.get("patchType")
    if not patch_type:
        yield faults.required(f"{path}.patchType")
        return
    if patch_type not in fields:
        yield faults.not_supported(f"{path}.patchType", patch_type, sorted(fields))
        return
    for name, (field, results) in fields.items():
        if name != patch_type:
            if mutation.get(field) is not None:
                detail = f"must not be specified when patchType is {patch_type}"
                yield faults.invalid(f"{path}.{field}", f"{{{field}}}", detail)
        elif mutation.get(field) is None:
            yield faults.required(f"{path}.{field}", f"must be specified when patchType is {patch_type}")
        else:
            text = reading.text(reading.at(mutation, field, "expression"))
            if not text.strip():
                yield faults.required(f"{path}.{field}.expression")
            else:
                scope = _scope(spec)
                yield from matching.expression_faults(text, f"{path}.{field}.expression", scope, results)


def _binding_faults(binding: Object, _old: Object | None) -> Faults:
    spec = reading.mapping(binding.get("spec"))
    yield from _binding_head_faults(spec)
    path, actions = "spec.validationActions", reading.texts(spec.get("validationActions"))
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield faults.not_supported(f"{path}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield faults.duplicate(f"{path}[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield faults.invalid(path, actions, detail)
    if not actions:
        yield faults.required(path, "at least one validation action is required")


def _mutating_binding_faults(binding: Object, _old: Object | None) -> Faults:
    spec = reading.mapping(binding.get("spec"))
    yield from _binding_head_faults(spec)
    yield from _mutated_operation_faults(spec.get("matchResources"), "spec.matchResources")


def _mutated_operation_faults(match: object, path: str) -> Faults:
    for rule in reading.mappings(reading.at(match, "resourceRules")):
        for operation in reading.texts(rule.get("operations")):
            if operation not in _MUTATED_OPERATIONS:
                yield faults.not_supported(f"{path}.resourceRules.operations", operation, _MUTATED_OPERATIONS)


def _binding_head_faults(spec: Object) -> Faults:
    name = reading.text(spec.get("policyName"))
    if not name:
        yield faults.required("spec.policyName")
    else:
        yield from syntax.check_dns_subdomain("spec.policyName", name)
    if isinstance(spec.get("paramRef"), dict):
        yield from _param_ref_faults(spec["paramRef"], "spec.paramRef")
    if isinstance(spec.get("matchResources"), dict):
        yield from matching.match_faults(spec["matchResources"], "spec.matchResources")


def _param_ref_faults(reference: Object, path: str) -> Faults:
    name, selector = reading.text(reference.get("name")), reference.get("selector")
    for detail in syntax.path_segment(name) if name else ():
        yield faults.invalid(f"{path}.name", name, detail)
    if name and selector is not None:
        for field in ("name", "selector"):
            yield faults.forbidden(f"{path}.{field}", "name and selector are mutually exclusive")
    if selector is not None:
        yield from syntax.check_label_selector(f"{path}.selector", selector)
    if not name and selector is None:
        yield faults.required(path, "one of name or selector must be specified")
    yield from matching.choice_faults(reference, path, "parameterNotFoundAction", ("Deny", "Allow"))


validate_policy = matching.validator(_policy_faults)
validate_mutating_policy = matching.validator(_mutating_policy_faults)
validate_binding = matching.validator(_binding_faults)
validate_mutating_binding = matching.validator(_mutating_binding_faults)
