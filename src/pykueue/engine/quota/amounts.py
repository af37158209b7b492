"""Amounts: saturating 64-bit integers in which the greatest value means "unlimited".

Units are milli-CPU for `cpu` and whole units for every other resource; `translate` converts. Every sum and difference
of quota goes through `add` and `sub`, so that "unlimited" stays unlimited whatever is taken from it.
"""

from typing import Final

UNLIMITED: Final = 2**63 - 1
LEAST: Final = -(2**63)


def add(left: int, right: int) -> int:
    if UNLIMITED in (left, right):
        return UNLIMITED
    total = left + right
    if LEAST <= total <= UNLIMITED:
        return total
    return UNLIMITED if total > 0 else LEAST


def sub(left: int, right: int) -> int:
    if left == UNLIMITED:
        return 0 if right == UNLIMITED else UNLIMITED
    if right == UNLIMITED:
        return LEAST
    difference = left - right
    if LEAST <= difference <= UNLIMITED:
        return difference
    return UNLIMITED if difference > 0 else LEAST


def mul(amount: int, factor: int) -> int:
    return max(LEAST, min(UNLIMITED, amount * factor))
