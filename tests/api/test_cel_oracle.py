"""Random expressions mean here what they mean in cel-cpp, another implementation of CEL.

Kubernetes uses cel-go. Where the two are known to differ, no expressions are generated: lists of
mixed types, constants that cannot be converted, `in` an empty list, optional indexes of other values
than lists, texts of doubles, and `format`.
"""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykueue.api.cel import types, values
from pykueue.api.cel.environment import Environment
from pykueue.api.cel.errors import CompilationError, EvaluationError

oracle = pytest.importorskip("cel_expr_python.cel")
extensions = [pytest.importorskip(f"cel_expr_python.ext.ext_{name}") for name in ("bindings", "optional", "strings")]
THEIRS = oracle.NewEnv(
    variables={"self": oracle.Type.DYN},
    extensions=[extensions[0].ExtBindings(), extensions[1].ExtOptional(), extensions[2].ExtStrings()],
)
OURS = Environment({"self": types.DYN}, has_bindings=True)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([0.5, -2.0, 1e10]),
    st.sampled_from(["", "a", "abc", "x,y", "é"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x"]), inner, max_size=2),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries(
    {
        "i": st.integers(-3, 3),
        "s": st.sampled_from(["abc", "", "a"]),
        "b": st.booleans(),
        "l": st.lists(st.integers(-3, 3), max_size=3),
        "m": st.dictionaries(st.sampled_from(["a", "x"]), st.integers(-3, 3), max_size=2),
        "any": VALUES,
    }
)


def joined(template, *parts):
    return st.tuples(*parts).map(lambda texts: template.format(*texts))


def choice(*templates):
    return st.one_of(*templates)


LEAVES = {
    "int": st.sampled_from(["0", "1", "-3", "7", "9223372036854775807", "self.i", "self.l[0]", "self.any", "self.zz"]),
    "string": st.sampled_from(["''", "'a'", "'abc'", "'x,y'", "self.s", "self.any", "'é'"]),
    "bool": st.sampled_from(["true", "false", "self.b", "self.any", "has(self.any)", "has(self.zz)", "has(self.m.x)"]),
    "list": st.sampled_from(["[]", "[1, 2]", "self.l", "self.any", "[self.i]", "[[1], [2]]"]),
    "map": st.sampled_from(["{}", "{'a': 1}", "self.m", "self.any", "{1: 'x', 2: 'y'}"]),
    "double": st.sampled_from(["1.5", "0.0", "-2.0", "1e10"]),
    "duration": st.sampled_from(["duration('1h')", "duration('-90s')", "duration('1ms')"]),
    "timestamp": st.sampled_from(["timestamp('2020-01-01T00:00:00Z')", "timestamp('1999-12-31T23:59:59.5Z')"]),
    "optional": st.sampled_from(["self.?i", "self.?zz", "optional.of(1)", "self.?m.?x", "[1][?0]"]),
}


def grown(smaller):
    """Expressions of each type that contain smaller ones."""
    number, text, truth = smaller["int"], smaller["string"], smaller["bool"]
    items, entries, optional = smaller["list"], smaller["map"], smaller["optional"]
    any_type = st.one_of(*smaller.values())
    loop = st.one_of(items, entries)
    variable_bool = choice(truth, st.sampled_from(["x == 1", "x > 0", "x.a == 1", "x"]))
    return {
        "int": choice(
            number,
            joined("({} {} {})", number, st.sampled_from("+-*/%"), number),
            joined("size({})", st.one_of(text, items, entries)),
            joined("int({} + 0)", number),  # cel-cpp converts a bool, cel-go does not
            joined("int({})", smaller["double"]),
            joined("int({} + '')", text),
            joined("({} ? {} : {})", truth, number, number),
            joined("{}.orValue({})", optional, number),
            joined("({} + '').indexOf({})", text, text),
            joined("cel.bind(y, {}, y + 1)", number),
            joined("{}.getHours()", st.one_of(smaller["duration"], smaller["timestamp"])),
        ),
        "string": choice(
            text,
            joined("({} + {})", text, text),
            joined("{}.{}()", text, st.sampled_from(["lowerAscii", "upperAscii", "trim"])),
            joined("{}.replace({}, {})", text, text, text),
            joined("{}.substring({})", text, number),
            joined("string({})", st.one_of(number, truth)),
        ),
        "bool": choice(
            truth,
            joined("({} {} {})", truth, st.sampled_from(["&&", "||", "=="]), truth),
            joined("!({})", truth),
            joined("({} {} {})", any_type, st.sampled_from(["==", "!="]), any_type),
            joined("({} {} {})", number, st.sampled_from(["<", "<=", ">", ">="]), number),
            joined("({} {} {})", text, st.sampled_from(["<", ">="]), text),
            joined("({} < {})", smaller["duration"], smaller["duration"]),
            joined("({} in ({} + [1]))", number, items),
            joined("({} in {})", text, entries),
            joined("{}.{}(x, {})", loop, st.sampled_from(["all", "exists", "exists_one"]), variable_bool),
            joined("{}.{}({})", text, st.sampled_from(["startsWith", "endsWith", "contains"]), text),
            joined("{}.matches('^[a-c]*$')", text),
            joined("{}.hasValue()", optional),
        ),
        "list": choice(
            items,
            joined("({} + {})", items, items),
            joined("{}.filter(x, {})", items, variable_bool),
            joined("{}.map(x, {})", items, st.sampled_from(["x", "x + 1", "[x]", "x.a"])),
            joined("{}.split(',')", text),
            joined("[dyn({}), dyn({})]", number, number),
        ),
        "map": choice(entries, joined("{{'k': {}}}", number), joined("{{{}: 1}}", text)),
        "double": choice(
            smaller["double"], joined("({} {} {})", smaller["double"], st.sampled_from("+-*/"), smaller["double"])
        ),
        "duration": choice(
            smaller["duration"],
            joined("({} + {})", smaller["duration"], smaller["duration"]),
            joined("({} - {})", smaller["timestamp"], smaller["timestamp"]),
        ),
        "timestamp": choice(smaller["timestamp"], joined("({} + {})", smaller["timestamp"], smaller["duration"])),
        "optional": choice(
            optional,
            joined("optional.of({})", number),
            joined("{}.optMap(y, y)", optional),
            joined("{}.or({})", optional, optional),
            joined("self.l[?{} + 0]", number),
        ),
    }


def results(of_types):
    """cel-cpp cannot return an optional to Python."""
    return st.one_of(*(expressions for name, expressions in of_types.items() if name != "optional"))


EXPRESSIONS = results(grown(grown(LEAVES))) | results(grown(grown(grown(LEAVES))))


def comparable(value):
    """The value with its types, so that True is not 1."""
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return sorted((repr(comparable(key)), comparable(item)) for key, item in values.items(value))
    if isinstance(value, values.Duration):
        return "duration", value.ns // 1000
    if isinstance(value, values.Timestamp):
        return "timestamp", value.ns // 1000
    if hasattr(value, "total_seconds"):
        return "duration", round(value.total_seconds() * 10**6)
    if hasattr(value, "timestamp"):
        return "timestamp", round(value.timestamp() * 10**6)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return (
        (type(value).__name__, value) if value is None or isinstance(value, bool | int | float | str | bytes) else "?"
    )


def theirs(text, obj):
    try:
        program = THEIRS.compile(text)
    except RuntimeError:
        return "refused"
    try:
        result = program.eval(data={"self": obj})
    except RuntimeError:
        return "error"
    if result.type() == oracle.Type.ERROR:
        return "error"
    return comparable(result.plain_value())


def ours(text, obj):
    try:
        program = OURS.compile(text)
    except CompilationError:
        return "refused"
    try:
        value, _ = program.evaluate({"self": obj}, 10**9)
    except EvaluationError:
        return "error"
    if isinstance(value, values.Optional):
        value = None if value is values.NONE else value.value
    return comparable(value)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(EXPRESSIONS, OBJECTS)
def test_random_expressions(text, obj):
    assert ours(text, obj) == theirs(text, obj), f"{text}\n{obj}"


@settings(
    derandomize=True,
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(EXPRESSIONS, st.integers(0, 200), st.sampled_from(["", " ", ")", "(", "'", ".", "1", "]", "+", "&&", "?", "in"]))
def test_slightly_wrong_texts(text, position, insertion):
    """What their parser refuses, ours refuses, and what our parser refuses, theirs refuses."""
    text = text[:position] + insertion + text[position + 1 :]
    try:
        OURS.compile(text)
        message = ""
    except CompilationError as error:
        message = str(error)
    is_refused = theirs(text, {}) == "refused"
    assert message or not is_refused, text
    assert is_refused or "Syntax error" not in message, text
