"""Finds the types of an expression and the overloads of its calls, as cel-go does.

What Kubernetes refuses is refused here, in the same words: names that are not declared, calls that
no overload fits, fields that a type does not have.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from pykueue.api.cel import types
from pykueue.api.cel.functions import Functions, Overload
from pykueue.api.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Conditional,
    Entry,
    Expr,
    Ident,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapLiteral,
    OptionalMap,
    Select,
    StructLiteral,
)
from pykueue.api.cel.types import BOOL, DYN, ERROR, INT, STRING, Type
from pykueue.api.cel.values import UInt

FieldType = Callable[[str, str], Type | None]
"""The type of a field of a struct, None if the struct does not have it."""

_LITERAL_TYPES: dict[type, Type] = {
    type(None): types.NULL,
    bool: BOOL,
    int: INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: STRING,
    bytes: types.BYTES,
}


class Checker:
    """Checks one expression. `faults` are the places and messages of what is wrong."""

    def __init__(self, functions: Functions, names: Mapping[str, Type], field_type: FieldType) -> None:
        self.faults: list[tuple[int, str]] = []
        self._functions = functions
        self._names = names
        self._field_type = field_type
        self._scopes: list[dict[str, Type]] = []
        self._substitution = types.Substitution()

    def check(self, node: Expr) -> None:
        """Set the types of the node and of all nodes below."""
        self._visit(node)
        self._finish(node)

    def _finish(self, node: Expr) -> None:
        for part in _walk(node):
            part.type = self._substitution.apply(part.type, to_dyn=True)

    def _visit(self, node: Expr) -> Type:
        node.type = self._VISITORS[type(node)](self, node)
        return node.type

    def _fault(self, node: Expr, message: str) -> Type:
        self.faults.append((node.position, message))
        return ERROR

    def _undeclared(self, node: Expr, name: str) -> Type:
        return self._fault(node, f"undeclared reference to '{name.lstrip('.')}' (in container '')")

    def _mismatch(self, node: Expr, expected: Type, actual: Type) -> Type:
        expected, actual = (self._substitution.apply(part, to_dyn=False) for part in (expected, actual))
        return self._fault(node, f"expected type '{expected}' but found '{actual}'")

    def _lookup(self, name: str) -> Type | None:
        if not name.startswith("."):
            for scope in reversed(self._scopes):
                if name in scope:
                    return scope[name]
        return self._names.get(name.lstrip("."))

    def _literal(self, node: Literal) -> Type:
        return _LITERAL_TYPES[type(node.value)]

    def _ident(self, node: Ident) -> Type:
        actual = self._lookup(node.name)
        return actual if actual is not None else self._undeclared(node, node.name)

    def _select(self, node: Select) -> Type:
        name = "" if node.is_test or node.is_optional else qualified_name(node)
        if name and name.partition(".")[0] not in (local for scope in self._scopes for local in scope):
            actual = self._names.get(name.lstrip("."))
            if actual is not None:
                return actual
        operand, is_optional = types.unwrapped(self._substitution.apply(self._visit(node.operand)))
        result = self._field(node, operand)
        if node.is_test:
            return BOOL
        return types.optional_of(result) if is_optional or node.is_optional else result

    def _field(self, node: Select, operand: Type) -> Type:
        if operand.kind == "map":
            return operand.parameters[1]
        if operand.kind == "struct":
            actual = self._field_type(operand.name, node.field)
            return actual if actual is not None else self._fault(node, f"undefined field '{node.field}'")
        if operand.kind == "param":
            self._substitution.is_assignable(DYN, operand)
        elif operand.kind not in ("dyn", "error"):
            self._fault(node, f"type '{operand}' does not support field selection")
        return DYN

    def _index(self, node: Index) -> Type:
        arguments = (self._visit(node.operand), self._visit(node.index))
        name = "_[?_]" if node.is_optional else "_[_]"
        return self._resolve(node, name, arguments, is_member=False)[0]

    def _call(self, node: Call) -> Type:
        arguments = [self._visit(argument) for argument in node.args]
        name = node.function
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix and f"{prefix}.{name}".lstrip(".") in self._functions.overloads:
                node.function = name = f"{prefix}.{name}".lstrip(".")
                node.target = None
        if node.target is not None:
            arguments.insert(0, self._visit(node.target))
        name = name.lstrip(".")
        if name not in self._functions.overloads or (name.startswith("@") and name != "@in" and node.target is None):
            return self._undeclared(node, name)
        node.function = name
        result, node.overloads = self._resolve(node, name, tuple(arguments), is_member=node.target is not None)
        is_operator = not name[0].isalpha() or name == "size"
        node.candidates = self._with_arity(name, node) if is_operator else node.overloads
        return result

    def _with_arity(self, name: str, node: Call) -> list[Overload]:
        count, is_member = len(node.args) + (node.target is not None), node.target is not None
        return [
            overload
            for overload in self._functions.overloads[name]
            if overload.is_member == is_member and len(overload.parameters) == count
        ]

    def _resolve(
        self, node: Expr, name: str, arguments: tuple[Type, ...], *, is_member: bool
    ) -> tuple[Type, list[Overload]]:
        """The type of the result and the overloads that fit."""
        fitting: list[Overload] = []
        result: Type | None = None
        for overload in self._functions.overloads[name]:
            if overload.is_member != is_member or len(overload.parameters) != len(arguments):
                continue
            signature = (*overload.parameters, overload.result)
            *parameters, of_result = types.instantiated(signature, self._substitution)
            if not self._substitution.are_assignable(arguments, tuple(parameters)):
                continue
            fitting.append(overload)
            of_result = self._substitution.apply(of_result)
            if result is None:
                result = of_result
            elif result.kind != "dyn" and result != of_result:
                result = DYN
        if result is None:
            return self._no_overload(node, name, arguments, is_member=is_member), []
        return result, fitting

    def _no_overload(self, node: Expr, name: str, arguments: tuple[Type, ...], *, is_member: bool) -> Type:
        texts = [str(self._substitution.apply(argument, to_dyn=True)) for argument in arguments]
        receiver = f"{texts.pop(0)}." if is_member else ""
        signature = f"{receiver}({', '.join(texts)})"
        return self._fault(node, f"found no matching overload for '{name}' applied to '{signature}'")

    def _logical(self, node: Logical) -> Type:
        is_bool = True
        for term in node.terms:
            actual = self._visit(term)
            if not self._substitution.is_assignable(actual, BOOL):
                self._mismatch(term, BOOL, actual)
                is_bool = False
        return BOOL if is_bool else ERROR

    def _conditional(self, node: Conditional) -> Type:
        arguments = tuple(self._visit(part) for part in (node.condition, node.truthy, node.falsy))
        return self._resolve(node, "_?_:_", arguments, is_member=False)[0]

    def _list(self, node: ListLiteral) -> Type:
        item_type: Type | None = None
        for position, item in enumerate(node.items):
            actual = self._visit(item)
            if position in node.optionals:
                actual = self._value_of_optional(item, actual)
            item_type = self._joined(item_type, actual)
        return types.list_of(item_type or self._substitution.fresh())

    def _value_of_optional(self, node: Expr, actual: Type) -> Type:
        value, is_optional = types.unwrapped(self._substitution.apply(actual))
        if not is_optional and value.kind != "dyn":
            self._mismatch(node, types.optional_of(value), value)
        return value

    def _joined(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._substitution.is_assignable(previous, current):
            return previous if types.is_less_specific(previous, current) else current
        return DYN

    def _entry_value(self, entry: Entry) -> Type:
        actual = self._visit(entry.value)
        return self._value_of_optional(entry.value, actual) if entry.is_optional else actual

    def _map(self, node: MapLiteral) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            key_type = self._joined(key_type, self._visit(entry.key))
            value_type = self._joined(value_type, self._entry_value(entry))
        return types.map_of(key_type or self._substitution.fresh(), value_type or self._substitution.fresh())

    def _struct(self, node: StructLiteral) -> Type:
        name = node.name.lstrip(".")
        struct = types.struct(name)
        if self._field_type(name, "") is None:
            for entry in node.entries:
                self._visit(entry.value)
            return self._undeclared(node, name)
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            field = str(entry.key.value)
            actual, expected = self._entry_value(entry), self._field_type(name, field)
            if expected is None:
                self._fault(entry.key, f"undefined field '{field}'")
            elif not self._substitution.is_assignable(expected, actual):
                message = f"expected type of field '{field}' is '{expected}' but provided type is '{actual}'"
                self._fault(entry.key, message)
        return struct

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._substitution.apply(self._visit(node.range))
        variables = self._loop_variables(node, over)
        self._scopes.append(dict(zip(node.variables, variables, strict=True)))
        condition = self._visit(node.condition) if node.condition is not None else BOOL
        body = self._visit(node.body)
        self._scopes.pop()
        return self._loop_result(node, variables, condition, body)

    def _loop_variables(self, node: Comprehension, over: Type) -> tuple[Type, ...]:
        is_pair = len(node.variables) == 2
        if over.kind == "list":
            return (INT, over.parameters[0]) if is_pair else over.parameters
        if over.kind == "map":
            return over.parameters if is_pair else over.parameters[:1]
        if over.kind == "param":
            self._substitution.is_assignable(DYN, over)
        elif over.kind not in ("dyn", "error"):
            self._fault(
                node.range,
                f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        return (DYN,) * len(node.variables)

    def _loop_result(self, node: Comprehension, variables: tuple[Type, ...], condition: Type, body: Type) -> Type:
        if node.macro in ("all", "exists"):
            if not self._substitution.is_assignable(body, BOOL):
                self._mismatch(node.body, BOOL, body)
            return BOOL
        predicate = body if node.macro == "exists_one" else condition
        if not self._substitution.is_assignable(predicate, BOOL):
            result = INT if node.macro == "exists_one" else types.list_of(body)
            self._no_overload(node, "_?_:_", (predicate, result, result), is_member=False)
        if node.macro == "exists_one":
            return BOOL
        if node.macro == "map":
            return types.list_of(body)
        if node.macro == "transformMap":
            return types.map_of(variables[0], body)
        entries = types.map_of(self._substitution.fresh(), self._substitution.fresh())
        if not self._substitution.is_assignable(body, entries):
            self._no_overload(node, "cel.@mapInsert", (entries, body), is_member=False)
        return entries

    def _bind(self, node: Bind) -> Type:
        value = self._visit(node.value)
        self._scopes.append({node.name: value})
        body = self._visit(node.body)
        self._scopes.pop()
        return body

    def _optional_map(self, node: OptionalMap) -> Type:
        operand = self._visit(node.operand)
        value = self._resolve(node, "value", (operand,), is_member=True)[0]
        self._scopes.append({node.name: value})
        body = self._visit(node.body)
        self._scopes.pop()
        some = body if node.is_flat else types.optional_of(body)
        none = types.optional_of(self._substitution.fresh())
        return self._resolve(node, "_?_:_", (BOOL, some, none), is_member=False)[0]

    _VISITORS: ClassVar[dict[type[Expr], Callable[..., Type]]] = {
        Literal: _literal,
        Ident: _ident,
        Select: _select,
        Index: _index,
        Call: _call,
        Logical: _logical,
        Conditional: _conditional,
        ListLiteral: _list,
        MapLiteral: _map,
        StructLiteral: _struct,
        Comprehension: _comprehension,
        Bind: _bind,
        OptionalMap: _optional_map,
    }


def qualified_name(node: Expr) -> str:
    """The dotted name of a node that is one, else ""."""
    names: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(names)])


def children(node: Expr) -> list[Expr]:
    """The nodes right below a node."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Index):
        return [node.operand, node.index]
    if isinstance(node, Call):
        return [*([node.target] if node.target else []), *node.args]
    if isinstance(node, Logical):
        return node.terms
    if isinstance(node, Conditional):
        return [node.condition, node.truthy, node.falsy]
    if isinstance(node, ListLiteral):
        return node.items
    if isinstance(node, MapLiteral):
        return [part for entry in node.entries for part in (entry.key, entry.value)]
    if isinstance(node, StructLiteral):
        return [entry.value for entry in node.entries]
    if isinstance(node, Comprehension):
        return [node.range, *([node.condition] if node.condition else []), node.body]
    if isinstance(node, Bind):
        return [node.value, node.body]
    if isinstance(node, OptionalMap):
        return [node.operand, node.body]
    return []


def _walk(node: Expr) -> list[Expr]:
    """All nodes; a node that a macro uses twice is here once."""
    nodes: dict[int, Expr] = {}
    stack = [node]
    while stack:
        part = stack.pop()
        if id(part) not in nodes:
            nodes[id(part)] = part
            stack.extend(children(part))
    return list(nodes.values())
