"""What an expression may use, and how it is compiled and evaluated.

The libraries are those that Kubernetes 1.36 enables; what it does not have is refused here too.
"""

import base64
import functools
from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api.cel import formatting, literals, types, values
from pykueue.api.cel.amounts import QuantityValue, Semver, add_amounts
from pykueue.api.cel.attributes import COST, MISSING, Run
from pykueue.api.cel.authorizer import add_authorizer
from pykueue.api.cel.checker import Checker
from pykueue.api.cel.conversions import add_conversions
from pykueue.api.cel.errors import CelError, CompilationError, CostLimitError, EvaluationError, report
from pykueue.api.cel.formats import add_formats
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.limits import PER_CALL_LIMIT
from pykueue.api.cel.lists import add_lists
from pykueue.api.cel.macros import MACROS
from pykueue.api.cel.network import add_addresses, add_urls
from pykueue.api.cel.operators import add_operators
from pykueue.api.cel.optionals import add_optionals
from pykueue.api.cel.parser import parse
from pykueue.api.cel.planner import Planner
from pykueue.api.cel.strings import add_strings
from pykueue.api.cel.times import add_times
from pykueue.api.cel.types import DYN, Type
from pykueue.api.cel.values import Duration, Struct, Timestamp, TypeValue, UInt

_LIBRARIES: tuple[Callable[[Functions], None], ...] = (
    add_operators,
    add_conversions,
    add_times,
    add_strings,
    add_lists,
    add_optionals,
    add_amounts,
    add_addresses,
    add_urls,
    add_formats,
    add_authorizer,
)
_TYPE_NAMES: dict[str, tuple[str, Type]] = {
    "bool": ("bool", types.BOOL),
    "bytes": ("bytes", types.BYTES),
    "double": ("double", types.DOUBLE),
    "google.protobuf.Duration": ("google.protobuf.Duration", types.DURATION),
    "google.protobuf.Timestamp": ("google.protobuf.Timestamp", types.TIMESTAMP),
    "int": ("int", types.INT),
    "list": ("list", types.list_of(DYN)),
    "map": ("map", types.map_of(DYN, DYN)),
    "null_type": ("null_type", types.NULL),
    "optional_type": ("optional_type", types.optional_of(DYN)),
    "string": ("string", types.STRING),
    "type": ("type", types.TYPE),
    "uint": ("uint", types.UINT),
    "net.IP": ("net.IP", types.parse("net.IP")),
    "net.CIDR": ("net.CIDR", types.parse("net.CIDR")),
    "kubernetes.Quantity": ("kubernetes.Quantity", QuantityValue.cel_type),
    "kubernetes.Semver": ("kubernetes.Semver", Semver.cel_type),
}
_CONSTANTS = {name: TypeValue(text) for name, (text, _) in _TYPE_NAMES.items()}


@functools.cache
def base_functions() -> Functions:
    functions = Functions()
    for library in _LIBRARIES:
        library(functions)
    return functions


Structs = Mapping[str, Mapping[str, Type]]
"""The fields of structs by name and field."""


class Environment:
    """The variables and types of an expression.

    `has_bindings` allows `cel.bind`, which Kubernetes has for device selectors only.
    `has_mutations` adds the types `Object…` and `JSONPatch`. `field_name` reads the escaped names
    of a schema.
    """

    def __init__(
        self,
        variables: Mapping[str, Type],
        *,
        structs: Structs | None = None,
        functions: Callable[[Functions], None] | None = None,
        has_bindings: bool = False,
        has_mutations: bool = False,
        field_name: Callable[[str], str] | None = None,
    ) -> None:
        self._names = tuple(variables)
        self._types = {name: types.type_of(kind) for name, (_, kind) in _TYPE_NAMES.items()} | dict(variables)
        self._structs = structs or {}
        self._has_mutations = has_mutations
        self._field_name = field_name
        self._macros = MACROS if has_bindings else {name: macro for name, macro in MACROS.items() if name != "bind"}
        self._functions = base_functions()
        if functions is not None:
            self._functions = Functions()
            self._functions.overloads = {
                name: list(overloads) for name, overloads in base_functions().overloads.items()
            }
            functions(self._functions)

    def compile(self, text: str) -> "Program":
        """CompilationError in the words of cel-go if the expression is not valid here."""
        tree = parse(text, self._macros)
        checker = Checker(self._functions, self._types, self._field_type)
        try:
            checker.check(tree)
            faults = checker.faults or list(literals.faults(tree))
            if faults:
                raise CompilationError(report(text, faults))
            planner = Planner(self._names, _CONSTANTS, self._field_name)
            run = planner.plan(tree)
        except CelError as error:
            raise CompilationError(str(error)) from None
        except UnicodeError:
            raise CompilationError("the expression has a character that UTF-8 does not have") from None
        except RecursionError:
            raise CompilationError(report(text, [(0, "expression recursion limit exceeded: 250")])) from None
        return Program(run, self._names, planner.size, tree.type)

    def _field_type(self, struct: str, field: str) -> Type | None:
        """The type of a field; with an empty field, whether there is such a struct."""
        if self._has_mutations:
            if struct == "Object" or struct.startswith("Object."):
                return DYN
            if struct == "JSONPatch":
                return _PATCH_FIELDS.get(field)
        fields = self._structs.get(struct)
        if fields is None:
            return None
        return fields.get(field) if field else DYN


_PATCH_FIELDS = {"": DYN, "op": types.STRING, "path": types.STRING, "from": types.STRING, "value": DYN}


class Program:
    """A compiled expression."""

    __slots__ = ("_names", "_run", "_size", "result_type")

    def __init__(self, run: Run, names: tuple[str, ...], size: int, result_type: Type) -> None:
        self._run = run
        self._names = names
        self._size = size
        self.result_type = result_type

    def evaluate(self, variables: Mapping[str, Any], limit: int = PER_CALL_LIMIT) -> tuple[Any, int]:
        """The value and its cost; an error has its cost too.

        CostLimitError says that the limit was too low.
        """
        frame: list[Any] = [0, limit, *[variables.get(name, MISSING) for name in self._names]]
        frame.extend([None] * (self._size - len(frame)))
        try:
            value = self._run(frame)
            if frame[COST] > limit:
                raise CostLimitError
        except EvaluationError as error:
            error.cost = frame[COST]
            raise
        except UnicodeError:
            raise CelError("a text has a character that UTF-8 does not have") from None
        except RecursionError:
            raise CelError("the values are nested too deeply") from None
        return value, frame[COST]


def json_value(value: Any) -> Any:
    """The value as JSON, as Kubernetes writes it; EvaluationError if it has no such form."""
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {_json_key(key): json_value(item) for key, item in values.items(value)}
    if isinstance(value, Struct):
        return {name: json_value(item) for name, item in value.fields.items()}
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp | Duration):
        return formatting.text(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise EvaluationError(f"a value of type {values.type_name(value)} cannot be written as JSON")


def _json_key(key: Any) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"map key {key} is of type {values.type_name(key)}, not string")
    return key
