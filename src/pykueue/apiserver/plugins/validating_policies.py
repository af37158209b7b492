"""ValidatingAdmissionPolicies: CEL that refuses a write, warns of it or logs it.

The action Audit and audit annotations are lines in the log of the server, because it writes no
audit log.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from pykueue.api import policy_expressions as expressions
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.errors import ApiError
from pykueue.api.policy_expressions import Evaluation, PolicyExpression, Scope
from pykueue.api.scheme import AdmissionRequest, Kind, Object, Scheme
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins.admission_attributes import Attributes
from pykueue.apiserver.plugins.admission_policies import (
    AdmissionPolicy,
    ConfigurationError,
    Invocation,
    PolicyBinding,
    PolicySource,
)
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.store import Store

log = logging.getLogger(__name__)

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_INVALID = "Invalid"
_LONGEST_MESSAGE_BYTES = 5 * 1024
_LONGEST_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A validation that a request does not pass. Errors refuse whatever the binding's actions."""

    message: str
    reason: str = _INVALID
    index: int = 0
    is_refused: bool = False


class ValidatingPolicies:
    """The admission plugin."""

    def __init__(self, store: Store, scheme: Scheme, authorizer: Authorizer | None = None) -> None:
        self._authorizer = authorizer
        self._source = PolicySource(store, scheme, "validatingadmissionpolicies", _Expressions.of)

    @property
    def is_empty(self) -> bool:
        return self._source.is_empty

    def validate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> list[str]:
        if self._source.is_empty:
            return []
        attributes = Attributes.of(kind, request, call)
        warnings: list[str] = []
        refusal: ApiError | None = None
        for policy in self._source.policies_for(attributes):
            for binding, failure in self._failures(policy, attributes, request):
                actions = binding.spec.get("validationActions") or () if binding else ("Deny",)
                if "Deny" in actions or failure.is_refused:
                    refusal = refusal or _refusal(attributes, policy, binding, failure)
                if "Warn" in actions and binding is not None:
                    warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                        f"'{binding.name}': {failure.message}"
                    )
                if "Audit" in actions and binding is not None:
                    _audit(attributes, policy, binding, failure)
        if refusal is not None:
            refusal.warnings = tuple(warnings)
            raise refusal
        return warnings

    def _failures(
        self, policy: AdmissionPolicy, attributes: Attributes, request: AdmissionRequest
    ) -> Iterator[tuple[PolicyBinding | None, _Failure]]:
        for binding, invocation in self._source.invocations(policy, attributes, request.lookup):
            if isinstance(invocation, ConfigurationError):
                if not policy.fails_open:
                    yield binding, _Failure(message=str(invocation), is_refused=True)
                continue
            evaluation = invocation.evaluation(attributes, request.lookup, self._authorizer)
            for failure in self._evaluate(invocation, evaluation, attributes):
                yield binding, failure

    def _evaluate(self, invocation: Invocation, evaluation: Evaluation, attributes: Attributes) -> Iterator[_Failure]:
        policy = invocation.policy
        try:
            if not policy.program.conditions.match(evaluation):
                return
        except EvaluationError as error:
            if not policy.fails_open:
                yield _Failure(message=str(error))
            return
        compiled: _Expressions = policy.program.body
        for index, validation in enumerate(compiled.validations):
            try:
                if evaluation.run(validation.expression) is True:
                    continue
            except EvaluationError as error:
                if not policy.fails_open:
                    yield _Failure(message=str(error), index=index)
                continue
            message = validation.message(evaluation)
            yield _Failure(message=message, reason=validation.spec.get("reason") or _INVALID, index=index)
        for key, expression in compiled.annotations:
            try:
                value = evaluation.run(expression)
            except EvaluationError as error:
                if not policy.fails_open:
                    yield _Failure(message=str(error), is_refused=True)
                continue
            if isinstance(value, str) and value.strip():
                text = value.strip()[:_LONGEST_ANNOTATION]
                log.info("audit %s: %s/%s: %s", _subject(attributes), policy.name, key, json.dumps(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Validation:
    spec: Object
    expression: PolicyExpression
    message_expression: PolicyExpression | None

    @classmethod
    def of(cls, spec: Object, scope: Scope) -> "_Validation":
        of_message = dataclasses.replace(scope, has_authorizer=False)
        text = spec.get("messageExpression")
        return cls(
            spec=spec,
            expression=expressions.compile_expression(spec["expression"], scope, expressions.BOOL),
            message_expression=expressions.compile_expression(text, of_message, expressions.TEXT) if text else None,
        )

    def message(self, evaluation: Evaluation) -> str:
        """The result of messageExpression if it is usable, else `message`, else the expression."""
        if self.message_expression is not None:
            try:
                text = evaluation.run(self.message_expression)
            except EvaluationError as error:
                log.info("a messageExpression failed: %s", error)
                text = None
            if isinstance(text, str):
                text = text.strip()
                if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE_BYTES:
                    return text
        if message := str(self.spec.get("message") or "").strip():
            return message
        return f"failed expression: {self.expression.text.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expressions:
    validations: list[_Validation]
    annotations: list[tuple[str, PolicyExpression]]

    @classmethod
    def of(cls, spec: Object, scope: Scope) -> "_Expressions":
        annotations = [
            (
                annotation["key"],
                expressions.compile_expression(annotation["valueExpression"], scope, expressions.TEXT_OR_NULL),
            )
            for annotation in spec.get("auditAnnotations") or ()
        ]
        validations = [_Validation.of(validation, scope) for validation in spec.get("validations") or ()]
        return cls(validations=validations, annotations=annotations)


def _refusal(
    attributes: Attributes, policy: AdmissionPolicy, binding: PolicyBinding | None, failure: _Failure
) -> ApiError:
    with_binding = f" with binding '{binding.name}'" if binding else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{with_binding} denied request: {failure.message}"
    kind, name = attributes.kind, attributes.name
    details: Object = {"name": name, "kind": kind.plural, "causes": [{"message": message}]}
    if kind.group:
        details["group"] = kind.group
    text = f'{attributes.resource_text} "{name}" is forbidden: {message}'
    return ApiError(_CODES.get(failure.reason, 422), failure.reason, text, details)


def _audit(attributes: Attributes, policy: AdmissionPolicy, binding: PolicyBinding, failure: _Failure) -> None:
    value = {
        "message": failure.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": failure.index,
        "validationActions": binding.spec.get("validationActions"),
    }
    log.warning("audit %s: validation failure: %s", _subject(attributes), json.dumps(value))


def _subject(attributes: Attributes) -> str:
    where = f"{attributes.namespace}/" if attributes.namespace and not attributes.is_namespace else ""
    return f"{attributes.operation} {attributes.resource_text} {where}{attributes.name} by {attributes.user.name!r}"
