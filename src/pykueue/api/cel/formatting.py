"""`"%s of %d".format([…])`, and how values are printed as text."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from pykueue.api.cel import conversions, cost, times, values
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.values import Duration, Timestamp, TypeValue, UInt

_DEFAULT_PRECISION = 6
_LARGEST_PRECISION = 1000
_CLAUSE = re.compile(r"%(?:\.([0-9]*))?(.?)", re.DOTALL)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPECIAL = ("NaN", "Infinity", "-Infinity")


def text(value: Any) -> str:
    """What `%s` prints."""
    if isinstance(value, list | dict):
        return _nested(value)
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return conversions.double_to_text(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Timestamp):
        return times.timestamp_text(value)
    if isinstance(value, Duration):
        return times.duration_text(value)
    if isinstance(value, TypeValue):
        return value.name
    raise CelError(
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
        f"lists, types, durations, and timestamps, was given {values.type_name(value)}"
    )


def _nested(value: Any) -> str:
    """A value inside of a list or map: as CEL writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, dict):
        pairs = sorted((_nested(key), _nested(item)) for key, item in values.items(value))
        return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"b{json.dumps(value.decode(errors='replace'), ensure_ascii=False)}"
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else json.dumps(text(value))
    if isinstance(value, Timestamp):
        return f'timestamp("{text(value)}")'
    if isinstance(value, Duration):
        return f'duration("{text(value)}")'
    return text(value)


def _mismatch(clause: str, expected: str, value: Any) -> CelError:
    return CelError(
        f"error during formatting: {clause} clause can only be used on {expected}, was given {values.type_name(value)}"
    )


def _decimal(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise _mismatch("decimal", "integers", value)


def _double(value: Any, clause: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    if isinstance(value, float):
        return value
    raise _mismatch(clause, "doubles", value)


def _fixed(value: Any, precision: int) -> str:
    number = _double(value, "fixed-point")
    return f"{number:,.{precision}f}" if math.isfinite(number) else _special(number)


def _scientific(value: Any) -> str:
    number = _double(value, "scientific")
    if not math.isfinite(number):
        return _special(number)
    mantissa, _, exponent = f"{number:.{_DEFAULT_PRECISION}e}".partition("e")
    return f"{mantissa}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}∞"


def _binary(value: Any) -> str:
    if isinstance(value, int):
        return f"{int(value):b}"
    raise _mismatch("binary", "integers and bools", value)


def _hexadecimal(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{int(value):x}"
    raise _mismatch("hex", "integers, byte buffers, and strings", value)


def _octal(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{int(value):o}"
    raise _mismatch("octal", "integers", value)


_CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "s": lambda value, _: text(value),
    "d": lambda value, _: _decimal(value),
    "f": _fixed,
    "e": lambda value, _: _scientific(value),
    "b": lambda value, _: _binary(value),
    "x": lambda value, _: _hexadecimal(value),
    "X": lambda value, _: _hexadecimal(value).upper(),
    "o": lambda value, _: _octal(value),
}


def format_text(template: str, arguments: list[Any]) -> str:
    return expand(template, arguments, [])


def expand(template: str, arguments: list[Any], used: list[Any]) -> str:
    """The template with its clauses replaced; `used` gets the arguments one after another."""

    def clause(match: re.Match[str]) -> str:
        if match[2] == "%" and match[1] is None:
            return "%"
        if not match[2]:
            raise CelError("unexpected end of string")
        if match[2] not in _CLAUSES:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{match[2]}"')
        precision = int(match[1][:8]) if match[1] else _DEFAULT_PRECISION
        if precision > _LARGEST_PRECISION:
            raise CelError(f"could not parse formatting clause: precision is more than {_LARGEST_PRECISION}")
        if len(used) >= len(arguments):
            raise CelError(f"index {len(used)} out of range")
        argument = arguments[len(used)]
        used.append(argument)
        return "" if argument is ANY else _CLAUSES[match[2]](argument, precision)

    return _CLAUSE.sub(clause, template)


def format_cost(template: str, arguments: list[Any]) -> int:
    """cel-go counts the template; what is printed may be longer."""
    return cost.traversal(template) + sum(
        cost.PRINTING * cost.nested(argument) if isinstance(argument, dict | list) else _printed(argument)
        for argument in arguments
    )


def _printed(argument: Any) -> int:
    return len(argument) // 10 if isinstance(argument, str | bytes) else 0


ANY = object()
"""Stands for a value of a type that is not known, which every clause takes."""
SAMPLES: dict[str, Any] = {
    "int": 1,
    "uint": UInt(1),
    "double": 1.0,
    "bool": True,
    "string": "NaN",
    "bytes": b"",
    "null": None,
    "list": [],
    "map": {},
    "timestamp": Timestamp(0),
    "duration": Duration(0),
    "type": TypeValue("int"),
}
"""A value of each type, to check a template against types before there are values."""
