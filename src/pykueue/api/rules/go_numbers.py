"""Numbers and booleans in labels and annotations, read as Go reads them, with Go's complaints."""

import re

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


class GoSyntaxError(ValueError):
    """The text is not such a value; the message is Go's."""


def atoi(text: str, bits: int = 64) -> int:
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None:
        raise GoSyntaxError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    value = int(text) if len(digits) <= 20 else 2**bits
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise GoSyntaxError(f'strconv.Atoi: parsing "{text}": value out of range')
    return value


def parse_bool(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise GoSyntaxError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in _TRUE
