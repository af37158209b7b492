"""Reads the tokens of CEL: which variables an expression uses, and the types of mutations.

The CEL library has no types without protobuf descriptors. A mutating policy builds values of the
types `Object…` and `JSONPatch`; `as_maps` writes such a value as a map, which has the same JSON.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pykueue.api.cel import EvaluationError

# A string that is not closed is one token, so that no character is looked at twice.
_TOKEN = re.compile(
    r"(?P<string>[rRbB]{0,2}(?:\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)))"
    r"|(?P<raw>(?:[bB]?[rR]|[rR][bB])(?:\"[^\"\n]*\"?|'[^'\n]*'?))"
    r"|(?P<short>[bB]?(?:\"(?:[^\"\\\n]|\\.)*(?:\"|\\?)|'(?:[^'\\\n]|\\.)*(?:'|\\?)))"
    r"|(?P<comment>//[^\n]*)|(?P<space>\s+)|(?P<quoted>`[^`\n]*`?)|(?P<name>[A-Za-z_]\w*)|(?P<other>[0-9]\w*|.)"
)
_TYPES = ("Object", "JSONPatch")
_OPENING, _CLOSING = "([{", ")]}"


class TypeMismatchError(EvaluationError):
    """An object initializer has a type that does not fit the field."""


class CelToken(NamedTuple):
    kind: str
    text: str


class _Level:
    """An open bracket. `type_name` is set inside an initializer such as `Object.spec{…}`."""

    def __init__(self, type_name: str = "") -> None:
        self.type_name = type_name
        self.field = ""


def used_variables(text: str) -> set[str]:
    """The names after `variables.`."""
    tokens = significant(text)
    names = set()
    for position, token in enumerate(tokens[:-2]):
        is_member = position > 0 and tokens[position - 1].text == "."
        if token == ("name", "variables") and not is_member and tokens[position + 1].text == ".":
            is_optional = tokens[position + 2].text == "?" and position + 3 < len(tokens)
            names.add(tokens[position + 2 + is_optional].text.strip("`"))
    return names


def as_maps(text: str) -> str:
    """The expression with maps instead of initializers of types."""
    tokens = list(_tokens(text))
    result: list[str] = []
    levels: list[_Level] = [_Level()]
    before, position = "", 0
    """`before` is the last token, with the one before it if it is a question mark."""
    while position < len(tokens):
        token = tokens[position]
        type_name, after = _initializer(tokens, position) if before[-1:] != "." else ("", position)
        if type_name:
            _check_type(type_name, levels)
            levels.append(_Level(type_name))
            result.append("{")
            before, position = "{", after
            continue
        if token.text in _OPENING:
            levels.append(_Level())
        elif token.text in _CLOSING and len(levels) > 1:
            levels.pop()
        level = levels[-1]
        if level.type_name and token.kind in ("name", "quoted") and before in ("{", ",", "{?", ",?"):
            level.field = field_name(token.text)
            result.append(f"'{level.field}'")
        else:
            result.append(token.text)
        if token.kind not in ("space", "comment"):
            before = before[-1:] + "?" if token.text == "?" else token.text
        position += 1
    return "".join(result)


def _initializer(tokens: list[CelToken], position: int) -> tuple[str, int]:
    """The type that is initialized here, and the position after its brace; "" if there is none."""
    if tokens[position].kind != "name" or tokens[position].text not in _TYPES:
        return "", position
    names, position = [tokens[position].text], position + 1
    while (
        position + 1 < len(tokens) and tokens[position].text == "." and tokens[position + 1].kind in ("name", "quoted")
    ):
        names.append(field_name(tokens[position + 1].text))
        position += 2
    while position < len(tokens) and tokens[position].kind in ("space", "comment"):
        position += 1
    if position < len(tokens) and tokens[position].text == "{":
        return ".".join(names), position + 1
    return "", position


def _check_type(type_name: str, levels: list[_Level]) -> None:
    """A field of an initializer has the type of its path: `spec` of `Object` is `Object.spec`."""
    parent = next((level for level in reversed(levels) if level.type_name), None)
    if parent is None or parent.type_name == "JSONPatch" or not parent.field:
        return
    expected = f"{parent.type_name}.{parent.field}"
    if type_name != expected:
        raise TypeMismatchError(f"type mismatch: field {parent.field} must be a {expected}, not a {type_name}")


def field_name(text: str) -> str:
    """The field of an escaped name: `__namespace__` is `namespace`."""
    if text.startswith("`"):
        return text.strip("`")
    escaped = re.fullmatch(r"__(\w+)__", text)
    name = escaped[1] if escaped and not escaped[1].startswith("_") else text
    for escape, character in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__")):
        name = name.replace(escape, character)
    return name


def significant(text: str) -> list[CelToken]:
    return [token for token in _tokens(text) if token.kind not in ("space", "comment")]


def _tokens(text: str) -> Iterator[CelToken]:
    for match in _TOKEN.finditer(text):
        assert match.lastgroup is not None
        yield CelToken(match.lastgroup, match[0])
