"""Conversions between types, `type()`, `dyn()`, and the string functions of CEL itself."""

import math
import re
from collections.abc import Callable
from typing import Any

from pykueue.api import text_cache, text_formats
from pykueue.api.cel import cost, times, values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import LARGEST_INT, LARGEST_UINT, SMALLEST_INT, Duration, Timestamp, TypeValue, UInt

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]{1,40}", re.ASCII)
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)


def _refuse(kind: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{kind}'")


def _text_to_int(text: str) -> int:
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not SMALLEST_INT <= number <= LARGEST_INT:
        raise _refuse("int")
    return number


def _text_to_uint(text: str) -> UInt:
    number = int(text) if _UNSIGNED.fullmatch(text) else None
    if number is None or number > LARGEST_UINT:
        raise _refuse("uint")
    return UInt(number)


def _text_to_double(text: str) -> float:
    if not _DOUBLE.fullmatch(text):
        raise _refuse("double")
    number = float(text)
    if math.isinf(number) and "n" not in text.lower():
        raise _refuse("double")
    return number


def _text_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _refuse("bool")
    return _BOOLS[text]


def _double_to_int(number: float) -> int:
    if not math.isfinite(number) or not -(2.0**63) < number < 2.0**63:
        raise CelError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> UInt:
    if not math.isfinite(number) or not 0 <= number < 2.0**64:
        raise CelError("unsigned integer overflow")
    return UInt(int(number))


def _int_to_uint(number: int) -> UInt:
    if number < 0:
        raise CelError("unsigned integer overflow")
    return UInt(number)


def _uint_to_int(number: int) -> int:
    if number > LARGEST_INT:
        raise CelError("integer overflow")
    return int(number)


def _bytes_to_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_to_text(number: float) -> str:
    """As Go prints it with `%g`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    digits, exponent = _digits(number)
    sign = "-" if math.copysign(1, number) < 0 else ""
    if -4 <= exponent < 6:
        return sign + plain_digits(digits, exponent)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{exponent:+03d}"


def _digits(number: float) -> tuple[str, int]:
    """The digits of the shortest text that is this number, and the exponent of the first."""
    exponent = f"{abs(number):.17e}".partition("e")[2]
    digits = repr(abs(number)).partition("e")[0].replace(".", "").strip("0")
    return digits or "0", int(exponent) if number else 0


def plain_digits(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def type_of(value: Any) -> TypeValue:
    return TypeValue(values.type_name(value))


def matches(text: str, pattern: str) -> bool:
    return regular_expression(pattern).search(text) is not None


@text_cache.cached(4096)
def regular_expression(pattern: str) -> Any:
    """Compiled by RE2, as in Kubernetes; CelError if it cannot be read."""
    try:
        return text_formats.compiled_by_re2(pattern)
    except ValueError as error:
        raise CelError(f"error parsing regexp: {error}") from None


def int_to_duration(_: int) -> Duration:
    raise CelError("type conversion error from 'int' to 'google.protobuf.Duration'")


def _nothing(value: Any) -> Any:
    return value


_TO_TEXT: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("bool", lambda value: "true" if value else "false"),
    ("double", double_to_text),
    ("duration", times.duration_text),
    ("int", str),
    ("timestamp", times.timestamp_text),
    ("uint", lambda value: str(int(value))),
)


def _reading(_: str) -> int:
    return 1 + cost.PARSING


def add_conversions(functions: Functions) -> None:
    add = functions.add
    for kind in ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"):
        add(kind, f"{kind}_to_{kind}", f"({kind}) -> {kind}", _nothing)
    add("type", "type", "(A) -> type(A)", type_of)
    add("dyn", "to_dyn", "(A) -> dyn", _nothing)
    add("bool", "string_to_bool", "(string) -> bool", _text_to_bool)
    add("bytes", "string_to_bytes", "(string) -> bytes", str.encode, cost=cost.first)
    add("double", "int64_to_double", "(int) -> double", float)
    add("double", "string_to_double", "(string) -> double", _text_to_double)
    add("double", "uint64_to_double", "(uint) -> double", float)
    add("duration", "int64_to_duration", "(int) -> duration", int_to_duration)
    add("duration", "string_to_duration", "(string) -> duration", times.duration, cost=_reading)
    add("int", "double_to_int64", "(double) -> int", _double_to_int)
    add("int", "duration_to_int64", "(duration) -> int", lambda value: value.ns)
    add("int", "string_to_int64", "(string) -> int", _text_to_int)
    add("int", "timestamp_to_int64", "(timestamp) -> int", lambda value: value.ns // values.NS_PER_SECOND)
    add("int", "uint64_to_int64", "(uint) -> int", _uint_to_int)
    add("string", "bytes_to_string", "(bytes) -> string", _bytes_to_text, cost=cost.first)
    for kind, to_text in _TO_TEXT:
        add("string", f"{kind}_to_string", f"({kind}) -> string", to_text)
    add("timestamp", "int64_to_timestamp", "(int) -> timestamp", lambda value: Timestamp(value * values.NS_PER_SECOND))
    add("timestamp", "string_to_timestamp", "(string) -> timestamp", times.timestamp, cost=_reading)
    add("uint", "double_to_uint64", "(double) -> uint", _double_to_uint)
    add("uint", "int64_to_uint64", "(int) -> uint", _int_to_uint)
    add("uint", "string_to_uint64", "(string) -> uint", _text_to_uint)
    add("contains", "contains_string", "string.(string) -> bool", lambda a, b: b in a, cost=cost.containment)
    add("startsWith", "starts_with_string", "string.(string) -> bool", str.startswith, cost=cost.first)
    add("endsWith", "ends_with_string", "string.(string) -> bool", str.endswith, cost=cost.first)
    add("matches", "matches", "(string, string) -> bool", matches, cost=cost.matching)
    add("matches", "matches_string", "string.(string) -> bool", matches, cost=cost.matching)
