import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api import quantity

CANONICAL = [
    ("8G", "8G"),
    ("1000m", "1"),
    ("0.5", "500m"),
    ("1.5Gi", "1536Mi"),
    ("1024Ki", "1Mi"),
    ("1023", "1023"),
    ("0.5Ki", "512"),
    ("1e3", "1e3"),
    ("1E3", "1e3"),
    ("1E", "1E"),
    ("12e6", "12e6"),
    ("1u", "1u"),
    ("0.1n", "1n"),
    ("-5", "-5"),
    ("+5", "5"),
    (".5", "500m"),
    ("5.", "5"),
    ("0Gi", "0"),
    ("100000000000000000000", "9223372036854775807"),
    (7, "7"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_form(text, canonical):
    assert str(quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["", " 1", "1 Gi", "1K", "1Zi", "abc", "1.2.3", "--1", "1e", ".", "١", "1" * 300])
def test_what_is_not_a_quantity_is_refused(text):
    with pytest.raises(quantity.QuantityError):
        quantity.parse(text)


def test_sum_of_decimal_memory_shows_as_binary():
    total = quantity.from_units(quantity.parse("20G").units(), quantity.Format.BINARY_SI)
    assert str(total) == "19531250Ki"


def test_fractions_of_a_unit_round_up():
    assert quantity.parse("1.0001").milli() == 1001


@given(st.integers(-(2**62), 2**62), st.sampled_from(quantity.Format))
def test_printing_and_parsing_agree(units, quantity_format):
    canonical = quantity.Quantity(units * quantity.NANO_PER_UNIT, quantity_format)
    assert quantity.parse(str(canonical)).nano == canonical.nano


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_addition_is_exact(left, right):
    total = quantity.Quantity(left) + quantity.Quantity(right)
    assert total.nano == left + right


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(quantity.QuantityError):
        assert quantity.parse(text) is not None
