"""Evaluates CEL with the CEL library and the functions that Kubernetes adds to the language.

Imported only for rules that none of our structs declares, because loading the library is slow. A
quantity is an integer number of thousandths here, which fits an int64 up to peta-units.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from pykueue.api import cel_authorizer, cel_cost, quantity, text_cache, text_formats
from pykueue.api.cel import Check, EvaluationError
from pykueue.api.cel_authorizer import Decide

_MILLI_PER_UNIT = 1000
_ANY, _BOOL, _INT, _LIST, _STRING = cel.Type.DYN, cel.Type.BOOL, cel.Type.INT, cel.Type.LIST, cel.Type.STRING
_MAP = cel.Type.MAP
_VARIABLES = frozenset(
    {"self", "oldSelf", "object", "oldObject", "request", "variables", "params", "namespaceObject", "device"}
)

_AMPLIFIER = re.compile(r"\b(?:map|filter|bind|replace|join|format|transform\w*)\s*\(")
_TEXT_AMPLIFIER = re.compile(r"\b(?:replace|join|format|split|findAll)\s*\(")
_LONGEST_SELECTOR = 10 * 1024
_LONGEST_AMPLIFYING_SELECTOR = 1024
_MOST_AMPLIFIERS = 2
_LONGEST_AMPLIFIED_TEXT = 4096
_LONGEST_CONCATENATED_TEXT = 64 * 1024
_MOST_AMPLIFIED_ITEMS = 500
_TOO_EXPENSIVE = "operation cancelled: actual cost limit exceeded"
LARGEST_TEXT = 3 * 1024 * 1024


class CompilationError(EvaluationError):
    """The text is not CEL; the message says where."""


def compile_rule(text: str) -> Check:
    """A check of the rule; it raises EvaluationError with the words of the API server."""
    expression = compile_expression(text)

    def run(value: Any, old: Any) -> bool:
        result = evaluate(expression, value, old)
        if not isinstance(result, bool):
            raise EvaluationError(f"rule gives {type(result).__name__}, not a boolean,")
        return result

    return run


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `is_amplifying` says that its cost may outgrow its values."""

    program: Any
    is_amplifying: bool
    longest_text: int = _LONGEST_AMPLIFIED_TEXT
    """The longest text that an amplifying expression may read."""
    loops: cel_cost.Loops | None = None

    @property
    def result_type(self) -> str:
        """BOOL, STRING, LIST<…>, MAP<…> …; DYN if it is decided when the expression runs."""
        return str(self.program.return_type().name())


@text_cache.cached(1024, longest=4096)
def compile_expression(text: str) -> Expression:
    """Compile a rule of a CustomResourceDefinition, which only an administrator may write."""
    program = _compiled(text, _VARIABLES)
    is_amplifying = _AMPLIFIER.search(text) is not None
    return Expression(program, is_amplifying, loops=cel_cost.loops_of(text))


def compile_policy(text: str, names: frozenset[str]) -> Expression:
    """Compile an expression of an admission policy, which only an administrator may write.

    `names` are the variables that it may use. A policy reads objects of any kind, also long
    texts, unless its functions can copy them many times.
    """
    longest_text = LARGEST_TEXT
    if _TEXT_AMPLIFIER.search(text):
        longest_text = _LONGEST_AMPLIFIED_TEXT
    elif "+" in text:
        longest_text = _LONGEST_CONCATENATED_TEXT
    program = _compiled(text, names)
    return Expression(program, _AMPLIFIER.search(text) is not None, longest_text, cel_cost.loops_of(text))


def _compiled(text: str, names: frozenset[str]) -> Any:
    try:
        return _environment(names).compile(text)
    except RuntimeError as error:
        message = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CompilationError(message) from None


def compile_selector(text: str) -> Expression:
    """Compile an expression of any user, such as the device selector of a ResourceClaim.

    Kubernetes estimates what an expression costs. Here functions whose results may be longer than
    their arguments are few and stand in short expressions.
    """
    if len(text) > _LONGEST_SELECTOR:
        raise CompilationError(f"the expression is longer than {_LONGEST_SELECTOR} characters")
    amplifiers = len(_AMPLIFIER.findall(text))
    if amplifiers > _MOST_AMPLIFIERS or (amplifiers and len(text) > _LONGEST_AMPLIFYING_SELECTOR):
        raise CompilationError(
            f"the expression may cost too much: use at most {_MOST_AMPLIFIERS} of map, filter, bind, replace, join, "
            f"format and transform, in at most {_LONGEST_AMPLIFYING_SELECTOR} characters"
        )
    return compile_expression(text)


def evaluate(expression: Expression, value: Any, old: Any) -> Any:
    return evaluate_with(expression, {"self": value} if old is None else {"self": value, "oldSelf": old})


def evaluate_with(expression: Expression, variables: dict[str, Any], decide: Decide | None = None) -> Any:
    """Evaluate with these variables.

    Rules have `self` and `oldSelf`; admission policies have `object`, `variables` and others.
    `decide` answers the checks of the variable `authorizer`.
    """
    if expression.is_amplifying:
        _check_sizes(variables, expression.longest_text)
    if expression.loops is not None and cel_cost.exceeds(expression.loops, variables):
        raise EvaluationError(_TOO_EXPENSIVE)
    token = cel_authorizer.DECIDE.set(decide)
    try:
        result = expression.program.eval(data=variables)
        if result.type() == cel.Type.ERROR:
            raise EvaluationError(_kubernetes_words(str(result.value())))
        return result.plain_value()
    except (RuntimeError, RecursionError, ValueError, OverflowError, TypeError) as error:
        raise EvaluationError(_out_of_budget(str(error))) from None
    finally:
        cel_authorizer.DECIDE.reset(token)


