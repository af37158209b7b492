"""More functions of strings: cel-go's `ext.Strings` in version 2, and regular expressions."""

import re
from collections.abc import Iterator
from typing import Any

from pykueue.api.cel import cost, formatting
from pykueue.api.cel.conversions import regular_expression
from pykueue.api.cel.errors import CelError, CostLimitError
from pykueue.api.cel.functions import Functions

_LOWER = {ord("A") + index: ord("a") + index for index in range(26)}
_UPPER = {ord("a") + index: ord("A") + index for index in range(26)}
_QUOTED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    "\\": "\\\\",
    '"': '\\"',
}
_TO_QUOTE = re.compile(r"[\a\b\f\n\r\t\v\\\"]")
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        if not part:
            return len(text)
        return text.rfind(part)
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _replaced_size(text: str, old: str, new: str, *_: int) -> int:
    """The traversal and the result, which cel-go does not count although it may be long."""
    growth = len(new) - len(old)
    longest = len(text) // max(len(old), 1) * growth if growth > 0 else 0
    return cost.traversal(text, 2) + (text.count(old) * growth // 10 if longest > len(text) else 0)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _split_cost(text: str, *_: Any) -> int:
    return cost.traversal(text, 2)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    return text[start:last]


def _join(items: list[Any], separator: str = "") -> str:
    for item in items:
        if not isinstance(item, str):
            raise CelError(f"join: invalid input: {formatting.text(item)}")
    return separator.join(items)


def _joined_size(items: list[Any], separator: str = "") -> int:
    size = sum(len(item) for item in items if isinstance(item, str)) + len(separator) * max(len(items) - 1, 0)
    return -(-size * 2 // 10)


def quote(text: str) -> str:
    return '"' + _TO_QUOTE.sub(lambda match: _QUOTED[match[0]], text) + '"'


def _find(text: str, pattern: str) -> str:
    match = regular_expression(pattern).search(text)
    return match[0] if match else ""


_MOST_MATCHES = 3000
"""Each takes three microseconds, so all together as long as an expression may."""


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    matches: Iterator[Any] = regular_expression(pattern).finditer(text)
    texts: list[str] = []
    for match in matches:
        if len(texts) == count:
            break
        if len(texts) == _MOST_MATCHES:
            raise CostLimitError
        texts.append(match[0])
    return texts


def add_strings(functions: Functions) -> None:
    add = functions.add
    add("charAt", "string_char_at_int", "string.(int) -> string", _char_at)
    add("indexOf", "string_index_of_string", "string.(string) -> int", _index_of, cost=cost.tree)
    add("indexOf", "string_index_of_string_int", "string.(string, int) -> int", _index_of, cost=cost.tree)
    add("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", _last_index_of, cost=cost.tree)
    add("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int", _last_index_of, cost=cost.tree)
    add("lowerAscii", "string_lower_ascii", "string.() -> string", lambda text: text.translate(_LOWER), cost=cost.first)
    add("upperAscii", "string_upper_ascii", "string.() -> string", lambda text: text.translate(_UPPER), cost=cost.first)
    add("replace", "string_replace_string_string", "string.(string, string) -> string", _replace, cost=_replaced_size)
    add(
        "replace",
        "string_replace_string_string_int",
        "string.(string, string, int) -> string",
        _replace,
        cost=_replaced_size,
    )
    add("split", "string_split_string", "string.(string) -> list(string)", _split, cost=_split_cost)
    add("split", "string_split_string_int", "string.(string, int) -> list(string)", _split, cost=_split_cost)
    add("substring", "string_substring_int", "string.(int) -> string", _substring, cost=cost.first)
    add("substring", "string_substring_int_int", "string.(int, int) -> string", _substring, cost=cost.first)
    add("trim", "string_trim", "string.() -> string", lambda text: text.strip(_SPACE), cost=cost.first)
    add("format", "string_format", "string.(list(dyn)) -> string", formatting.format_text, cost=formatting.format_cost)
    add("strings.quote", "strings_quote", "(string) -> string", quote, cost=cost.first)
    add("join", "list_join", "list(string).() -> string", _join, cost=_joined_size)
    add("join", "list_join_string", "list(string).(string) -> string", _join, cost=_joined_size)
    add("find", "string_find_string", "string.(string) -> string", _find, cost=cost.matching)
    for name, signature in (
        ("string_find_all_string", "string.(string) -> list(string)"),
        ("string_find_all_string_int", "string.(string, int) -> list(string)"),
    ):
        add("findAll", name, signature, _find_all, cost=cost.matching, result_cost=cost.matches)
