"""Compiles the expressions of CustomResourceDefinitions and the selectors of devices.

Imported only for expressions that none of our structs declares. Admission policies have variables
of their own (`policy_expressions`).
"""

import functools
import re
from typing import Any

from pykueue.api import text_cache
from pykueue.api.cel import types
from pykueue.api.cel.amounts import QuantityValue
from pykueue.api.cel.environment import Environment, Program
from pykueue.api.cel.errors import CompilationError, EvaluationError
from pykueue.api.cel.lexer import RESERVED
from pykueue.api.cel.limits import Budget

_LONGEST_SELECTOR = 10 * 1024
_ESCAPED_WORD = re.compile(r"__(\w+)__")
_ESCAPES = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
_WORDS = RESERVED | {"true", "false", "null", "in"}


def field_name(escaped: str) -> str:
    """The property of an escaped name: `__namespace__` is `namespace`, `a__dash__b` is `a-b`."""
    word = _ESCAPED_WORD.fullmatch(escaped)
    if word is not None and word[1] in _WORDS:
        return word[1]
    for escape, character in _ESCAPES:
        escaped = escaped.replace(escape, character)
    return escaped


@functools.cache
def _rule_environment() -> Environment:
    return Environment({"self": types.DYN, "oldSelf": types.DYN}, field_name=field_name)


@functools.cache
def _selector_environment() -> Environment:
    by_domain = {"attributes": types.DYN, "capacity": QuantityValue.cel_type}
    fields = {name: types.map_of(types.STRING, types.map_of(types.STRING, value)) for name, value in by_domain.items()}
    fields |= {"driver": types.STRING, "allowMultipleAllocations": types.BOOL}
    device = types.struct("kubernetes.DRADevice")
    return Environment({"device": device}, structs={device.name: fields}, has_bindings=True)


@text_cache.cached(1024, longest=4096)
def compile_rule(text: str) -> Program:
    """Compile a rule or a messageExpression of a CustomResourceDefinition."""
    return _rule_environment().compile(text)


@text_cache.cached(256, longest=4096)
def compile_selector(text: str) -> Program:
    """Compile the expression of any user that selects devices."""
    if len(text) > _LONGEST_SELECTOR:
        raise CompilationError(f"the expression is longer than {_LONGEST_SELECTOR} characters")
    program = _selector_environment().compile(text)
    if program.result_type.kind not in ("bool", "dyn"):
        raise CompilationError(f"must evaluate to bool or the unknown type, not {program.result_type}")
    return program


def run_rule(program: Program, value: Any, old: Any, budget: Budget) -> Any:
    return budget.run(program, {"self": value} if old is None else {"self": value, "oldSelf": old})


def check_rule(text: str, value: Any, old: Any, budget: Budget) -> bool:
    """Whether the rule holds; EvaluationError with the words of the API server."""
    result = run_rule(compile_rule(text), value, old, budget)
    if not isinstance(result, bool):
        raise EvaluationError(f"rule gives {type(result).__name__}, not a boolean,")
    return result
