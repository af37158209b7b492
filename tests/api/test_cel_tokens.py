"""The types of mutations are written as maps, and nothing else of an expression changes."""

import pytest

from pykueue.api import cel_tokens


@pytest.mark.parametrize(
    ("text", "as_maps"),
    [
        ("Object{}", "{}"),
        ("Object{a: 1}", "{'a': 1}"),
        ("Object{spec: Object.spec{a: b ? c : d}}", "{'spec': {'a': b ? c : d}}"),
        ("Object{?a: object.?b}", "{?'a': object.?b}"),
        ("Object{a: {b: c, 'd': 1}}", "{'a': {b: c, 'd': 1}}"),
        ("Object{a: 'Object{b: 1}'}", "{'a': 'Object{b: 1}'}"),
        ("[JSONPatch{op: x, value: Object.y{z: 1}}]", "[{'op': x, 'value': {'z': 1}}]"),
        ("Object{`a.b`: 1, __namespace__: 2}", "{'a.b': 1, 'namespace': 2}"),
        ("object.Object == Object", "object.Object == Object"),
        ("f(Object{l: [Object.l{n: 1}, Object.l{n: 2}]})", "f({'l': [{'n': 1}, {'n': 2}]})"),
    ],
)
def test_as_maps(text, as_maps):
    assert cel_tokens.as_maps(text) == as_maps


def test_a_type_must_fit_its_field():
    with pytest.raises(cel_tokens.TypeMismatchError, match=r"field spec must be a Object.spec, not a Object.other"):
        cel_tokens.as_maps("Object{spec: Object.other{}}")


def test_used_variables():
    text = "variables.a + x.variables.b + variables.?c.orValue('variables.d') // variables.e"
    assert cel_tokens.used_variables(text) == {"a", "c"}
