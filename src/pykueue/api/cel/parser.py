"""Reads an expression into its syntax tree. Macros are expanded on the way.

Operators are read by precedence, so that nesting costs few Python frames. Nesting is limited as in
cel-go, so that neither the check nor the evaluation runs out of stack.
"""

from collections.abc import Callable

from pykueue.api.cel import lexer
from pykueue.api.cel.errors import CompilationError, report
from pykueue.api.cel.lexer import CelToken
from pykueue.api.cel.syntax import (
    Call,
    Conditional,
    Entry,
    Expr,
    Ident,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapLiteral,
    Select,
    StructLiteral,
)

DEEPEST = 250
_TOO_DEEP = f"expression recursion limit exceeded: {DEEPEST}"
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_UNARY = 6
_ANYTHING = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)

Macro = Callable[[int, Expr | None, list[Expr]], Expr | None]
"""Expands a call at a position with its target and arguments; None if it is not a macro call.

A ParseError says that an argument does not fit.
"""


class ParseError(Exception):
    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def parse(text: str, macros: dict[str, Macro]) -> Expr:
    """The tree of the text; CompilationError with the place of the fault."""
    try:
        parser = _Parser(lexer.tokens(text), macros)
        return parser.whole()
    except ParseError as error:
        raise CompilationError(report(text, [(error.position, str(error))])) from None
    except RecursionError:
        raise CompilationError(report(text, [(0, _TOO_DEEP)])) from None


