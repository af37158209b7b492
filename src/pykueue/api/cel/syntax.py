"""The syntax tree of an expression. The checker adds types, the planner reads them."""

from typing import Any

from pykueue.api.cel.types import DYN, Type


class Expr:
    """A part of an expression; `position` is its place in the text."""

    __slots__ = ("depth", "position", "type")

    def __init__(self, position: int, *children: "Expr") -> None:
        self.position = position
        self.type: Type = DYN
        self.depth: int = 1 + max((child.depth for child in children), default=0)


class Literal(Expr):
    __slots__ = ("value",)

    def __init__(self, position: int, value: Any) -> None:
        super().__init__(position)
        self.value = value


class Ident(Expr):
    __slots__ = ("name",)

    def __init__(self, position: int, name: str) -> None:
        super().__init__(position)
        self.name = name


class Select(Expr):
    """`operand.field`, `operand.?field`, or `has(operand.field)`."""

    __slots__ = ("field", "is_optional", "is_test", "operand")

    def __init__(
        self, position: int, operand: Expr, field: str, *, is_test: bool = False, is_optional: bool = False
    ) -> None:
        super().__init__(position, operand)
        self.operand = operand
        self.field = field
        self.is_test = is_test
        self.is_optional = is_optional


class Index(Expr):
    """`operand[index]` or `operand[?index]`."""

    __slots__ = ("index", "is_optional", "operand")

    def __init__(self, position: int, operand: Expr, index: Expr, *, is_optional: bool = False) -> None:
        super().__init__(position, operand, index)
        self.operand = operand
        self.index = index
        self.is_optional = is_optional


class Call(Expr):
    """A function or operator.

    `overloads` are those that the types allow. `candidates` are those that the values choose from:
    for an operator all of them, because types that were guessed from dyn may be wrong.
    """

    __slots__ = ("args", "candidates", "function", "overloads", "target")

    def __init__(self, position: int, function: str, args: list[Expr], target: Expr | None = None) -> None:
        super().__init__(position, *args, *([target] if target else []))
        self.function = function
        self.args = args
        self.target = target
        self.overloads: list[Any] = []
        self.candidates: list[Any] = []


class Logical(Expr):
    """`&&` or `||` with all of its terms."""

    __slots__ = ("operator", "terms")

    def __init__(self, position: int, operator: str, terms: list[Expr]) -> None:
        super().__init__(position, *terms)
        self.operator = operator
        self.terms = terms


class Conditional(Expr):
    __slots__ = ("condition", "falsy", "truthy")

    def __init__(self, position: int, condition: Expr, truthy: Expr, falsy: Expr) -> None:
        super().__init__(position, condition, truthy, falsy)
        self.condition = condition
        self.truthy = truthy
        self.falsy = falsy


class ListLiteral(Expr):
    """`optionals` are the indexes of the items that are written `?item`."""

    __slots__ = ("items", "optionals")

    def __init__(self, position: int, items: list[Expr], optionals: frozenset[int] = frozenset()) -> None:
        super().__init__(position, *items)
        self.items = items
        self.optionals = optionals


class Entry:
    """`key: value` of a map, or `field: value` of a struct, where the key is a text literal."""

    __slots__ = ("is_optional", "key", "value")

    def __init__(self, key: Expr, value: Expr, *, is_optional: bool) -> None:
        self.key = key
        self.value = value
        self.is_optional = is_optional


class MapLiteral(Expr):
    __slots__ = ("entries",)

    def __init__(self, position: int, entries: list[Entry]) -> None:
        super().__init__(position, *(node for entry in entries for node in (entry.key, entry.value)))
        self.entries = entries


class StructLiteral(Expr):
    """`Object.spec{replicas: 3}`."""

    __slots__ = ("entries", "name")

    def __init__(self, position: int, name: str, entries: list[Entry]) -> None:
        super().__init__(position, *(entry.value for entry in entries))
        self.name = name
        self.entries = entries


class Comprehension(Expr):
    """A loop: `items.all(x, body)`, `items.transformMap(k, v, condition, body)`, …"""

    __slots__ = ("body", "condition", "macro", "range", "variables")

    def __init__(
        self,
        position: int,
        macro: str,
        over: Expr,
        variables: tuple[str, ...],
        *,
        body: Expr,
        condition: Expr | None = None,
    ) -> None:
        super().__init__(position, over, body, *([condition] if condition else []))
        self.macro = macro
        self.range = over
        self.variables = variables
        self.condition = condition
        self.body = body


class Bind(Expr):
    """`cel.bind(name, value, body)`; `sortBy` expands to it as well."""

    __slots__ = ("body", "name", "value")

    def __init__(self, position: int, name: str, value: Expr, body: Expr) -> None:
        super().__init__(position, value, body)
        self.name = name
        self.value = value
        self.body = body


class OptionalMap(Expr):
    """`operand.optMap(name, body)`, or `optFlatMap`, whose body is an optional itself."""

    __slots__ = ("body", "is_flat", "name", "operand")

    def __init__(self, position: int, operand: Expr, name: str, body: Expr, *, is_flat: bool) -> None:
        super().__init__(position, operand, body)
        self.operand = operand
        self.name = name
        self.body = body
        self.is_flat = is_flat
