"""Patterns and formats of strings, as Go reads them. Used by `schema_validation`."""

import base64
import binascii
import datetime as dt
import functools
import ipaddress
import re
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit


@functools.lru_cache(maxsize=4096)
def pattern(text: str) -> re.Pattern[str]:
    """A Go regular expression for Python: flags anywhere, `$` matches only at the end."""
    flags = "".join(re.findall(r"\(\?([ims]+)\)", text))
    body = re.sub(r"\(\?[ims]+\)", "", text).replace(r"\z", r"\Z")
    if "m" not in flags and body.endswith("$") and not body.endswith(r"\$"):
        body = body[:-1] + r"\Z"
    try:
        return re.compile(f"(?{flags}){body}" if flags else body, re.ASCII)
    except re.error:
        return re.compile("")


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
    "uri": lambda value: bool(urlsplit(value).scheme),
    "hostname": lambda value: len(value) <= 253 and _HOSTNAME.fullmatch(value) is not None,
    "email": lambda value: _EMAIL.fullmatch(value) is not None,
}
