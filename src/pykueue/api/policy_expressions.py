"""The CEL of admission policies and webhooks: compiled once, evaluated for each request.

Validation of the objects compiles to report faults; `apiserver.plugins` compiles to evaluate. The
CEL library is loaded with the first expression, because that is slow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykueue.api import cel_tokens
from pykueue.api.cel import EvaluationError
from pykueue.api.cel_authorizer import Decide
from pykueue.api.scheme import Object

if TYPE_CHECKING:
    from pykueue.api import cel_library

_NAMES = frozenset({"object", "oldObject", "request", "namespaceObject"})
BOOL = ("BOOL",)
TEXT = ("STRING",)
TEXT_OR_NULL = ("STRING", "NULL")
ANY: tuple[str, ...] = ()
APPLY_CONFIGURATION = ("MAP",)
JSON_PATCH = ("LIST",)
_RESULT_WORDS = {
    BOOL: "bool",
    TEXT: "string",
    TEXT_OR_NULL: "one of: string, null_type",
    APPLY_CONFIGURATION: "Object",
    JSON_PATCH: "list(JSONPatch)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an expression may use besides the request and its objects."""

    has_params: bool = False
    has_authorizer: bool = True
    variables: tuple[str, ...] | None = None
    """The names of the variables before it; None if it may not use any."""

    def names(self) -> frozenset[str]:
        names = set(_NAMES)
        if self.has_params:
            names.add("params")
        if self.has_authorizer:
            names.add("authorizer")
        if self.variables is not None:
            names.add("variables")
        return frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyExpression:
    text: str
    program: "cel_library.Expression"
    variables: frozenset[str]
    """The variables of the policy that it uses."""


def compile_expression(text: str, scope: Scope, results: tuple[str, ...] = ANY) -> PolicyExpression:
    """Compile; EvaluationError in the words of Kubernetes if the expression cannot be used."""
    from pykueue.api import cel_library

    is_mutation = results in (APPLY_CONFIGURATION, JSON_PATCH)
    try:
        program = cel_library.compile_policy(cel_tokens.as_maps(text) if is_mutation else text, scope.names())
    except EvaluationError as error:
        raise EvaluationError(f"compilation failed: {error}") from None
    result = program.result_type.partition("<")[0]
    if results and result not in (*results, "DYN"):
        raise EvaluationError(f"must evaluate to {_RESULT_WORDS[results]}")
    used = cel_tokens.used_variables(text) if scope.variables is not None else set()
    for name in sorted(used.difference(scope.variables or ())):
        raise EvaluationError(f"compilation failed: undefined field '{name}'")
    return PolicyExpression(text=text, program=program, variables=frozenset(used))


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """The evaluation of one policy for one request and one parameter object.

    A variable is evaluated when the first expression uses it. If it fails, only expressions fail
    that read it.
    """

    values: Mapping[str, Any]
    variables: Mapping[str, PolicyExpression]
    decide: Decide | None = None
    _results: dict[str, Any] = field(default_factory=dict)
    _faults: dict[str, str] = field(default_factory=dict)

    def run(self, expression: PolicyExpression) -> Any:
        """The result; EvaluationError that names the expression."""
        try:
            return self._evaluate(expression)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression.text}' resulted in error: {error}") from None

    def _evaluate(self, expression: PolicyExpression) -> Any:
        from pykueue.api import cel_library

        for name in expression.variables:
            self._evaluate_variable(name)
        values = {**self.values, "variables": self._results}
        try:
            return cel_library.evaluate_with(expression.program, values, self.decide)
        except EvaluationError as error:
            for name in expression.variables:
                if str(error) == f"no such key: {name}" and name in self._faults:
                    fault = f'composited variable "{name}" fails to evaluate: {self._faults[name]}'
                    raise EvaluationError(fault) from None
            raise

    def _evaluate_variable(self, name: str) -> None:
        if name in self._results or name in self._faults:
            return
        try:
            self._results[name] = self._evaluate(self.variables[name])
        except EvaluationError as error:
            self._faults[name] = str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchConditions:
    """Expressions that must all be true; one that is false decides, even if another fails."""

    expressions: Sequence[PolicyExpression]
    fault: str = ""
    """Why the expressions could not be compiled."""

    @classmethod
    def of(cls, conditions: Sequence[Object], *, has_params: bool) -> "MatchConditions":
        scope = Scope(has_params=has_params)
        return cls(expressions=[compile_expression(condition["expression"], scope, BOOL) for condition in conditions])

    def match(self, evaluation: Evaluation) -> bool:
        faults = [self.fault] if self.fault else []
        for expression in self.expressions:
            try:
                if evaluation.run(expression) is not True:
                    return False
            except EvaluationError as error:
                faults.append(str(error))
        if faults:
            raise EvaluationError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
        return True


def compile_variables(variables: Sequence[Object], *, has_params: bool) -> dict[str, PolicyExpression]:
    """The variables of a policy in their order; each may use those before it."""
    compiled: dict[str, PolicyExpression] = {}
    for variable in variables:
        scope = Scope(has_params=has_params, variables=tuple(compiled))
        compiled[variable["name"]] = compile_expression(variable["expression"], scope)
    return compiled