class _Parser:
    def __init__(self, tokens: list[CelToken], macros: dict[str, Macro]) -> None:
        self._tokens = tokens
        self._macros = macros
        self._at = 0
        self._nesting = 0

    def whole(self) -> Expr:
        tree = self._expression()
        if self._tokens[self._at].kind != "end":
            token = self._tokens[self._at]
            raise ParseError(token.position, f"Syntax error: extraneous input '{token.text}' expecting <EOF>")
        return tree

    def _next(self) -> CelToken:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _peek(self) -> str:
        token = self._tokens[self._at]
        return token.text if token.kind in ("operator", "end") else ""

    def _accept(self, operator: str) -> bool:
        if self._peek() == operator:
            self._at += 1
            return True
        return False

    def _expect(self, operator: str, expected: str = "") -> CelToken:
        token = self._tokens[self._at]
        if token.kind != "operator" or token.text != operator:
            token_names = expected or f"'{operator}'"
            raise ParseError(token.position, f"Syntax error: mismatched input '{token.text}' expecting {token_names}")
        self._at += 1
        return token

    def _expression(self) -> Expr:
        self._nesting += 1
        if self._nesting > DEEPEST:
            raise ParseError(self._tokens[self._at].position, _TOO_DEEP)
        node = self._operation(1)
        if self._peek() == "?":
            position = self._next().position
            truthy = self._operation(1)
            self._expect(":")
            node = self._checked(Conditional(position, node, truthy, self._expression()))
        self._nesting -= 1
        return node

    def _checked(self, node: Expr) -> Expr:
        if node.depth > DEEPEST:
            raise ParseError(node.position, _TOO_DEEP)
        return node

    def _operation(self, lowest: int) -> Expr:
        """Operands and the operators between them that bind at least as strongly as `lowest`."""
        left = self._unary()
        while True:
            token = self._tokens[self._at]
            is_operator = token.kind == "operator" or token.text == "in"
            precedence = _PRECEDENCE.get(token.text, 0) if is_operator and token.kind in ("operator", "name") else 0
            if precedence < lowest or precedence == 0:
                return left
            self._at += 1
            right = self._operation(precedence + 1)
            if token.text in ("&&", "||"):
                left = self._joined(token, left, right)
            else:
                name = "@in" if token.text == "in" else f"_{token.text}_"
                left = self._checked(Call(token.position, name, [left, right]))

    def _joined(self, token: CelToken, left: Expr, right: Expr) -> Expr:
        if isinstance(left, Logical) and left.operator == token.text:
            left.terms.append(right)
            left.depth = max(left.depth, right.depth + 1)
            return self._checked(left)
        return self._checked(Logical(token.position, token.text, [left, right]))

    def _unary(self) -> Expr:
        token = self._tokens[self._at]
        if token.kind != "operator" or token.text not in ("!", "-"):
            return self._member(self._primary())
        count = 0
        while self._peek() == token.text:
            self._at += 1
            count += 1
        following = self._tokens[self._at]
        if token.text == "-" and following.kind in ("int", "double"):
            self._at += 1
            node = self._member(self._literal(following, is_negative=count % 2 == 1))
            count = 0
        elif following.text in ("!", "-") and following.kind == "operator":
            node = self._unary()
        else:
            node = self._member(self._primary())
        if count % 2 == 0:
            return node
        return self._checked(Call(token.position, f"{token.text}_", [node]))

    def _literal(self, token: CelToken, *, is_negative: bool = False) -> Expr:
        try:
            return Literal(token.position, lexer.literal(token, is_negative=is_negative))
        except ValueError as error:
            raise ParseError(token.position, str(error)) from None

    def _primary(self) -> Expr:
        token = self._next()
        if lexer.is_literal(token):
            return self._literal(token)
        if token.text == "(" and token.kind == "operator":
            node = self._expression()
            self._expect(")")
            return node
        if token.text == "[":
            return self._list(token)
        if token.text == "{" and token.kind == "operator":
            entries = self._entries(are_fields=False)
            return self._checked(MapLiteral(token.position, entries))
        is_absolute = token.text == "." and token.kind == "operator"
        if is_absolute:
            token = self._next()
        if token.kind != "name" or token.text == "in":
            raise ParseError(token.position, f"Syntax error: mismatched input '{token.text}' expecting {_ANYTHING}")
        name = f".{token.text}" if is_absolute else token.text
        if self._peek() == "(":
            position = self._next().position
            self._refuse_reserved(token)
            return self._call(position, name, None, self._arguments())
        if self._is_struct():
            return self._struct(name)
        self._refuse_reserved(token)
        return Ident(token.position, name)

    def _refuse_reserved(self, token: CelToken) -> None:
        if token.text in lexer.RESERVED:
            raise ParseError(token.position, f"reserved identifier: {token.text}")

    def _is_struct(self) -> bool:
        """Whether a dotted name continues up to a brace, which begins a struct."""
        at = self._at
        while self._tokens[at].text == "." and self._tokens[at + 1].kind == "name":
            at += 2
        return self._tokens[at].kind == "operator" and self._tokens[at].text == "{"

    def _struct(self, name: str) -> Expr:
        while self._accept("."):
            name += f".{self._next().text}"
        position = self._expect("{").position
        return self._checked(StructLiteral(position, name, self._entries(are_fields=True)))

    def _list(self, opening: CelToken) -> Expr:
        items: list[Expr] = []
        optionals = set()
        while self._peek() != "]":
            if self._accept("?"):
                optionals.add(len(items))
            items.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]", "{']', ','}")
        return self._checked(ListLiteral(opening.position, items, frozenset(optionals)))

    def _entries(self, *, are_fields: bool) -> list[Entry]:
        entries: list[Entry] = []
        while self._peek() != "}":
            is_optional = self._accept("?")
            key = self._field_name() if are_fields else self._expression()
            self._expect(":")
            entries.append(Entry(key, self._expression(), is_optional=is_optional))
            if not self._accept(","):
                break
        self._expect("}", "{'}', ','}")
        return entries

    def _field_name(self) -> Expr:
        token = self._next()
        if token.kind != "name":
            raise ParseError(token.position, f"Syntax error: mismatched input '{token.text}' expecting IDENTIFIER")
        return Literal(token.position, token.text)

    def _arguments(self) -> list[Expr]:
        arguments: list[Expr] = []
        if not self._accept(")"):
            arguments.append(self._expression())
            while self._accept(","):
                arguments.append(self._expression())
            self._expect(")", "{',', ')'}")
        return arguments

    def _member(self, node: Expr) -> Expr:
        """The fields, indexes and member calls after an operand."""
        while True:
            operator = self._peek()
            if operator == ".":
                node = self._checked(self._field_or_call(node))
            elif operator == "[":
                position = self._next().position
                is_optional = self._accept("?")
                node = self._checked(Index(position, node, self._expression(), is_optional=is_optional))
                self._expect("]")
            else:
                return node

    def _field_or_call(self, operand: Expr) -> Expr:
        position = self._next().position
        is_optional = self._accept("?")
        token = self._next()
        if token.kind != "name" or lexer.is_literal(token) or token.text == "in":
            expected = "IDENTIFIER" if is_optional else "{'?', IDENTIFIER}"
            raise ParseError(token.position, f"Syntax error: mismatched input '{token.text}' expecting {expected}")
        if self._peek() == "(" and not is_optional:
            position = self._next().position
            return self._call(position, token.text, operand, self._arguments())
        return Select(position, operand, token.text, is_optional=is_optional)

    def _call(self, position: int, name: str, target: Expr | None, arguments: list[Expr]) -> Expr:
        macro = self._macros.get(name)
        if macro is not None:
            expanded = macro(position, target, arguments)
            if expanded is not None:
                return self._checked(expanded)
        return self._checked(Call(position, name, arguments, target))
