"""Patterns and formats of strings, as Go reads them. Used by `schema_validation`."""

import base64
import binascii
import datetime as dt
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pykueue.api import text_cache


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, value: str, /) -> object: ...


_ours: dict[str, re.Pattern[str]] = {}
"""Patterns of our own types, which are linear in Python's engine as well (`tests/cost`)."""


def declare(text: str) -> None:
    """Let Python's engine match a pattern of our own types: it is eight times faster."""
    flags = "".join(re.findall(r"\(\?([ims]+)\)", text))
    body = re.sub(r"\(\?[ims]+\)", "", text)
    if body.endswith("$"):
        body = body[:-1] + r"\Z"
    _ours[text] = re.compile(f"(?{flags}){body}" if flags else body, re.ASCII)


def declared(text: str) -> str:
    """A declared pattern in the syntax of Python; empty for any other, which may be slow there."""
    return _ours[text].pattern if text in _ours else ""


def declared_patterns() -> frozenset[str]:
    return frozenset(_ours)


def pattern(text: str) -> Pattern:
    """A regular expression as Go reads it.

    Users write patterns into CustomResourceDefinitions. They are matched by RE2, as in Kubernetes,
    in a time that grows with the length of the value alone.
    """
    return _ours.get(text) or regular_expression(text)


@text_cache.cached(4096)
def regular_expression(text: str) -> Any:
    """Compiled by RE2; an expression that RE2 cannot read matches nothing."""
    try:
        return compiled_by_re2(text)
    except ValueError:
        return _NothingMatches()


def compiled_by_re2(text: str) -> Any:
    """ValueError, with the words of RE2, if it cannot read the expression."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from None


class _NothingMatches:
    def search(self, _value: str, /) -> None:
        return None

    def finditer(self, _value: str, /) -> Iterator[Any]:
        return iter(())


def conforms(name: str, value: str) -> bool:
    """Whether a string has the format; formats that Kubernetes does not check are not checked."""
    check = _CHECKS.get(name)
    if check is None:
        return True
    try:
        return check(value)
    except (ValueError, binascii.Error):
        return False


_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_DURATION = re.compile(
    r"[+-]?(?:0|(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))*)"
)
_HOSTNAME = re.compile(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})?"
    r"|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}",
    re.ASCII,
)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def _is_time(value: str) -> bool:
    if not _TIME.fullmatch(value):
        return False
    dt.date.fromisoformat(value[:10])
    return True


def _parses(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        read(value)
        return True

    return check


_CHECKS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_time,
    "datetime": _is_time,
    "date": _parses(dt.date.fromisoformat),
    "duration": lambda value: _DURATION.fullmatch(value) is not None,
    "byte": _parses(lambda value: base64.b64decode(value, validate=True)),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(lambda value: ipaddress.ip_network(value, strict=False)),
    "uuid": _parses(uuid.UUID),
    "uri": lambda value: _SCHEME.match(value) is not None,
    "hostname": lambda value: len(value) <= 253 and _HOSTNAME.fullmatch(value) is not None,
    "email": lambda value: _EMAIL.fullmatch(value) is not None,
}
