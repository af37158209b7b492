"""Amounts: saturating 64-bit integers whose greatest value means "unlimited".

The unit is milli-CPU for `cpu` and one unit for every other resource; `translate` converts
quantities. Every sum and difference of quota uses `add` and `sub`, so that "unlimited" minus an
amount stays "unlimited".
"""

from typing import Final

UNLIMITED: Final = 2**63 - 1
LEAST: Final = -(2**63)
EXACT: Final = 2**61
"""Sums and differences of a few amounts below this never saturate."""


def add(left: int, right: int) -> int:
    if -EXACT < left < EXACT and -EXACT < right < EXACT:
        return left + right
    if UNLIMITED in (left, right):
        return UNLIMITED
    total = left + right
    if LEAST <= total <= UNLIMITED:
        return total
    return UNLIMITED if total > 0 else LEAST


def sub(left: int, right: int) -> int:
    if -EXACT < left < EXACT and -EXACT < right < EXACT:
        return left - right
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
