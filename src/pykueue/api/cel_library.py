"""Evaluates CEL with the CEL library and the functions that Kubernetes adds to the language.

Imported only for rules that none of our structs declares, because loading the library is slow. A
quantity is an integer number of thousandths here, which fits an int64 up to peta-units.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from pykueue.api import quantity
from pykueue.api.cel import Check, EvaluationError

_MILLI_PER_UNIT = 1000
_ANY, _BOOL, _INT, _LIST, _STRING = cel.Type.DYN, cel.Type.BOOL, cel.Type.INT, cel.Type.LIST, cel.Type.STRING
_VARIABLES = ("self", "oldSelf", "object", "oldObject", "request", "variables", "params", "namespaceObject", "device")


class CompilationError(Exception):
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


def compile_expression(text: str) -> Any:
    try:
        return _environment().compile(text)
    except RuntimeError as error:
        raise CompilationError(str(error).removeprefix("INVALID_ARGUMENT: ")) from None


def evaluate(expression: Any, value: Any, old: Any) -> Any:
    return evaluate_with(expression, {"self": value} if old is None else {"self": value, "oldSelf": old})


def evaluate_with(expression: Any, variables: dict[str, Any]) -> Any:
    """Evaluate with these variables.

    Rules have `self` and `oldSelf`; admission policies have `object`, `variables` and others.
    """
    result = expression.eval(data=variables)
    if result.type() == cel.Type.ERROR:
        raise EvaluationError(_kubernetes_words(str(result.value())))
    return result.plain_value()


def _kubernetes_words(error: str) -> str:
    if match := re.search(r'Key not found in map : "?(.*?)"?$', error):
        return f"no such key: {match[1]}"
    if match := re.search(r"Index error: index=(-?\d+)", error):
        return f"index out of bounds: {match[1]}"
    return error.partition(": ")[2] or error


@functools.cache
def _environment() -> Any:
    functions = [
        _function("isQuantity", _is_quantity, [_STRING], _BOOL),
        _function("quantity", lambda text: quantity.parse(text).milli(), [_STRING], _INT),
        *(_member(name, implementation, result) for name, implementation, result in _QUANTITY_MEMBERS),
        *(_list_function(name, implementation) for name, implementation in _LIST_FUNCTIONS),
        _member("find", _find, _STRING, receiver=_STRING, others=[_STRING]),
        _member("findAll", lambda text, pattern: re.findall(pattern, text), _LIST, receiver=_STRING, others=[_STRING]),
    ]
    return cel.NewEnv(
        variables=dict.fromkeys(_VARIABLES, _ANY),
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


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


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
