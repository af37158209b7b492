"""CEL that costs too much is an invalid value, and never stops the server."""

import pytest

from pykueue.api import cel, cel_library, schema_validation, text_formats


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", list(range(1000))),
        ("self.map(x, x).size() > 0", list(range(20_000))),
        ("self.split('').map(x, self).size() > 0", "a" * 30_000),
        ("self.replace('a', self).size() > 0", "a" * 100_000),
    ],
)
def test_a_rule_that_costs_too_much_cannot_be_evaluated(rule, value):
    with pytest.raises(cel.EvaluationError):
        cel_library.compile_rule(rule)(value, None)


def test_the_budget_is_a_field_error():
    rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    schema = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]}
    whole = {"type": "object", "properties": {"a": schema}}
    (error,) = schema_validation.validate(whole, {"a": list(range(1000))})
    assert error.detail.startswith("operation cancelled: actual cost limit exceeded evaluating rule: ")


@pytest.mark.parametrize(
    "text",
    [
        "cel.bind(a, 'xx', cel.bind(b, a + a, cel.bind(c, b + b, c.size() > 0)))",
        "'a'" + ".replace('a', 'aaaaaaaaaa')" * 9 + ".size() > 0",
        "[" + "1," * 2000 + "1].map(x, x).size() > 0",
        "true" + " || true" * 3000,
    ],
)
def test_a_user_cannot_write_an_expression_that_grows(text):
    with pytest.raises(cel_library.CompilationError):
        cel_library.compile_selector(text)


NAMES = frozenset({"object"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("object.split('').map(x, x).size() > 0", "a" * 30_000),
        ("object.replace('a', object).size() > 0", "a" * 30_000),
        ("object.map(x, x + x).size() > 0", ["a" * 100_000]),
        ("object.filter(x, true).size() > 0", list(range(501))),
        ("object.all(x, object.all(y, true))", list(range(5000))),
    ],
)
def test_an_object_cannot_make_a_policy_expensive(text, value):
    expression = cel_library.compile_policy(text, NAMES)
    with pytest.raises(cel.EvaluationError):
        cel_library.evaluate_with(expression, {"object": value})


def test_a_policy_reads_long_texts_that_it_does_not_multiply():
    expression = cel_library.compile_policy("object.filter(x, x.size() > 9).size() == 1", NAMES)
    assert cel_library.evaluate_with(expression, {"object": ["a" * 1_000_000]}) is True


def test_an_ordinary_selector_is_compiled():
    expression = cel_library.compile_selector('device.driver == "gpu.x.io" && device.a.all(x, x > 0)')
    assert cel_library.evaluate_with(expression, {"device": {"driver": "gpu.x.io", "a": [1]}}) is True


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("^(a+)+$", "a" * 5000 + "b", False), ("^a$", "a\n", False), ("(?i)^A$", "a", True), ("(?=a)", "a", False)],
)
def test_patterns_are_those_of_go(pattern, text, matches):
    assert (text_formats.pattern(pattern).search(text) is not None) is matches
