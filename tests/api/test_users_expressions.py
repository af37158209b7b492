"""Regular expressions of users are read by RE2: in linear time, and nothing if it cannot."""

import time

import pytest

from pykueue.api import schema_validation, text_formats

TEXT = "a" * 40 + "b"


@pytest.mark.parametrize("expression", ["^(a+)+$", "^(a|aa)+$", "^(a|a)*$"])
def test_a_nested_repetition_is_linear(expression):
    began = time.process_time()
    assert text_formats.regular_expression(expression).search(TEXT) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize("expression", ["(", r"(a)\1", "(?=a)", "a{1001}"])
def test_an_expression_that_re2_cannot_read_matches_nothing(expression):
    assert text_formats.regular_expression(expression).search("aa") is None
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": expression}}}
    assert schema_validation.validate(schema, {"a": "aa"}) != []
