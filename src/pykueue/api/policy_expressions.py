"""The CEL of admission policies and webhooks: compiled once, evaluated for each request.

Validation of the objects compiles to report faults; `apiserver.plugins` compiles to evaluate. The
interpreter is loaded with the first expression.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.limits import Budget
from pykueue.api.scheme import Object

if TYPE_CHECKING:
    from pykueue.api.cel.environment import Environment, Program
    from pykueue.api.cel.types import Type

_NAMES = ("object", "oldObject", "namespaceObject")
_VARIABLES = "kubernetes.variables"
BOOL = ("bool",)
TEXT = ("string",)
TEXT_OR_NULL = ("string", "null")
ANY: tuple[str, ...] = ()
APPLY_CONFIGURATION = ("Object",)
JSON_PATCH = ("list(JSONPatch)",)
_RESULT_WORDS: dict[tuple[str, ...], str] = {TEXT_OR_NULL: "one of: string, null_type"}
_LONGEST_CACHED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an expression may use besides the request and its objects."""

    has_params: bool = False
    has_authorizer: bool = True
    variables: "tuple[tuple[str, Type], ...] | None" = None
    """The names and types of the variables before it; None if it may not use any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyExpression:
    text: str
    program: "Program"

    @property
    def type(self) -> "Type":
        return self.program.result_type


def compile_expression(text: str, scope: Scope, results: tuple[str, ...] = ANY) -> PolicyExpression:
    """Compile; EvaluationError in the words of Kubernetes if the expression cannot be used."""
    is_mutation = results in (APPLY_CONFIGURATION, JSON_PATCH)
    if len(text) <= _LONGEST_CACHED:
        expression = _compile_cached(text, scope, is_mutation)
    else:
        expression = _compile(text, scope, is_mutation)
    if results and str(expression.type) not in (*results, "dyn"):
        raise EvaluationError(f"must evaluate to {_RESULT_WORDS.get(results, results[0])}")
    return expression


def _compile(text: str, scope: Scope, is_mutation: bool) -> PolicyExpression:  # noqa: FBT001 - a key of a cache
    try:
        return PolicyExpression(text=text, program=_environment(scope, is_mutation).compile(text))
    except EvaluationError as error:
        raise EvaluationError(f"compilation failed: {error}") from None


_compile_cached = functools.lru_cache(maxsize=1024)(_compile)


@functools.lru_cache(maxsize=256)
def _environment(scope: Scope, is_mutation: bool) -> "Environment":  # noqa: FBT001 - a key of a cache
    from pykueue.api.cel import environment, mutations, request_types, types
    from pykueue.api.cel.authorizer import AUTHORIZER, RESOURCE_CHECK

    names: dict[str, Type] = dict.fromkeys(_NAMES, types.DYN) | {"request": request_types.REQUEST}
    structs: dict[str, Mapping[str, Type]] = dict(request_types.STRUCTS)
    if scope.has_params:
        names["params"] = types.DYN
    if scope.has_authorizer:
        names |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    if scope.variables is not None:
        names["variables"] = types.struct(_VARIABLES)
        structs[_VARIABLES] = dict(scope.variables)
    return environment.Environment(
        names,
        structs=structs,
        functions=mutations.add_mutations if is_mutation else None,
        has_mutations=is_mutation,
    )


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """The evaluation of one policy for one request and one parameter object.

    A variable is evaluated when an expression reads it for the first time. If it fails, only
    expressions fail that read it. All expressions have one budget.
    """

    values: Mapping[str, Any]
    variables: Mapping[str, PolicyExpression]
    budget: Budget = field(default_factory=Budget)
    _results: dict[str, Any] = field(default_factory=dict)
    _faults: dict[str, EvaluationError] = field(default_factory=dict)

    def run(self, expression: PolicyExpression) -> Any:
        """The result; EvaluationError that names the expression."""
        try:
            return self._evaluate(expression)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression.text}' resulted in error: {error}") from None

    def _evaluate(self, expression: PolicyExpression) -> Any:
        from pykueue.api.cel.values import LazyFields

        values = {**self.values, "variables": LazyFields(self._variable)}
        return self.budget.run(expression.program, values)

    def _variable(self, name: str) -> Any:
        from pykueue.api.cel.errors import CelError

        if name not in self._results and name not in self._faults:
            try:
                self._results[name] = self._evaluate(self.variables[name])
            except EvaluationError as error:
                self._faults[name] = error
        if name in self._faults:
            message = f'composited variable "{name}" fails to evaluate: {self._faults[name]}'
            raise CelError(message)
        return self._results[name]


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
        typed = tuple((name, expression.type) for name, expression in compiled.items())
        scope = Scope(has_params=has_params, variables=typed)
        compiled[variable["name"]] = compile_expression(variable["expression"], scope)
    return compiled


def variable_types(variables: Sequence[Object], *, has_params: bool) -> "tuple[tuple[str, Type], ...]":
    """The names and types of variables; one that cannot be compiled may have any type."""
    from pykueue.api.cel.types import DYN

    typed: tuple[tuple[str, Type], ...] = ()
    for variable in variables:
        name, text = (str(variable.get(field) or "") for field in ("name", "expression"))
        try:
            kind = compile_expression(text, Scope(has_params=has_params, variables=typed)).type
        except EvaluationError:
            kind = DYN
        typed = (*typed, (name, kind))
    return typed
