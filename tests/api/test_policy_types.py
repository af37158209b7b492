"""Expressions of policies are checked with the types of `request` and of their variables."""

import pytest

from pykueue.api.cel.errors import EvaluationError
from pykueue.api.policy_expressions import ANY, BOOL, TEXT, Scope, compile_expression, variable_types


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("request.foo == 1", "undefined field 'foo'"),
        ("request.kind.foo == ''", "undefined field 'foo'"),
        ("request.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("request.userInfo.groups.exists(g, g == 1)", "found no matching overload for '_==_'"),
        ("variables.b", "undefined field 'b'"),
        ("variables.a + 1 == 2", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("params.x", "undeclared reference to 'params'"),
        ("authorizer.group('').foo()", "undeclared reference to 'foo'"),
        ("authorizer.resource('pods').check('get').allowed()", "found no matching overload for 'resource'"),
        ("cel.bind(x, 1, x == 1)", "undeclared reference to 'cel'"),
        ("jsonpatch.escapeKey('a') == 'a'", "undeclared reference to 'jsonpatch'"),
        ("Object{} == Object{}", "undeclared reference to 'Object'"),
    ],
)
def test_refused(text, message):
    scope = Scope(variables=variable_types([{"name": "a", "expression": "'text'"}], has_params=False))
    with pytest.raises(EvaluationError) as caught:
        compile_expression(text, scope, ANY)
    assert "compilation failed: ERROR: <input>:1:" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "results", "words"),
    [("1", BOOL, "must evaluate to bool"), ("object", BOOL, ""), ("true", TEXT, "must evaluate to string")],
)
def test_results(text, results, words):
    if not words:
        assert compile_expression(text, Scope(), results).text == text
        return
    with pytest.raises(EvaluationError, match=words):
        compile_expression(text, Scope(), results)


def test_accepted():
    variables = [{"name": "a", "expression": "object.x"}, {"name": "b", "expression": "variables.a.map(x, string(x))"}]
    types = variable_types(variables, has_params=True)
    assert [str(of_variable) for _, of_variable in types] == ["dyn", "list(string)"]
    text = "request.userInfo.?extra['k'].orValue([]).exists(x, x in variables.b) && request.options.?dryRun != params.y"
    assert compile_expression(text, Scope(has_params=True, variables=types), BOOL).text == text
