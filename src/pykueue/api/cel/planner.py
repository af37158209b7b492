"""Turns a checked syntax tree into Python closures.

A closure takes a frame, adds what it costs, and returns a value or raises CelError. Constants are
computed here once, as cel-go does, and cost nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pykueue.api.cel import attributes, cost, loops, values
from pykueue.api.cel.attributes import COST, FIRST_SLOT, LIMIT, Frame, Qualifier, Run
from pykueue.api.cel.checker import qualified_name
from pykueue.api.cel.errors import CelError, CostLimitError
from pykueue.api.cel.functions import Dispatcher
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
from pykueue.api.cel.values import ABSENT, NONE, Optional, Struct, equal

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"},
)
_UNSET = values.TypeValue("unset")
"""Stands in a frame for a bound name that was not read yet."""


class Planner:
    """Plans one expression. `names` are its variables, `constants` the names of types."""

    def __init__(
        self,
        names: tuple[str, ...],
        constants: Mapping[str, Any],
        field_name: Callable[[str], str] | None = None,
    ) -> None:
        self._slots = {name: FIRST_SLOT + index for index, name in enumerate(names)}
        self._constants = constants
        self._field_name = field_name
        self._scopes: list[dict[str, int | Run]] = []
        self.size = FIRST_SLOT + len(names)
        """How many entries a frame has."""

    def plan(self, node: Expr) -> Run:
        value = self._constant(node)
        if value is not ABSENT:
            return lambda _: value
        return self._PLANS[type(node)](self, node)

    def _resolved(self, node: Expr) -> Run:
        """As cel-go resolves an operand of `?:` or an index: the variable itself costs nothing."""
        is_attribute = isinstance(node, Ident | Index) or (isinstance(node, Select) and not node.is_test)
        if is_attribute and self._constant(node) is ABSENT:
            return self._attribute(node, 0)
        return self.plan(node)

    def _constant(self, node: Expr) -> Any:
        """The value of a node that is the same in each evaluation, else ABSENT."""
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Ident | Select):
            return self._constant_name(node)
        if isinstance(node, ListLiteral):
            items = [self._constant(item) for item in node.items]
            return ABSENT if ABSENT in map(_marked, items) or node.optionals else items
        if isinstance(node, MapLiteral):
            return self._constant_map(node)
        if isinstance(node, Call):
            return self._constant_call(node)
        return ABSENT

    def _constant_name(self, node: Expr) -> Any:
        name = qualified_name(node)
        if not name or self._local(name.partition(".")[0]) is not None:
            return ABSENT
        return self._constants.get(name.lstrip("."), ABSENT)

    def _constant_map(self, node: MapLiteral) -> Any:
        entries: dict[Any, Any] = {}
        for entry in node.entries:
            key, value = self._constant(entry.key), self._constant(entry.value)
            if key is ABSENT or value is ABSENT or entry.is_optional:
                return ABSENT
            entries[values.as_key(key)] = value
        return entries

    def _constant_call(self, node: Call) -> Any:
        if node.function in _CONVERSIONS and len(node.args) == 1 and node.target is None:
            argument = self._constant(node.args[0])
            if argument is not ABSENT:
                return Dispatcher(node.function, node.candidates).find(argument).implementation(argument)
        if _is_in_list(node) and self._constant(node.args[1]) == []:
            return False
        return ABSENT

    def _local(self, name: str) -> int | Run | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _attribute(self, node: Expr, base_cost: int = cost.IDENT) -> Run:
        base, qualifiers = self._chain(node)
        if isinstance(base, Ident | Select):
            name = qualified_name(base)
            place = self._local(name)
            slot = place if place is not None else self._slots[name.lstrip(".")]
            if isinstance(slot, int):
                if not qualifiers:
                    return attributes.variable(name, slot, base_cost)
                if all(part.run is None and type(part.key) is str and not part.is_optional for part in qualifiers):
                    return attributes.fields_of_variable(name, slot, qualifiers, base_cost)
                return attributes.qualified(attributes.variable(name, slot, 0), qualifiers, base_cost)
            return attributes.qualified(slot, qualifiers, base_cost)
        operand = self.plan(base)
        return attributes.qualified(operand, qualifiers, 0 if isinstance(base, Conditional) else base_cost)

    def _chain(self, node: Expr) -> tuple[Expr, tuple[Qualifier, ...]]:
        """The operand of a chain of fields and indexes, and the chain."""
        qualifiers: list[Qualifier] = []
        while isinstance(node, Select | Index) and not self._is_name(node):
            if isinstance(node, Select):
                if node.is_test:
                    break
                qualifiers.append(self._field(node))
            else:
                index = self._constant(node.index)
                run = self._resolved(node.index) if index is ABSENT else None
                qualifiers.append(Qualifier(index, run, is_optional=node.is_optional))
            node = node.operand
        return node, tuple(reversed(qualifiers))

    def _field(self, node: Select) -> Qualifier:
        field = self._field_name(node.field) if self._field_name is not None else node.field
        return Qualifier(field, is_optional=node.is_optional)

    def _is_name(self, node: Expr) -> bool:
        name = qualified_name(node)
        return bool(name) and name in self._slots and self._local(name.partition(".")[0]) is None

    def _select(self, node: Select) -> Run:
        if not node.is_test:
            return self._attribute(node)
        field = self._field(node).key
        base, qualifiers = self._chain(node.operand)
        return attributes.presence(self._resolved(base), qualifiers, field)

    def _call(self, node: Call) -> Run:
        if node.function in ("or", "orValue"):
            assert node.target is not None
            return _or(self.plan(node.target), self.plan(node.args[0]), is_value=node.function == "orValue")
        arguments = [self.plan(argument) for argument in ([node.target] if node.target else []) + node.args]
        if node.function in ("_==_", "_!=_"):
            return _equality(arguments[0], arguments[1], is_negated=node.function == "_!=_")
        if _is_in_list(node):
            members = _members(self._constant(node.args[1]))
            if members is not None:
                return _membership(arguments[0], members)
        dispatcher = Dispatcher(node.function, node.candidates)
        if len(arguments) == 1:
            return _unary(dispatcher, arguments[0])
        if len(arguments) == 2:
            return _binary(dispatcher, arguments[0], arguments[1])
        return _variadic(dispatcher, arguments)

    def _logical(self, node: Logical) -> Run:
        return _logical([self.plan(term) for term in node.terms], decisive=node.operator == "||")

    def _conditional(self, node: Conditional) -> Run:
        return _conditional(self.plan(node.condition), self._resolved(node.truthy), self._resolved(node.falsy))

    def _list(self, node: ListLiteral) -> Run:
        items = [(self.plan(item), index in node.optionals) for index, item in enumerate(node.items)]

        def run(frame: Frame) -> list[Any]:
            result = []
            for item, is_optional in items:
                value = item(frame)
                if is_optional:
                    if not isinstance(value, Optional):
                        raise CelError("cannot initialize optional list element from non-optional value")
                    if value is NONE:
                        continue
                    value = value.value
                result.append(value)
            frame[COST] += cost.LIST
            return result

        return run

    def _entries(self, entries: list[Entry]) -> Callable[[Frame], dict[Any, Any]]:
        planned = [(self.plan(entry.key), self.plan(entry.value), entry.is_optional) for entry in entries]

        def run(frame: Frame) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key, value, is_optional in planned:
                name, item = values.as_key(key(frame)), value(frame)
                if is_optional:
                    if not isinstance(item, Optional):
                        raise CelError(f"cannot initialize optional entry '{name}' from non-optional value")
                    if item is NONE:
                        result.pop(name, None)
                        continue
                    item = item.value
                result[name] = item
            return result

        return run

    def _map(self, node: MapLiteral) -> Run:
        entries = self._entries(node.entries)

        def run(frame: Frame) -> dict[Any, Any]:
            result = entries(frame)
            frame[COST] += cost.MAP
            return result

        return run

    def _struct(self, node: StructLiteral) -> Run:
        entries, name = self._entries(node.entries), node.name.lstrip(".")

        def run(frame: Frame) -> Struct:
            fields = entries(frame)
            frame[COST] += cost.STRUCT
            return Struct(name, fields)

        return run

    def _comprehension(self, node: Comprehension) -> Run:
        over = self.plan(node.range)
        slots = tuple(self._allocate() for _ in node.variables)
        self._scopes.append(dict(zip(node.variables, slots, strict=True)))
        condition = self.plan(node.condition) if node.condition is not None else None
        body = self.plan(node.body)
        is_constant = self._constant(node.body) is not ABSENT
        self._scopes.pop()
        if node.macro in ("all", "exists"):
            return loops.quantifier(over, slots, body, decisive=node.macro == "exists")
        if node.macro == "exists_one":
            return loops.exists_one(over, slots, body)
        if node.macro == "map":
            return loops.transform_list(over, slots, condition, body, is_constant=is_constant)
        transform = loops.transform_map if node.macro == "transformMap" else loops.transform_map_entry
        return transform(over, slots, condition, body)

    def _allocate(self) -> int:
        self.size += 1
        return self.size - 1

    def _bind(self, node: Bind) -> Run:
        """A bound name is evaluated when it is read for the first time."""
        slot, value = self._allocate(), self.plan(node.value)

        def read(frame: Frame) -> Any:
            if frame[slot] is _UNSET:
                frame[slot] = value(frame)
            return frame[slot]

        self._scopes.append({node.name: read})
        body = self.plan(node.body)
        self._scopes.pop()

        def run(frame: Frame) -> Any:
            if frame[COST] > frame[LIMIT]:
                raise CostLimitError
            frame[slot] = _UNSET
            return body(frame)

        return run

    def _optional_map(self, node: OptionalMap) -> Run:
        operand, slot, unpaid = self.plan(node.operand), self._allocate(), self._allocate()

        def read(frame: Frame) -> Any:
            frame[COST] += frame[unpaid]
            frame[unpaid] = 0
            return frame[slot]

        self._scopes.append({node.name: read})
        body = self.plan(node.body)
        self._scopes.pop()
        return _optional_map(operand, body, (slot, unpaid), is_flat=node.is_flat)

    _PLANS: ClassVar[dict[type[Expr], Callable[..., Run]]] = {
        Ident: _attribute,
        Select: _select,
        Index: _attribute,
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


def _marked(value: Any) -> Any:
    return ABSENT if value is ABSENT else None


def _is_in_list(node: Expr) -> bool:
    if not isinstance(node, Call) or node.function != "@in":
        return False
    return [overload.identifier for overload in node.overloads] == ["in_list"]


_MEMBERS = (bool, int, float, str)


def _members(items: Any) -> frozenset[Any] | None:
    """The items of a constant list as a set, if they are scalars."""
    if items is ABSENT or not all(isinstance(item, _MEMBERS) for item in items):
        return None
    return frozenset(map(values.as_key, items))


def _membership(operand: Run, members: frozenset[Any]) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        return isinstance(value, _MEMBERS) and values.as_key(value) in members

    return run


def _charge(frame: Frame, amount: int) -> None:
    frame[COST] += amount
    if frame[COST] > frame[LIMIT]:
        raise CostLimitError


def _equality(left: Run, right: Run, *, is_negated: bool) -> Run:
    def run(frame: Frame) -> bool:
        first, second = left(frame), right(frame)
        if type(first) is str and type(second) is str:
            frame[COST] += -(-min(len(first), len(second)) // 10)
            return (first == second) is not is_negated
        _charge(frame, cost.equality(first, second))
        return equal(first, second) is not is_negated

    return run


def _unary(dispatcher: Dispatcher, operand: Run) -> Run:
    by_classes, find = dispatcher.by_classes, dispatcher.find

    def run(frame: Frame) -> Any:
        value = operand(frame)
        overload = by_classes.get((type(value),)) or find(value)
        _charge(frame, 1 if overload.cost is None else overload.cost(value))
        result = overload.implementation(value)
        if overload.result_cost is not None:
            _charge(frame, overload.result_cost(result))
        return result

    return run


def _binary(dispatcher: Dispatcher, left: Run, right: Run) -> Run:
    by_classes, find = dispatcher.by_classes, dispatcher.find

    def run(frame: Frame) -> Any:
        first, second = left(frame), right(frame)
        overload = by_classes.get((type(first), type(second))) or find(first, second)
        if overload.cost is None:
            frame[COST] += 1
        else:
            _charge(frame, overload.cost(first, second))
        result = overload.implementation(first, second)
        if overload.result_cost is not None:
            _charge(frame, overload.result_cost(result))
        return result

    return run


def _variadic(dispatcher: Dispatcher, operands: list[Run]) -> Run:
    find = dispatcher.find

    def run(frame: Frame) -> Any:
        arguments = [operand(frame) for operand in operands]
        overload = find(*arguments)
        _charge(frame, 1 if overload.cost is None else overload.cost(*arguments))
        result = overload.implementation(*arguments)
        if overload.result_cost is not None:
            _charge(frame, overload.result_cost(result))
        return result

    return run


def _logical(terms: list[Run], *, decisive: bool) -> Run:
    """`&&` is decided by a false and `||` by a true, even if another term has an error."""

    def run(frame: Frame) -> Any:
        error: CelError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CelError as fault:
                error = error or fault
                frame[COST] += cost.ABSORBED_ERROR
                continue
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                error = error or CelError("no such overload")
        if error is not None:
            raise error
        return not decisive

    return run


def _conditional(condition: Run, truthy: Run, falsy: Run) -> Run:
    def run(frame: Frame) -> Any:
        verdict = condition(frame)
        if verdict is True:
            return truthy(frame)
        if verdict is False:
            return falsy(frame)
        raise CelError("no such overload")

    return run


def _or(operand: Run, other: Run, *, is_value: bool) -> Run:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if value is NONE:
            return other(frame)
        return value.value if is_value and isinstance(value, Optional) else value

    return run


def _optional_map(operand: Run, body: Run, slots: tuple[int, int], *, is_flat: bool) -> Run:
    """Evaluate the operand once. cel-go evaluates it again when the body reads the value.

    The second slot of the frame is what that costs, until the body has read the value.
    """
    slot, unpaid = slots

    def run(frame: Frame) -> Any:
        before = frame[COST]
        value = operand(frame)
        spent = frame[COST] - before
        if not isinstance(value, Optional):
            raise CelError("no such overload")
        _charge(frame, 1)
        if value is NONE:
            frame[COST] += 1
            return NONE
        frame[slot], frame[unpaid] = value.value, spent + 1
        result = body(frame)
        if is_flat:
            return result
        frame[COST] += 1
        return Optional(result)

    return run
