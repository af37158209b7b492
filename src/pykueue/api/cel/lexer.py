"""Splits the text of an expression into tokens, and reads its literals."""

import re
from typing import Any, NamedTuple

from pykueue.api.cel.errors import CompilationError, report
from pykueue.api.cel.values import UInt

LONGEST_EXPRESSION = 100_000
"""Characters, as in cel-go."""
RESERVED = frozenset(
    [
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    ]
)
_KEYWORDS = {"true": True, "false": False, "null": None}
_ESCAPE = r"\\(?:[abfnrtv\"'`?\\]|[xX][0-9a-fA-F]{2}|[0-3][0-7]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    r"[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])"
)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANY_ESCAPE = re.compile(_ESCAPE)
_SMALLEST_INT, _LARGEST_INT, _LARGEST_UINT = -(2**63), 2**63 - 1, 2**64 - 1


class CelToken(NamedTuple):
    """`kind` is "string", "bytes", "int", "uint", "double", "name", "operator" or "end"."""

    kind: str
    text: str
    position: int


def tokens(text: str) -> list[CelToken]:
    if len(text) > LONGEST_EXPRESSION:
        raise CompilationError(
            f"expression code point size exceeds limit: size: {len(text)}, limit {LONGEST_EXPRESSION}"
        )
    result: list[CelToken] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            message = f"Syntax error: token recognition error at: '{text[position]}'"
            raise CompilationError(report(text, [(position, message)]))
        kind = match.lastgroup or ""
        if kind == "quoted":
            raise CompilationError(report(text, [(position, "unsupported syntax: '`'")]))
        if kind != "space":
            result.append(CelToken(kind, match[0], position))
        position = match.end()
    result.append(CelToken("end", "<EOF>", len(text)))
    return result


def literal(token: CelToken, *, is_negative: bool = False) -> Any:
    """The value of a token; ValueError with the message of cel-go if it has none."""
    if token.kind in ("int", "uint"):
        return _integer(token, is_negative=is_negative)
    if token.kind == "double":
        value = float(token.text)
        if value in (float("inf"), float("-inf")):
            raise ValueError("invalid double literal")
        return -value if is_negative else value
    if token.kind == "string":
        return unescaped(token.text)
    if token.kind == "bytes":
        return _unescaped_bytes(token.text[1:])
    return _KEYWORDS[token.text]


def is_literal(token: CelToken) -> bool:
    return token.kind in ("int", "uint", "double", "string", "bytes") or (
        token.kind == "name" and token.text in _KEYWORDS
    )


def _integer(token: CelToken, *, is_negative: bool) -> int:
    digits = token.text.rstrip("uU")
    number = int(digits, 16) if digits.startswith("0x") else int(digits.lstrip("0")[:25] or "0")
    if token.kind == "uint":
        if number > _LARGEST_UINT:
            raise ValueError("invalid uint literal")
        return UInt(number)
    number = -number if is_negative else number
    if not _SMALLEST_INT <= number <= _LARGEST_INT:
        raise ValueError("invalid int literal")
    return number


def _quoted(text: str) -> tuple[str, bool]:
    """What is between the quotes, and whether it is raw."""
    is_raw = text[0] in "rR"
    text = text[is_raw:]
    width = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return text[width:-width].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def unescaped(text: str) -> str:
    content, is_raw = _quoted(text)
    return content if is_raw or "\\" not in content else _ANY_ESCAPE.sub(_character, content)


def _character(match: re.Match[str]) -> str:
    escape = match[0][1:]
    if escape[0] in "xX":
        return chr(int(escape[1:], 16))
    if escape[0] in "uU":
        return _code_point(int(escape[1:], 16))
    if escape[0] in "0123":
        return chr(int(escape, 8))
    return _SIMPLE_ESCAPES.get(escape, escape)


def _code_point(number: int) -> str:
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _unescaped_bytes(text: str) -> bytes:
    content, is_raw = _quoted(text)
    if is_raw:
        return content.encode()
    parts, position = [], 0
    for match in _ANY_ESCAPE.finditer(content):
        escape = match[0][1:]
        if escape[0] in "uU":
            raise ValueError("unable to unescape string")
        parts.append(content[position : match.start()].encode())
        is_number = escape[0] in "xX0123"
        parts.append(_character(match).encode("latin-1" if is_number else "utf-8"))
        position = match.end()
    return b"".join([*parts, content[position:].encode()])
