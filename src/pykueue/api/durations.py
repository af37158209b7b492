"""Go durations (`1h30m`, `250ms`), as the Configuration writes them, to integer nanoseconds."""

import re
from fractions import Fraction

_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_LONGEST = 256


def to_ns(text: str) -> int:
    unsigned = text.removeprefix("-")
    if unsigned == "0":
        return 0
    is_readable = len(unsigned) <= _LONGEST and _DURATION.fullmatch(unsigned) is not None
    parts = _PART.findall(unsigned) if is_readable else []
    if not parts:
        raise ValueError(f'"{text:.80}" is not a duration; write one like "1h30m" or "250ms"')
    total = sum(int(Fraction(number) * _UNITS_NS[unit]) for number, unit in parts)
    return -total if text.startswith("-") else total
