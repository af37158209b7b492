"""Kubernetes quantities: exact, parsed and printed as Kubernetes does.

import msgspec

A quantity is an integer number of nano-units (the finest unit of Kubernetes; finer input is
rounded up) and a format. Used by validation, by `translate` (which passes plain integers to the
engine) and wherever a quantity is printed.
"""

import enum
import functools
import re

import msgspec

NANO_PER_UNIT = 10**9
MAX_UNITS = 2**63 - 1


class Format(enum.Enum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT = {0: ""} | {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}
_PATTERN = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,4}|[numkMGTPE]?)", re.ASCII)
_LONGEST = 256

SYNTAX_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    """The text is not a quantity; the message is that of Kubernetes."""


class Quantity(msgspec.Struct, frozen=True):
    nano: int
    format: Format = Format.DECIMAL_SI

    def units(self) -> int:
        """Whole units, rounded up (away from zero)."""
        return _round_away(self.nano, NANO_PER_UNIT)

    def milli(self) -> int:
        return _round_away(self.nano, 10**6)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __str__(self) -> str:
        if self.nano == 0:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * NANO_PER_UNIT:
            return _binary_text(self.units())
        return _decimal_text(self.nano, self.format)


@functools.lru_cache(maxsize=65536)
def parse(text: str | float | None) -> Quantity:
    """Read a quantity as the API server does: a string, a JSON number, or null, which is 0."""
    if text is None:
        return Quantity(0)
    text = str(text)
    if not text:
        raise QuantityError("quantities must match the regular expression, got an empty string")
    match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(SYNTAX_ERROR)
    sign, digits, suffix = match.groups()
    whole, _, fraction = digits.partition(".")
    mantissa = int(whole + fraction or "0")
    if suffix in _BINARY_SUFFIXES:
        numerator, exponent, quantity_format = mantissa << _BINARY_SUFFIXES[suffix], 9, Format.BINARY_SI
    elif suffix in _DECIMAL_SUFFIXES:
        numerator, exponent, quantity_format = mantissa, 9 + _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    else:
        numerator, exponent, quantity_format = mantissa, 9 + int(suffix[1:]), Format.DECIMAL_EXPONENT
    nano = min(_scaled_up(numerator, exponent - len(fraction)), MAX_UNITS * NANO_PER_UNIT)
    return Quantity(-nano if sign == "-" else nano, quantity_format)


def from_milli(amount: int) -> Quantity:
    return Quantity(amount * 10**6, Format.DECIMAL_SI)


def from_units(amount: int, quantity_format: Format = Format.DECIMAL_SI) -> Quantity:
    return Quantity(amount * NANO_PER_UNIT, quantity_format)


def _scaled_up(numerator: int, exponent: int) -> int:
    """`numerator * 10**exponent`, rounded up; a huge exponent is limited before it is computed."""
    if numerator == 0:
        return 0
    if exponent >= 0:
        return numerator * int(10 ** min(exponent, 40))
    if -exponent > len(str(numerator)) + 1:
        return 1
    return -(-numerator // int(10**-exponent))


def _round_away(nano: int, step: int) -> int:
    return -(-nano // step) if nano >= 0 else nano // step


def _binary_text(units: int) -> str:
    exponent = 0
    while exponent < 60 and units % 1024 == 0:
        units //= 1024
        exponent += 10
    return f"{units}{_BINARY_BY_EXPONENT[exponent]}"


def _decimal_text(nano: int, quantity_format: Format) -> str:
    exponent = -9
    while exponent < 18 and nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    if quantity_format is Format.DECIMAL_EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_BY_EXPONENT[exponent]}"
