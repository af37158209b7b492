"""Integers in query parameters and headers, as Go reads them.

Python reads underscores, blanks and digits of every script, and fails on thousands of digits.
"""

from pykueue.api import errors

_LONGEST = 20
_EXCERPT = 80


def signed(text: str, name: str) -> int:
    """An int64; ApiError 400 otherwise."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return _checked(text, name, digits, lowest=-(2**63), highest=2**63 - 1)


def unsigned(text: str, name: str) -> int:
    """A uint64; ApiError 400 otherwise."""
    return _checked(text, name, text, lowest=0, highest=2**64 - 1)


def _checked(text: str, name: str, digits: str, *, lowest: int, highest: int) -> int:
    function = "strconv.ParseUint" if lowest == 0 else "strconv.ParseInt"
    if not (digits.isascii() and digits.isdigit()):
        raise errors.bad_request(f'{name}: {function}: parsing "{text:.{_EXCERPT}}": invalid syntax')
    if len(digits.lstrip("0")) > _LONGEST or not lowest <= (value := int(text)) <= highest:
        raise errors.bad_request(f'{name}: {function}: parsing "{text:.{_EXCERPT}}": value out of range')
    return value