def _out_of_budget(error: str) -> str:
    is_budget = "budget" in error
    return _TOO_EXPENSIVE if is_budget else error.partition(": ")[2] or error


def _check_sizes(variables: dict[str, Any], longest_text: int) -> None:
    """Refuse large values: the library builds the list of `map` in quadratic time."""
    stack: list[Any] = [variables]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if len(value) > longest_text:
                raise EvaluationError(f"the rule cannot read a text of more than {longest_text} characters")
        elif isinstance(value, dict | list):
            if len(value) > _MOST_AMPLIFIED_ITEMS:
                raise EvaluationError(f"the rule cannot read more than {_MOST_AMPLIFIED_ITEMS} items of a list or map")
            stack += value.values() if isinstance(value, dict) else value


def _kubernetes_words(error: str) -> str:
    if match := re.search(r'Key not found in map : "?(.*?)"?$', error):
        return f"no such key: {match[1]}"
    if match := re.search(r"Index error: index=(-?\d+)", error):
        return f"index out of bounds: {match[1]}"
    return error.partition(": ")[2] or error


@functools.cache
def _environment(names: frozenset[str]) -> Any:
    functions = [
        _function("isQuantity", _is_quantity, [_STRING], _BOOL),
        _function("quantity", lambda text: quantity.parse(text).milli(), [_STRING], _INT),
        *(_member(name, implementation, result) for name, implementation, result in _QUANTITY_MEMBERS),
        *(_list_function(name, implementation) for name, implementation in _LIST_FUNCTIONS),
        _member("find", _find, _STRING, receiver=_STRING, others=[_STRING]),
        _member("findAll", _find_all, _LIST, receiver=_STRING, others=[_STRING]),
        *(_function(f"sets.{name}", implementation, [_LIST, _LIST], _BOOL) for name, implementation in _SET_FUNCTIONS),
        _function("jsonpatch.escapeKey", _escaped_key, [_STRING], _STRING),
        *(_authorizer_step(name, implementation) for name, implementation in cel_authorizer.STEPS),
        _member("allowed", cel_authorizer.is_allowed, _BOOL, receiver=_MAP, others=[]),
        _member("reason", cel_authorizer.reason, _STRING, receiver=_MAP, others=[]),
        _member("errored", lambda _: False, _BOOL, receiver=_MAP, others=[]),
    ]
    return cel.NewEnv(
        variables=dict.fromkeys(names, _ANY),
        functions=functions,
        extensions=[
            ext_bindings.ExtBindings(),
            ext_encoders.ExtEncoders(),
            ext_math.ExtMath(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
        ],
    )


def _function(name: str, implementation: Callable[..., Any], parameters: Sequence[Any], result: Any) -> Any:
    return cel.FunctionDecl(
        name, [cel.Overload(f"{name}_kubernetes", return_type=result, parameters=parameters, impl=implementation)]
    )


def _member(
    name: str,
    implementation: Callable[..., Any],
    result: Any,
    *,
    receiver: Any = _INT,
    others: Sequence[Any] | None = None,
) -> Any:
    takes = [receiver, *(others if others is not None else [_INT] * (implementation.__code__.co_argcount - 1))]
    overload = cel.Overload(
        f"{name}_kubernetes", return_type=result, parameters=takes, is_member=True, impl=implementation
    )
    return cel.FunctionDecl(name, [overload])


def _list_function(name: str, implementation: Callable[..., Any]) -> Any:
    return _member(name, implementation, _ANY, receiver=_LIST, others=[])


def _authorizer_step(name: str, implementation: Callable[..., Any]) -> Any:
    texts = [_STRING] * (implementation.__code__.co_argcount - 1)
    return _member(name, implementation, _MAP, receiver=_MAP, others=texts)


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _find(text: str, pattern: str) -> str:
    match = text_formats.regular_expression(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match[0] for match in text_formats.regular_expression(pattern).finditer(text)]


_QUANTITY_MEMBERS: tuple[tuple[str, Callable[..., Any], Any], ...] = (
    ("isLessThan", lambda left, right: left < right, _BOOL),
    ("isGreaterThan", lambda left, right: left > right, _BOOL),
    ("compareTo", lambda left, right: (left > right) - (left < right), _INT),
    ("add", lambda left, right: left + right, _INT),
    ("sub", lambda left, right: left - right, _INT),
    ("sign", lambda own: (own > 0) - (own < 0), _INT),
    ("isInteger", lambda own: own % _MILLI_PER_UNIT == 0, _BOOL),
    ("asInteger", lambda own: own // _MILLI_PER_UNIT, _INT),
    ("asApproximateFloat", lambda own: own / _MILLI_PER_UNIT, cel.Type.DOUBLE),
)
_LIST_FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("sum", sum),
    ("min", min),
    ("max", max),
    ("isSorted", lambda items: list(items) == sorted(items)),
)
_SET_FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("contains", lambda items, others: all(item in items for item in others)),
    ("intersects", lambda items, others: any(item in items for item in others)),
    (
        "equivalent",
        lambda items, others: all(item in items for item in others) and all(item in others for item in items),
    ),
)
