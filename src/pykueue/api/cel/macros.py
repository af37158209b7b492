"""The macros of CEL: calls that the parser replaces, because an argument is not evaluated."""

from pykueue.api.cel.parser import Macro, ParseError
from pykueue.api.cel.syntax import Bind, Call, Comprehension, Expr, Ident, OptionalMap, Select

_RESULT = "__result__"


def _has(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    if target is not None or len(arguments) != 1:
        return None
    (field,) = arguments
    if not isinstance(field, Select) or field.is_optional:
        raise ParseError(field.position, "invalid argument to has() macro")
    return Select(position, field.operand, field.field, is_test=True)


def _name(node: Expr, message: str) -> str:
    if not isinstance(node, Ident):
        raise ParseError(node.position, message)
    if node.name == _RESULT:
        raise ParseError(node.position, "iteration variable overwrites accumulator variable")
    return node.name


def _quantifier(name: str) -> Macro:
    """`all`, `exists` and `exists_one`, with one variable or with two."""

    def expand(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
        if target is None or len(arguments) not in (2, 3) or (name == "exists_one" and len(arguments) == 3):
            return None
        return Comprehension(position, _KINDS[name], target, _variables(arguments[:-1]), body=arguments[-1])

    return expand


_KINDS = {"all": "all", "exists": "exists", "exists_one": "exists_one", "existsOne": "exists_one"}


def _variables(nodes: list[Expr]) -> tuple[str, ...]:
    names = tuple(_name(node, "argument must be a simple name") for node in nodes)
    if len(set(names)) < len(names):
        raise ParseError(nodes[-1].position, f"duplicate variable name: {names[0]}")
    return names


def _map(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    if target is None or len(arguments) not in (2, 3):
        return None
    variable = _name(arguments[0], "argument is not an identifier")
    condition = arguments[1] if len(arguments) == 3 else None
    return Comprehension(position, "map", target, (variable,), body=arguments[-1], condition=condition)


def _filter(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    if target is None or len(arguments) != 2:
        return None
    variable = _name(arguments[0], "argument is not an identifier")
    body = Ident(arguments[0].position, variable)
    return Comprehension(position, "map", target, (variable,), body=body, condition=arguments[1])


def _transform(kind: str) -> Macro:
    def expand(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
        if target is None or len(arguments) not in (3, 4):
            return None
        condition = arguments[2] if len(arguments) == 4 else None
        return Comprehension(position, kind, target, _variables(arguments[:2]), body=arguments[-1], condition=condition)

    return expand


def _bind(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel" or len(arguments) != 3:
        return None
    variable = arguments[0]
    if not isinstance(variable, Ident):
        raise ParseError(variable.position, "cel.bind() variable names must be simple identifiers")
    return Bind(position, variable.name, arguments[1], arguments[2])


def _opt_map(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    return _on_value(position, target, arguments, "optMap")


def _opt_flat_map(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    return _on_value(position, target, arguments, "optFlatMap")


def _on_value(position: int, target: Expr | None, arguments: list[Expr], macro: str) -> Expr | None:
    if target is None or len(arguments) != 2:
        return None
    variable = arguments[0]
    if not isinstance(variable, Ident):
        raise ParseError(variable.position, f"{macro}() variable name must be a simple identifier")
    return OptionalMap(position, target, variable.name, arguments[1], is_flat=macro == "optFlatMap")


def _sort_by(position: int, target: Expr | None, arguments: list[Expr]) -> Expr | None:
    if target is None or len(arguments) != 2:
        return None
    name = "@__sortBy_input__"
    keys = _map(position, Ident(position, name), arguments)
    assert keys is not None
    return Bind(position, name, target, Call(position, "@sortByAssociatedKeys", [keys], Ident(position, name)))


MACROS: dict[str, Macro] = {
    "has": _has,
    **{name: _quantifier(name) for name in _KINDS},
    "map": _map,
    "filter": _filter,
    "transformList": _transform("map"),
    "transformMap": _transform("transformMap"),
    "transformMapEntry": _transform("transformMapEntry"),
    "bind": _bind,
    "optMap": _opt_map,
    "optFlatMap": _opt_flat_map,
    "sortBy": _sort_by,
}
