"""YAML as `kubectl` reads and writes it: YAML 1.1 with the scalars of Go's library.

`plain_value` gives the value of a scalar, for `yaml_reader`. `dump` writes objects so that every
reader gets the same values back: `yes`, `0644`, `1e3` and `12:30` stay strings. Every command that
prints manifests uses it.
"""

import base64
import binascii
import functools
import math
import re
from collections.abc import Iterable
from typing import Any

import yaml

from pykueue.api import escaping
from pykueue.api.scheme import Object

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]*|[1-9]\d*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", re.ASCII)
_STARTS_NUMBER = frozenset("+-.0123456789")
_LONGEST_NUMBER = 400


class NotJsonError(ValueError):
    """A value that JSON cannot represent."""


def plain_value(text: str, tag: str | None, *, is_plain: bool) -> Any:
    """The value of a scalar; a quoted or `!!str` scalar is a string."""
    if is_plain and tag is None:
        return _resolved(text)
    if tag is None or tag in ("!", "tag:yaml.org,2002:str"):
        return text
    return _tagged(text, tag)


def _resolved(text: str) -> Any:
    return _number_or_word(text) if len(text) <= _LONGEST_NUMBER else text


@functools.lru_cache(maxsize=8192)
def _number_or_word(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise NotJsonError(f"{text} cannot be written as JSON")
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isinf(value):
            raise NotJsonError(f"{text} is too large for a number")
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return text


def _integer(digits: str) -> int:
    sign, body = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if re.fullmatch(r"0o?[0-7]+", body):
        return sign * int(body.replace("o", ""), 8)
    return sign * int(body, 0)


def _tagged(text: str, tag: str) -> Any:
    short = tag.removeprefix("tag:yaml.org,2002:")
    if short == "binary":
        try:
            return base64.b64decode(text, validate=False).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise NotJsonError("!!binary holds no text") from None
    if short in ("int", "float", "bool", "null"):
        return _resolved(text)
    if short == "timestamp":
        return text
    raise NotJsonError(f"tag {tag} is not known here")


def key_text(value: Any) -> str:
    """A mapping key as JSON represents it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


class _Dumper(yaml.CSafeDumper):
    """Never writes aliases, and quotes every string that would be read as another type."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and not _has_odd_lines(value) else None
    if style is None and not _is_safe_plain(value):
        style = "'" if value.isprintable() and value else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _has_odd_lines(value: str) -> bool:
    return any(line != line.rstrip() for line in value.split("\n")) or "\t" in value or value[0] in " \n"


def _is_safe_plain(value: str) -> bool:
    try:
        return bool(plain_value(value, None, is_plain=True) == value)
    except NotJsonError:
        return False


_Dumper.add_representer(str, _text)


def dump(objects: Iterable[Object]) -> str:
    """One document for each object; fields keep their order.

    A document with characters that a terminal obeys has all but ASCII in escapes.
    """
    return "".join(map(_document, objects))


def _document(obj: Object) -> str:
    dump_as = functools.partial(yaml.dump, obj, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=2**20)
    text = str(dump_as(allow_unicode=True))
    return text if escaping.paragraphs(text) == text else str(dump_as(allow_unicode=False))
