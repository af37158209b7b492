import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.cluster.job_controller import indexes


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([1, 2], "1,2"), ([0, 1, 2, 5, 7, 8], "0-2,5,7,8")]
)
def test_text_is_compressed_as_kubernetes_does(numbers, text):
    assert indexes.text(numbers) == text


@given(st.frozensets(st.integers(0, 60)))
def test_text_reads_back(numbers):
    assert indexes.parse(indexes.text(numbers), 61) == numbers


def test_indexes_beyond_completions_are_dropped():
    assert indexes.parse("0-9,12", 3) == {0, 1, 2}


def test_an_unreadable_interval_is_skipped():
    assert indexes.parse("1,x-3,5", 10) == {1, 5}


def test_first_missing_are_the_lowest_free():
    assert indexes.first_missing(frozenset({0, 2}), 6, 2) == [1, 3]
