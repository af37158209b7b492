"""Kubernetes' libraries of quantities and of semantic versions."""

import functools
import re
from typing import Any

from pykueue.api import quantity
from pykueue.api.cel import cost, types
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import LARGEST_INT, LARGEST_UINT, Opaque

_QUANTITY, _SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
_NUMBER = re.compile(r"[+-]?[0-9]*(?:\.([0-9]*))?(.*)")
_EXPONENTS = {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "": 0, "m": -3, "u": -6, "n": -9}


class QuantityValue(Opaque):
    """`is_integer` depends on how the quantity is written: "1000m" is none, "1" is one."""

    __slots__ = ("is_integer", "nano")
    cel_type = types.Type("struct", _QUANTITY)

    def __init__(self, nano: int, *, is_integer: bool) -> None:
        self.nano = nano
        self.is_integer = is_integer and abs(nano) <= LARGEST_INT * quantity.NANO_PER_UNIT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)


@functools.lru_cache(maxsize=4096)
def read_quantity(text: str) -> QuantityValue:
    try:
        amount = quantity.parse(text)
    except quantity.QuantityError:
        raise CelError(quantity.SYNTAX_ERROR) from None
    return QuantityValue(amount.nano, is_integer=_is_integer(text))


def _is_integer(text: str) -> bool:
    match = _NUMBER.fullmatch(text)
    assert match is not None
    digits, suffix = match[1] or "", match[2]
    if suffix.endswith("i"):
        return "." not in text
    is_exponent = suffix[:1] in ("e", "E") and len(suffix) > 1
    exponent = int(suffix[1:]) if is_exponent else _EXPONENTS[suffix]
    return exponent >= len(digits)


def _is_quantity(text: str) -> bool:
    try:
        read_quantity(text)
    except CelError:
        return False
    return True


def _sum(left: QuantityValue, right: QuantityValue | int, sign: int = 1) -> QuantityValue:
    other = QuantityValue(right * quantity.NANO_PER_UNIT, is_integer=True) if isinstance(right, int) else right
    return QuantityValue(left.nano + sign * other.nano, is_integer=left.is_integer and other.is_integer)


def _difference(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
    return _sum(left, right, -1)


def _integer(amount: QuantityValue) -> int:
    if not amount.is_integer:
        raise CelError("cannot convert value to integer")
    return amount.nano // quantity.NANO_PER_UNIT


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


class Semver(Opaque):
    """A version; `order` is what it is compared by, without the build metadata."""

    __slots__ = ("numbers", "order")
    cel_type = types.Type("struct", _SEMVER)

    def __init__(self, numbers: tuple[int, ...], prerelease: tuple[Any, ...]) -> None:
        self.numbers = numbers
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in prerelease)
        self.order = (numbers, (not prerelease, parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)


_PARTS = ("Major", "Minor", "Patch")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@functools.lru_cache(maxsize=4096)
def read_semver(text: str, is_tolerant: bool = False) -> Semver:  # noqa: FBT001, FBT002 - the argument of CEL
    if is_tolerant:
        text = _normalized(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    rest, _, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = tuple(map(_number, _PARTS, (parts[0], parts[1], patch)))
    for name, is_present, identifiers in (
        ("Build meta data", "+" in parts[2], build),
        ("Prerelease", bool(dash), prerelease),
    ):
        for identifier in identifiers.split(".") if is_present else ():
            if not identifier:
                raise CelError(f"{name} is empty")
            if not _IDENTIFIER.fullmatch(identifier):
                word = "build meta data" if name.startswith("Build") else "prerelease"
                raise CelError(f'Invalid character(s) found in {word} "{identifier}"')
    return Semver(numbers, tuple(map(_identifier, prerelease.split("."))) if dash else ())


def _normalized(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(character in parts[-1] for character in "+-"):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() else f"0{stripped}"


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelError(f'Invalid character(s) found in {name.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise CelError(f'{name} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > LARGEST_UINT:
        raise CelError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _identifier(text: str) -> int | str:
    if not _DIGITS.fullmatch(text):
        return text
    if len(text) > 1 and text[0] == "0":
        raise CelError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    return int(text[:40])


def _is_semver(text: str, is_tolerant: bool = False) -> bool:  # noqa: FBT001, FBT002 - the argument of CEL
    try:
        read_semver(text, is_tolerant)
    except CelError:
        return False
    return True


def add_amounts(functions: Functions) -> None:
    add, of, version = functions.add, _QUANTITY, _SEMVER
    add("quantity", "string_to_quantity", f"(string) -> {of}", read_quantity, cost=cost.parsing)
    add("isQuantity", "is_quantity_string", "(string) -> bool", _is_quantity, cost=cost.parsing)
    add("sign", "quantity_sign", f"({of}) -> int", lambda amount: _sign(amount.nano))
    add("isGreaterThan", "quantity_is_greater_than", f"{of}.({of}) -> bool", lambda a, b: a.nano > b.nano)
    add("isLessThan", "quantity_is_less_than", f"{of}.({of}) -> bool", lambda a, b: a.nano < b.nano)
    add("compareTo", "quantity_compare_to", f"{of}.({of}) -> int", lambda a, b: _sign(a.nano - b.nano))
    add("asApproximateFloat", "quantity_get_float", f"{of}.() -> double", lambda a: a.nano / quantity.NANO_PER_UNIT)
    add("asInteger", "quantity_get_int", f"{of}.() -> int", _integer)
    add("isInteger", "quantity_is_integer", f"{of}.() -> bool", lambda amount: amount.is_integer)
    add("add", "quantity_add", f"{of}.({of}) -> {of}", _sum)
    add("add", "quantity_add_int", f"{of}.(int) -> {of}", _sum)
    add("sub", "quantity_sub", f"{of}.({of}) -> {of}", _difference)
    add("sub", "quantity_sub_int", f"{of}.(int) -> {of}", _difference)
    add("semver", "string_to_semver", f"(string) -> {version}", read_semver, cost=cost.parsing)
    add("semver", "string_bool_to_semver", f"(string, bool) -> {version}", read_semver, cost=cost.parsing)
    add("isSemver", "is_semver_string", "(string) -> bool", _is_semver, cost=cost.parsing)
    add("isSemver", "is_semver_string_bool", "(string, bool) -> bool", _is_semver, cost=cost.parsing)
    add("isGreaterThan", "semver_is_greater_than", f"{version}.({version}) -> bool", lambda a, b: a.order > b.order)
    add("isLessThan", "semver_is_less_than", f"{version}.({version}) -> bool", lambda a, b: a.order < b.order)
    add(
        "compareTo",
        "semver_compare_to",
        f"{version}.({version}) -> int",
        lambda a, b: (a.order > b.order) - (a.order < b.order),
    )
    add("major", "semver_major", f"{version}.() -> int", lambda value: value.numbers[0])
    add("minor", "semver_minor", f"{version}.() -> int", lambda value: value.numbers[1])
    add("patch", "semver_patch", f"{version}.() -> int", lambda value: value.numbers[2])
