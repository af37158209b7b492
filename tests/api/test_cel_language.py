"""CEL as Kubernetes 1.36 reads, checks, evaluates and counts it."""

import subprocess
import sys

import pytest
from tests.api import cel_cases
from tests.api.cel_cases import ENVIRONMENT, VARIABLES, evaluate

from pykueue.api.cel import cost as costs
from pykueue.api.cel.errors import CelError, CompilationError, CostLimitError


@pytest.mark.parametrize("text", cel_cases.lines(cel_cases.TRUE))
def test_holds(text):
    assert evaluate(text)[0] is True


@pytest.mark.parametrize(("text", "message"), cel_cases.pairs(cel_cases.ERRORS))
def test_errors(text, message):
    with pytest.raises(CelError) as caught:
        evaluate(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("text", "message"), cel_cases.pairs(cel_cases.REFUSALS))
def test_refusals(text, message):
    with pytest.raises(CompilationError) as caught:
        ENVIRONMENT.compile(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "cost"), cel_cases.pairs(cel_cases.COSTS))
def test_costs(text, cost, monkeypatch):
    """The costs of Kubernetes, without what we add because Python takes longer."""
    monkeypatch.setattr(costs, "PARSING", 0)
    monkeypatch.setattr(costs, "ABSORBED_ERROR", 0)
    assert evaluate(text)[1] == int(cost)


def test_reading_a_text_and_catching_an_error_cost_more():
    assert evaluate("quantity('1').isInteger()")[1] == 2 + costs.PARSING
    assert evaluate("self.a.b || true")[1] == 3 + costs.ABSORBED_ERROR


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("self.a", "dyn"),
        ("i + 1", "int"),
        ("self.l.map(x, string(x))", "list(string)"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("self.?a", "optional_type(dyn)"),
        ("[]", "list(dyn)"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("[JSONPatch{}]", "list(JSONPatch)"),
        ("Object.spec{}", "Object.spec"),
        ("null", "null"),
        ("type(1)", "type(int)"),
    ],
)
def test_types(text, name):
    assert str(ENVIRONMENT.compile(text).result_type) == name


def test_the_place_of_a_fault_is_shown():
    with pytest.raises(CompilationError) as caught:
        ENVIRONMENT.compile("true &&\n  x")
    assert str(caught.value) == ("ERROR: <input>:2:3: undeclared reference to 'x' (in container '')\n |   x\n | ..^")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "[" * 5000,
        "-" * 9000 + "x",
        "1" + " + 1" * 5000,
        "self" + ".a" * 5000,
        "self" + "[0]" * 5000,
        "true ? " * 3000 + "1",
        "optional.of(1)" + ".optMap(x, x)" * 300,
        "a" * 200_000,
        "'" * 99_999,
        '"""' + "\\" * 9999,
        "\x00",
        "9" * 5000,
        "1e999999999",
        "{" * 999 + "'a': " * 999,
        "self.l" + ".map(x, self.l" * 300,
        "optional.of(1)" + ".optMap(x, {x: x})" * 60,
        "".join(f"cel.bind(v{number}, {{v{number - 1}: v{number - 1}}}, " for number in range(1, 60)).replace(
            "v0", "1"
        ),
        "\ud800",
        "'a'.matches('\ud800')",
    ],
)
def test_hostile_texts_are_refused(text):
    with pytest.raises(CompilationError):
        ENVIRONMENT.compile(text)


def test_a_chain_of_optional_values_is_compiled_and_evaluated_once():
    """cel-go evaluates each operand twice, so the cost doubles with each step; the time does not."""
    text = "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()"
    with pytest.raises(CostLimitError):
        evaluate(text)
    assert evaluate(text, limit=2**300)[0] is True
    assert evaluate("optional.of(1).optMap(x, x).optMap(x, x)")[1] == 16


def test_long_chains_of_terms_are_not_deep():
    assert evaluate("true" + " && true" * 9000)[0] is True
    assert evaluate("false" + " || self.a == 1" * 3000)[0] is True


def test_a_deep_value_is_no_crash():
    deep = []
    for _ in range(5000):
        deep = [deep]
    other = []
    for _ in range(5000):
        other = [other]
    with pytest.raises(CelError):
        evaluate("self.a == self.b", {"self": {"a": deep, "b": other}}, 10**9)


@pytest.mark.parametrize("text", ["self.matches('a')", "bytes(self) == b''", "self.indexOf('a') == 0"])
def test_half_a_character_is_no_crash(text):
    with pytest.raises(CelError, match="a character that UTF-8 does not have"):
        evaluate(text, {"self": "\ud800"})


def test_a_variable_without_a_value():
    with pytest.raises(CelError, match=r"no such attribute\(s\): i"):
        evaluate("i + 1", {"self": 1})


def test_nothing_absorbs_the_limit():
    large = {"self": list(range(1000))}
    for text in (
        "self.all(x, self.all(y, x + y >= 0)) || true",
        "self.exists(x, self.all(y, y >= 0) && false) || true",
    ):
        with pytest.raises(CostLimitError, match="operation cancelled: actual cost limit exceeded"):
            evaluate(text, large, 100_000)


def test_an_error_has_its_cost():
    with pytest.raises(CelError) as caught:
        evaluate("self.l.all(x, x > 0) && self.q")
    assert caught.value.cost >= 18


def test_map_keys_keep_their_types():
    assert evaluate("{true: 1, false: 2}.map(k, k)")[0] == [True, False]
    assert evaluate("{1: 'a'}.all(k, k == 1)")[0] is True


def test_values_are_not_changed():
    before = repr(VARIABLES)
    evaluate("self.l + [4] == self.l.map(x, x) || self.m.transformMap(k, v, v).size() == 9")
    assert repr(VARIABLES) == before


def test_commands_do_not_load_the_interpreter():
    code = "import sys, pykueue.cli.main; sys.exit(any(name in sys.modules for name in MODULES))"
    modules = repr(["pykueue.api.cel.environment", "pykueue.api.cel.planner", "re2"])
    assert subprocess.run([sys.executable, "-c", code.replace("MODULES", modules)], check=False).returncode == 0
