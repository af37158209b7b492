"""Reads label and field selectors from the text of a request, in one pass over it.

The grammar and the errors are those of Kubernetes. Every object is compared with every
requirement, so both the length of a selector and the number of its requirements are limited.
`selectors` gives the result its meaning.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykueue.api import errors

LONGEST_TEXT = 16 * 1024
MOST_REQUIREMENTS = 64

_SYMBOLS = frozenset("=!(),><")
_BLANKS = frozenset(" \t\r\n")
_DOUBLED = ("==", "!=")
_OPERATORS = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_FIELD_OPERATORS = ("!=", "==", "=")


class Token(NamedTuple):
    text: str
    is_word: bool


END = Token("", is_word=False)


class LabelTerm(NamedTuple):
    """`operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class FieldTerm(NamedTuple):
    path: str
    is_equal: bool
    value: str


def _check_length(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise errors.bad_request(f"the selector has {len(text)} characters, at most {LONGEST_TEXT} are read")


def _check_count(count: int) -> None:
    if count > MOST_REQUIREMENTS:
        raise errors.bad_request(f"the selector has more than {MOST_REQUIREMENTS} requirements; use `key in (a,b)`")


def _tokens(text: str) -> Iterator[Token]:
    position, end = 0, len(text)
    while position < end:
        start = position
        character = text[position]
        position += 1
        if character in _BLANKS:
            continue
        if character in _SYMBOLS:
            if text[start : position + 1] in _DOUBLED:
                position += 1
            yield Token(text[start:position], is_word=False)
            continue
        while position < end and text[position] not in _SYMBOLS and text[position] not in _BLANKS:
            position += 1
        yield Token(text[start:position], is_word=True)


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self.next = next(self._tokens, END)

    def consume(self) -> Token:
        token, self.next = self.next, next(self._tokens, END)
        return token

    def requirement(self) -> LabelTerm:
        is_negated = self.next.text == "!"
        if is_negated:
            self.consume()
        key = self.consume()
        if not key.is_word:
            raise _refused(f"unable to parse requirement: found '{key.text}', expected: identifier")
        if self.next in (END, _COMMA):
            return LabelTerm(key.text, "DoesNotExist" if is_negated else "Exists")
        operator = self.consume()
        if is_negated or operator.text not in _OPERATORS:
            raise _refused(f"unable to parse requirement: found '{operator.text}', expected: {_EXPECTED_OPERATORS}")
        values = self._set() if operator.is_word else (self._value(),)
        return LabelTerm(key.text, _OPERATORS[operator.text], values)

    def _value(self) -> str:
        if self.next in (END, _COMMA):
            return ""
        token = self.consume()
        if not token.is_word:
            raise _refused(f"unable to parse requirement: found '{token.text}', expected: identifier")
        return token.text

    def _set(self) -> tuple[str, ...]:
        """The values of `(a, b)`; a value between commas may be empty."""
        token = self.consume()
        if token.text != "(":
            raise _refused(f"unable to parse requirement: found '{token.text}' expected: '('")
        values: dict[str, None] = {}
        while True:
            token = self.consume()
            value = token.text if token.is_word else ""
            if token.is_word:
                token = self.consume()
            values[value] = None
            if token.text == ")":
                return tuple(values)
            if token != _COMMA:
                raise _refused(f"unable to parse requirement: found '{token.text}', expected: ',' or ')'")


_COMMA = Token(",", is_word=False)


def _refused(message: str) -> errors.ApiError:
    return errors.bad_request(message)


def label_terms(text: str) -> list[LabelTerm]:
    """The terms of a selector such as `app=web,tier in (a, b),!canary`; ApiError 400 on errors."""
    _check_length(text)
    parser = _LabelParser(text)
    terms: list[LabelTerm] = []
    if parser.next == END:
        return terms
    while True:
        if not parser.next.is_word and parser.next.text != "!":
            expected = "identifier after ','" if terms else "!, identifier, or 'end of string'"
            raise _refused(f"found '{parser.next.text}', expected: {expected}")
        terms.append(parser.requirement())
        _check_count(len(terms))
        token = parser.consume()
        if token == END:
            return terms
        if token != _COMMA:
            raise _refused(f"found '{token.text}', expected: ',' or 'end of string'")


def field_terms(text: str) -> list[FieldTerm]:
    """The terms of a selector such as `metadata.name=a,spec.nodeName!=b`; ApiError 400 on errors.

    A backslash takes away the meaning of a comma, an equals sign or a backslash in a value.
    """
    _check_length(text)
    terms = [_field_term(term, text) for term in _split_at_commas(text) if term.strip()]
    _check_count(len(terms))
    return terms


def _split_at_commas(text: str) -> Iterator[str]:
    start = position = 0
    while position < len(text):
        if text[position] == ",":
            yield text[start:position]
            start = position + 1
        position += 2 if text[position] == "\\" else 1
    yield text[start:]


def _field_term(term: str, text: str) -> FieldTerm:
    positions = [position for position in (term.find("!="), term.find("=")) if position >= 0]
    if not positions:
        raise _refused(f"invalid selector: '{text:.200}'; can't understand '{term:.200}'")
    start = min(positions)
    operator = next(operator for operator in _FIELD_OPERATORS if term.startswith(operator, start))
    return FieldTerm(term[:start].strip(), operator != "!=", _unescaped(term[start + len(operator) :].strip()))


def _unescaped(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    characters = []
    position = 0
    while position < len(value):
        character = value[position]
        if character == "=":
            raise _refused("invalid field selector: unescaped character in value: =")
        if character == "\\":
            position += 1
            character = value[position : position + 1]
            if character not in ("\\", ",", "="):
                raise _refused(f"invalid field selector: invalid escape sequence: \\{character}")
        characters.append(character)
        position += 1
    return "".join(characters)
