import pytest

from pykueue.engine.quota import amounts
from pykueue.engine.quota.amounts import LEAST, UNLIMITED


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (1, 2, 3),
        (UNLIMITED, -5, UNLIMITED),
        (5, UNLIMITED, UNLIMITED),
        (UNLIMITED - 1, 1, UNLIMITED),
        (LEAST, -1, LEAST),
    ],
)
def test_add_saturates(left, right, total):
    assert amounts.add(left, right) == total


@pytest.mark.parametrize(
    ("left", "right", "difference"),
    [(3, 5, -2), (UNLIMITED, 7, UNLIMITED), (7, UNLIMITED, LEAST), (UNLIMITED, UNLIMITED, 0), (LEAST, 1, LEAST)],
)
def test_sub_keeps_unlimited(left, right, difference):
    assert amounts.sub(left, right) == difference


def test_mul_saturates():
    assert amounts.mul(2**62, 4) == UNLIMITED
