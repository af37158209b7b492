"""CEL that costs too much is an invalid value, and never stops the server."""

import pytest
from tests.api.cel_cases import evaluate

from pykueue.api import schema_validation, text_formats
from pykueue.api.cel import limits, programs
from pykueue.api.cel.authorizer import AuthorizerValue
from pykueue.api.cel.errors import CompilationError, CostLimitError, EvaluationError
from pykueue.api.cel.limits import Budget
from pykueue.api.policy_expressions import BOOL, Evaluation, Scope, compile_expression
from pykueue.translate.device_selectors import DeviceSelector, SelectorError

CUBE = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (CUBE, list(range(1000))),
        ("self.map(x, x).size() > 0", list(range(20_000))),
        ("self.split('').map(x, self).size() > 0", "a" * 30_000),
        ("self.replace('a', self).size() > 0", "a" * 100_000),
        ("self.findAll('a').size() > 0", "a" * 100_000),
        ("self.split(',').all(x, x.findAll('a').size() > 0)", ",".join(["a" * 1000] * 20)),
        ("lists.range(999999999999).size() > 0", 1),
        ("self.sort().size() > 0", list(range(5000))),
        ("self.map(x, self.map(y, x + y)).flatten().size() > 0", ["a" * 1000] * 100),
    ],
)
def test_a_rule_that_costs_too_much_cannot_be_evaluated(rule, value):
    with pytest.raises(CostLimitError):
        programs.check_rule(rule, value, None, Budget())


def schema_of(*rules):
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    return {"type": "object", "properties": {"a": {"type": "array", "items": items}}}


def test_the_limit_is_a_field_error():
    schema = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": CUBE}]}
    whole = {"type": "object", "properties": {"a": schema}}
    (error,) = schema_validation.validate(whole, {"a": list(range(1000))})
    assert error.detail.startswith("operation cancelled: actual cost limit exceeded evaluating rule: ")


def test_the_rules_of_an_object_have_one_budget():
    loop = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, x + self > 0)"
    assert schema_validation.validate(schema_of(loop), {"a": list(range(1000))}) == []
    (error,) = schema_validation.validate(schema_of(loop), {"a": list(range(20_000))})
    assert "running out of cost budget, no further validation rules will be run" in error.detail


def evaluation(variables=None, **values):
    return Evaluation(values=values, variables=variables or {})


def test_the_expressions_of_a_policy_have_one_budget():
    expression = compile_expression("object.all(k, k.startsWith('a'))", Scope(), BOOL)
    run = evaluation(object={f"a{number}": "" for number in range(3000)})
    assert run.run(expression) is True
    with pytest.raises(EvaluationError, match="running out of cost budget"):
        assert [run.run(expression) for _ in range(50)]
    assert run.budget.remaining > -limits.PER_CALL_LIMIT


def test_an_expression_that_fails_uses_the_budget():
    expression = compile_expression("object.all(k, k.startsWith('a')) && object.q", Scope(), BOOL)
    run = evaluation(object={f"a{number}": "" for number in range(3000)})
    with pytest.raises(EvaluationError, match="no such key: q"):
        run.run(expression)
    assert run.budget.remaining < limits.RUNTIME_BUDGET - 9000


def test_a_variable_is_evaluated_once_and_its_cost_counts():
    variable = compile_expression("object.filter(x, x > 0)", Scope())
    scope = Scope(variables=(("large", variable.type),))
    expression = compile_expression("variables.large.size() > 0 && variables.large.size() < 999999", scope, BOOL)
    run = evaluation({"large": variable}, object=list(range(1000)))
    assert run.run(expression) is True
    once = limits.RUNTIME_BUDGET - run.budget.remaining
    assert run.run(expression) is True
    assert 10_000 < once < 20_000
    assert limits.RUNTIME_BUDGET - run.budget.remaining < once + 20


def test_an_expression_may_check_access_twice():
    check = "authorizer.group('').resource('pods').check('get').allowed()"
    run = evaluation(authorizer=AuthorizerValue({}, lambda check: True))
    assert run.run(compile_expression(" && ".join([check] * 2), Scope(), BOOL)) is True
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        run.run(compile_expression(" && ".join([check] * 3), Scope(), BOOL))


def test_a_selector_is_short():
    with pytest.raises(CompilationError, match="longer than 10240 characters"):
        programs.compile_selector("true" + " || true" * 3000)


@pytest.mark.parametrize("text", ["device.driver", "1", "device.foo == 1", "self == 1"])
def test_a_selector_is_about_a_device(text):
    with pytest.raises(CompilationError):
        programs.compile_selector(text)


DEVICE = {"driver": "gpu.x.io", "attributes": {"gpu.x.io": {"l": ["x"] * 45}}, "capacity": {}}
LOOP = "device.attributes['gpu.x.io'].l"


def test_a_selector_costs_little_for_a_device():
    with pytest.raises(SelectorError, match="cost limit exceeded"):
        DeviceSelector([f"{LOOP}.all(a, {LOOP}.all(b, {LOOP}.all(c, a + b + c != '')))"]).matches(DEVICE)


def test_a_selector_may_be_dear_for_few_devices():
    selector = DeviceSelector([f"{LOOP}.all(a, {LOOP}.all(b, a == b))"])
    assert selector.matches(DEVICE)
    with pytest.raises(SelectorError, match="running out of cost budget"):
        assert [selector.matches(DEVICE) for _ in range(20)]


def test_an_ordinary_selector_matches_any_number_of_devices():
    text = "device.driver == 'gpu.x.io' && device.attributes['gpu.x.io'].l.exists(x, x == 'x')"
    selector = DeviceSelector([text])
    assert all(selector.matches(DEVICE) for _ in range(2000))


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("^(a+)+$", "a" * 5000 + "b", False), ("^a$", "a\n", False), ("(?i)^A$", "a", True), ("(?=a)", "a", False)],
)
def test_patterns_are_those_of_go(pattern, text, matches):
    assert (text_formats.pattern(pattern).search(text) is not None) is matches


def test_a_policy_reads_long_texts_that_it_does_not_multiply():
    assert evaluate("self.filter(x, x.size() > 9).size() == 1", {"self": ["a" * 1_000_000]}, 100)[0] is True
